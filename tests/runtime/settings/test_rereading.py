"""A settings file that is changed while an agent is open: what counts at the next turn, and what is told."""

from __future__ import annotations

from pathlib import Path

from nacre.runtime.contracts.events import Event, ReplyReady, Warned
from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.runtime.settings.changes import taken_over
from nacre.runtime.settings.settings import Settings
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
            "The changed settings count from now on: agents.defaults.maxSteps.",
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
        assert "the old ones hold" in sentence
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


def test_what_was_told_or_changed_back_is_no_news() -> None:
    """Changes are counted from what the file said last, and those that wait from what is in use."""
    running = Settings()
    changed = Settings.model_validate({"memory": {"citations": "off"}, "tools": {"rules": {"x": {}}}})

    first = taken_over(running, running, changed)
    assert (first.at_once, first.later) == (("tools.rules",), ("memory.citations",))
    assert taken_over(first.settings, changed, changed).sentences == ()
    back = taken_over(first.settings, changed, running)
    assert (back.at_once, back.later) == (("tools.rules",), ())


def test_keys_of_others_are_not_told() -> None:
    """Channels are taken over by `nacre serve`, and other agents read their own settings."""
    now = Settings.model_validate({"channels": {"irc": {}}, "agents": {"list": [{"id": "work"}]}})

    assert taken_over(Settings(), Settings(), now).sentences == ()
