"""Kill -9 between any two writes: nothing that was said or noted is lost, and the session opens again."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.sessions.contracts.messages import message_text
from tests.faults.drivers import driven
from tests.runtime.agents import opened, said, user_texts

TESTS = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("driver", "least_kills"),
    [
        pytest.param("faults/crash_driver.py", 41, id="a conversation"),
        pytest.param("faults/ending_crash_driver.py", 41, id="the end of a session"),
        pytest.param("sessions/index/crash_driver.py", 15, id="changes of the index"),
        pytest.param("sessions/journal/crash_driver.py", 30, id="transcripts"),
    ],
)
@pytest.mark.covers("W5-1", "ASK-16")
def test_a_kill_between_any_two_writes_loses_nothing(tmp_path: Path, driver: str, least_kills: int) -> None:
    """Killed before its first write, its second, …: the next program goes on, and no line, note or message is
    missing or there twice. What it looks at stands in the driver, which forks a child for each place.
    """
    outcomes = driven(TESTS / driver, tmp_path, seconds=800)
    assert len([outcome for outcome in outcomes if outcome["killed"]]) >= least_kills
    assert (outcomes[-1]["killed"], outcomes[-1]["status"]) == (False, 0)
    assert [outcome for outcome in outcomes if outcome["problem"]] == []


@pytest.mark.slow
@pytest.mark.covers("ATT-10")
def test_a_kill_while_notes_are_saved_notes_nothing_in_other_words(tmp_path: Path) -> None:
    """Killed before any write of a flush, the next flush goes on: what was told is noted, and once.

    The model would say it otherwise each time; until its first words are on disk, the others count.
    """
    outcomes = driven(TESTS / "faults/apart/flush_crash_driver.py", tmp_path)
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
