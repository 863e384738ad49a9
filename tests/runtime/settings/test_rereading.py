"""A settings file that is changed while an agent is open: what counts at the next turn, and what is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.runtime.contracts.errors import SpendingCapReached
from nacre.runtime.contracts.events import Event, ReplyReady, Warned
from nacre.runtime.models.scripted import Clock, ScriptedModel, says
from nacre.runtime.models.spending import Estimate
from nacre.runtime.settings.changes import apply_changes
from nacre.runtime.settings.config import SettingsInFile, load_config
from nacre.runtime.settings.settings import Settings
from nacre.runtime.settings.spending import spending_ledger
from nacre.sessions.contracts.messages import Usage
from tests.runtime.agents import events_of, opened, said, write_settings


def told(events: list[Event]) -> list[str]:
    return [event.message for event in events if isinstance(event, Warned)]


def settings(tmp_path: Path, **defaults: object) -> None:
    write_settings(tmp_path, {"agents": {"defaults": defaults}})


async def test_a_change_counts_at_the_next_turn_and_is_told_once(tmp_path: Path) -> None:
    """What every turn reads counts at once; the window, which a model was opened with, at the next start."""
    async with opened(tmp_path, ScriptedModel(*[says("Yes.")] * 3)) as agent:
        assert told(await events_of(agent, said("one"))) == []
        settings(tmp_path, maxSteps=3, contextTokens=90_000)
        assert told(await events_of(agent, said("two"))) == [
            "The changed settings apply from now on: agents.defaults.maxSteps.",
            "These take effect at the next start: agents.defaults.contextTokens.",
        ]
        assert (agent.settings.agent.max_steps, agent.settings.agent.context_tokens) == (3, None)
        assert told(await events_of(agent, said("three"))) == []


async def test_a_broken_file_keeps_the_old_settings(tmp_path: Path) -> None:
    """A sentence says what is wrong, once; when it is mended, the new settings count."""
    settings(tmp_path, maxSteps=7)
    async with opened(tmp_path, ScriptedModel(*[says("Yes.")] * 3)) as agent:
        settings(tmp_path, maxSteps="many")
        events = await events_of(agent, said("one"))
        assert isinstance(events[-1], ReplyReady)
        [sentence] = told(events)
        assert "the old ones apply" in sentence
        assert "agents.defaults.maxSteps" in sentence
        assert agent.settings.agent.max_steps == 7
        assert told(await events_of(agent, said("two"))) == []
        settings(tmp_path, maxSteps=9)
        assert told(await events_of(agent, said("three"))) != []
        assert agent.settings.agent.max_steps == 9


async def test_a_group_hears_nothing_of_settings(tmp_path: Path) -> None:
    """They count there, too; the owner is told at the next word in private."""
    async with opened(tmp_path, ScriptedModel(*[says("Yes.")] * 2)) as agent:
        settings(tmp_path, maxSteps=3)
        elsewhere = said(
            "one", chat_kind="group", chat_id="g", channel="irc", sender_id="ann", is_owner=False
        )
        assert told(await events_of(agent, elsewhere)) == []
        assert agent.settings.agent.max_steps == 3
        assert len(told(await events_of(agent, said("two")))) == 1


async def test_a_raised_cap_lets_an_open_program_go_on_today(tmp_path: Path) -> None:
    """All that write down costs hold to it from the moment at which the file is read anew."""
    write_settings(tmp_path, {"usage": {"dailyCapUsd": 1}})
    config = load_config({}, state_dir=tmp_path)
    ledger, file = spending_ledger(config, Clock()), SettingsInFile(config)
    await ledger.spend("turn", "a/b", Usage(input_tokens=1, cost_usd=1.5), at_ms=0)
    with pytest.raises(SpendingCapReached, match=r"of the \$1.00 a day"):
        await ledger.reserve("turn", "a/b", Estimate(prompt_usd=0.1))

    write_settings(tmp_path, {"usage": {"dailyCapUsd": 2}})
    assert file.look(config.settings) is not None
    (await ledger.reserve("turn", "a/b", Estimate(prompt_usd=0.1))).release()
    assert file.take_notices() == ("The changed settings apply from now on: usage.dailyCapUsd.",)


@pytest.mark.parametrize("left", [b"", b" \n", None])
def test_a_settings_file_that_is_emptied_while_a_program_runs_changes_nothing(
    tmp_path: Path, left: bytes | None
) -> None:
    """The last settings hold, which is told once; an empty object means all defaults."""
    write_settings(tmp_path, {"usage": {"dailyCapUsd": 1}})
    config = load_config({}, state_dir=tmp_path)
    file, path = SettingsInFile(config), tmp_path / "nacre.json5"
    path.unlink() if left is None else path.write_bytes(left)

    assert file.look(config.settings) is None
    assert config.daily_cap.usd == 1
    assert len(file.take_notices()) == 1
    assert file.look(config.settings) is None
    assert file.take_notices() == ()

    path.write_text("{}", encoding="utf-8")
    assert file.look(config.settings) is not None
    assert config.daily_cap.usd is None


def test_what_was_told_or_changed_back_is_no_news() -> None:
    """Changes are counted from what the file said last, and those that wait from what is in use."""
    running = Settings()
    changed = Settings.model_validate({"memory": {"citations": "off"}, "tools": {"rules": {"x": {}}}})

    first = apply_changes(running, running, changed)
    assert (first.at_once, first.later) == (("tools.rules",), ("memory.citations",))
    assert apply_changes(first.settings, changed, changed).sentences == ()
    back = apply_changes(first.settings, changed, running)
    assert (back.at_once, back.later) == (("tools.rules",), ())


def test_keys_of_others_are_not_told() -> None:
    """Channels are taken over by `nacre serve`, and other agents read their own settings."""
    now = Settings.model_validate({"channels": {"irc": {}}, "agents": {"list": [{"id": "work"}]}})

    assert apply_changes(Settings(), Settings(), now).sentences == ()
