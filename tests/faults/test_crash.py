"""Kill -9 between any two writes of a turn: no user message is lost and the session opens again."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.sessions.contracts.messages import message_text
from tests.faults.drivers import driven
from tests.runtime.agents import opened, said, user_texts

DRIVER = Path(__file__).with_name("crash_driver.py")


@pytest.mark.slow
def test_a_kill_between_any_two_writes_loses_no_user_message(tmp_path: Path) -> None:
    """A conversation with tools, flush and compaction is killed before its first write, its second, …

    The driver forks a child for each place, so that all of them are tried; a child prints each
    message at the moment its model is first asked about it, which is when it must be on disk.
    """
    outcomes = driven(DRIVER, tmp_path)
    assert len([outcome for outcome in outcomes if outcome["killed"]]) > 40
    assert not outcomes[-1]["killed"]
    problems = [outcome for outcome in outcomes if outcome["problem"]]
    assert problems == []


@pytest.mark.slow
def test_a_kill_while_notes_are_saved_notes_nothing_in_other_words(tmp_path: Path) -> None:
    """Killed before any write of a flush, the next flush goes on: what was told is noted, and once.

    The model would say it otherwise each time; until its first words are on disk, the others count.
    """
    outcomes = driven(DRIVER.parent / "apart" / "flush_crash_driver.py", tmp_path)
    assert len([outcome for outcome in outcomes if outcome["killed"]]) > 20
    assert not outcomes[-1]["killed"]
    first, other = ["- The gate code is 4711."], ["- One opens the gate with 4711."]
    noted = [outcome["notes"] for outcome in outcomes]
    assert [notes for notes in noted if notes not in (first, other)] == []
    assert noted.count(first) > 10


async def test_a_session_killed_in_mid_line_opens_and_goes_on(tmp_path: Path) -> None:
    """The torn line is set aside and told; the words before it are all there."""
    async with opened(tmp_path, ScriptedModel(says("Hi."))) as agent:
        await agent.respond(said("keep this"))
    [file] = (tmp_path / "agents/main/sessions").glob("*.jsonl")
    with file.open("ab") as stream:
        stream.write(b'{"type":"message","id":"zzzz","parentId":"ab')

    model = ScriptedModel(says("Still here."))
    async with opened(tmp_path, model, ids="second-") as agent:
        await agent.respond(said("and this"))

    assert [message_text(message) for message in model.requests[0].messages] == [
        "keep this",
        "Hi.",
        "and this",
    ]
    assert user_texts(file) == ["keep this", "and this"]
    [aside] = file.parent.glob("*.corrupt-*")
    assert b'"id":"zzzz"' in aside.read_bytes()
