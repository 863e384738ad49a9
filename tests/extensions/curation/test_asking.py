"""A model is asked about the logs in parts that fit its window; what it says earlier is known later."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from nacre.extensions.curation.edits import tidied
from nacre.extensions.curation.model_edits import MOST_CALLS, TidyLimits, ask_for_edits
from nacre.extensions.curation.notes import TidyNotes, places
from nacre.memory.files.proposals import ProposalFailed
from nacre.runtime.contracts.errors import ModelError
from nacre.runtime.models.scripted import Clock, ScriptedModel, fails, says
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import START

MEMORY = "# M\n\n## Facts\n\n- The gate is green.\n"
LIMITS = TidyLimits(window_tokens=3_000, most_chars=2_000, count_tokens=lambda text: len(text) // 4)


def _notes(days: int) -> TidyNotes:
    texts = {"MEMORY.md": MEMORY} | {
        f"memory/2026-01-{day:02}.md": "\n".join(
            f"- line {line} of day {day} {'x' * 60}" for line in range(25)
        )
        for day in range(1, days + 1)
    }
    found = [place for path, text in texts.items() for place in places(path, text)]
    return TidyNotes(path="MEMORY.md", texts=texts, places=tuple(found), left_out=frozenset(), others_count=0)


def _answer(*edits: object) -> str:
    return json.dumps({"edits": edits})


def _asked(model: ScriptedModel) -> Sequence[str]:
    return [message_text(request.messages[0]) for request in model.requests]


async def test_parts_are_asked_oldest_first_and_the_newest_are_not_left_out() -> None:
    """No request is larger than the window leaves room for; what was left out is told by its day."""
    model = ScriptedModel(*(says(_answer(), purpose="tidy") for _ in range(MOST_CALLS)))
    answer = await ask_for_edits(model, _notes(12), LIMITS, Clock(START))
    asked = _asked(model)

    assert answer.edits == ()
    assert all(len(text) // 4 < 2_000 for text in asked)
    assert "> memory/2026-01-12.md#L25: - line 24 of day 12" in asked[-1]
    assert "2026-01-12.md" not in asked[0]
    assert answer.not_read_until
    assert f"{answer.not_read_until}.md#L1:" not in asked[0]


async def test_a_later_part_knows_what_an_earlier_one_wrote() -> None:
    """A line that was folded in can be superseded by one of a later day."""
    notes = _notes(3)
    first = {"at": "memory/2026-01-01.md#L1", "says": notes.log_places[0].text}
    newer = {"at": "memory/2026-01-03.md#L25", "says": notes.log_places[-1].text}
    model = ScriptedModel(
        says(_answer({"from": [first], "write": "- line 0", "under": "Facts"}), purpose="tidy"),
        says(
            _answer({"remove": [{"at": "MEMORY.md#L6", "says": "- line 0"}], "superseded_by": newer}),
            purpose="tidy",
        ),
    )
    answer = await ask_for_edits(model, notes, LIMITS, Clock(START))

    assert "> MEMORY.md#L6: - line 0" in _asked(model)[1]
    assert tidied("MEMORY.md", MEMORY, answer.edits).after == MEMORY
    assert tidied("MEMORY.md", MEMORY, answer.edits[1:]).edits == ()


async def test_what_notes_and_logs_both_say_is_not_sent() -> None:
    """And a note without logs is looked at for itself, once it has two lines."""
    texts = {"MEMORY.md": MEMORY + "- It is blue.\n", "memory/2026-01-01.md": "* The gate is  green.\n"}
    found = tuple(place for path, text in texts.items() for place in places(path, text))
    notes = TidyNotes(path="MEMORY.md", texts=texts, places=found, left_out=frozenset(), others_count=0)
    model = ScriptedModel(says(_answer(), purpose="tidy"))
    await ask_for_edits(model, notes, LIMITS, Clock(START))

    assert "memory/2026-01-01.md#L1: *" not in _asked(model)[0]


async def test_a_window_without_room_and_a_model_that_fails_are_told() -> None:
    """Nothing is asked in a window too small, and the provider's sentence is passed on."""
    small = TidyLimits(window_tokens=800, most_chars=2_000, count_tokens=LIMITS.count_tokens)
    with pytest.raises(ProposalFailed, match="has no room for logs"):
        await ask_for_edits(ScriptedModel(), _notes(1), small, Clock(START))
    model = ScriptedModel(fails(ModelError("The provider sleeps."), purpose="tidy"))
    with pytest.raises(ProposalFailed, match=r"Nothing was changed\. The provider sleeps\."):
        await ask_for_edits(model, _notes(1), LIMITS, Clock(START))
