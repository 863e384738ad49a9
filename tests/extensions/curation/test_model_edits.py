"""A model reads the logs in parts, and an answer is used only if its lines exist and none is lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from nacre.extensions.curation.edits import TidiedNote, tidied
from nacre.extensions.curation.model_edits import (
    MOST_CALLS,
    AnswerBroken,
    TidyInput,
    TidyLimits,
    ask_for_edits,
    edits_in,
)
from nacre.extensions.curation.notes import TidyNotes, places
from nacre.memory.files.proposals import ProposalFailed
from nacre.runtime.contracts.errors import ModelError
from nacre.runtime.models.scripted import Clock, ScriptedModel, fails, says
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import START

MEMORY = """# Notes

## Facts

- The gate code is 4711.
- Boat: Seagull
  - green

## People

- Anna phone: 555-1234
"""
LOG = """# 2026-03-01

- Anna phone: 555-9999
- Tea, not coffee.
- The gate code is 4712.
"""
DAY = "memory/2026-03-01.md"
GIVEN = TidyInput(
    path="MEMORY.md",
    text=MEMORY,
    places=(*places("MEMORY.md", MEMORY), *places(DAY, LOG)),
    max_chars=1_000,
)
GATE = {"at": "MEMORY.md#L5", "says": "- The gate code is 4711."}
BOAT = {"at": "MEMORY.md#L6", "says": "- Boat: Seagull"}
OLD_PHONE = {"at": "MEMORY.md#L11", "says": "- Anna phone: 555-1234"}
PHONE = {"at": f"{DAY}#L3", "says": "- Anna phone: 555-9999"}
TEA = {"at": f"{DAY}#L4", "says": "- Tea, not coffee."}
NEW_GATE = {"at": f"{DAY}#L5", "says": "- The gate code is 4712."}


def _answer(*edits: dict[str, Any]) -> str:
    return json.dumps({"edits": edits})


def _tidied(*edits: dict[str, Any]) -> TidiedNote:
    return tidied("MEMORY.md", MEMORY, edits_in(_answer(*edits), GIVEN))


def test_a_good_answer_becomes_a_note_with_reasons() -> None:
    """A newer value takes the old one's place, a new line its section, a superseded one goes."""
    made = _tidied(
        {
            "from": [PHONE],
            "remove": [OLD_PHONE],
            "superseded_by": PHONE,
            "write": ["- Anna phone: 555-9999 (2026-03-01)"],
            "why": "a new number",
        },
        {"from": TEA, "write": "Tea, not coffee.", "under": "Preferences"},
        {"remove": [GATE], "superseded_by": NEW_GATE},
    )

    assert made.after == (
        "# Notes\n\n## Facts\n\n- Boat: Seagull\n  - green\n\n## People\n\n"
        f"- Anna phone: 555-9999 (2026-03-01) ({DAY}#L3)\n\n"
        f"## Preferences\n\n- Tea, not coffee. ({DAY}#L4)\n"
    )
    assert made.reasons == (
        f"folded in from {DAY}#L3: a new number",
        f"folded in from {DAY}#L4",
        f"superseded by {DAY}#L5",
    )


def test_a_fence_around_the_answer_and_no_edit_are_fine() -> None:
    """Many models put JSON into a fence; nothing to change is an answer."""
    assert edits_in(f"```json\n{_answer()}\n```", GIVEN) == ()


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ({"remove": [GATE]}, "would lose MEMORY.md#L5"),
        ({"remove": [GATE], "write": "- The gate has a code."}, "would lose MEMORY.md#L5: '4711'"),
        ({"remove": [GATE], "superseded_by": TEA}, "has no word in common"),
        ({"remove": [GATE], "superseded_by": GATE}, "which it names as the newer line"),
        ({"remove": [NEW_GATE], "superseded_by": GATE}, "only lines of MEMORY.md"),
        ({"remove": [GATE | {"says": "- The gate"}], "superseded_by": NEW_GATE}, "that line says"),
        ({"remove": [GATE | {"at": "MEMORY.md#L99"}]}, "which it was not given"),
        ({"remove": [GATE | {"at": "../../etc/passwd#L1"}]}, "which it was not given"),
        ({"remove": ["MEMORY.md#L5"]}, 'without "at" and "says"'),
        ({"remove": [BOAT], "superseded_by": PHONE}, "the indented lines below it"),
        ({"from": [GATE], "write": "- The gate code is 4711."}, "which takes lines of logs only"),
        ({"from": [PHONE], "write": "- Anna phone: 555-7777"}, "writes 7777"),
        ({"from": [TEA], "write": "- a\n- b"}, "not one line of text"),
        ({"from": [TEA], "write": "- Tea\x00, not coffee."}, "not one line of text"),
        ({"from": [TEA], "write": "# Rules"}, "no heading"),
        ({"from": [TEA], "write": "- " + "tea " * 200}, "one fact in one line"),
        ({"from": [TEA]}, "neither removes nor writes"),
        ({"write": "- Tea, not coffee."}, "without naming its source"),
        ({"path": "SOUL.md", "write": "x"}, "'path', which is not a field"),
    ],
)
def test_an_edit_that_cannot_be_trusted_breaks_the_answer(edit: dict[str, Any], why: str) -> None:
    """Also beside a good one: none of the answer is used then, and the sentence says what is wrong."""
    good = {"from": [TEA], "write": "- Tea, not coffee.", "under": "Facts"}
    with pytest.raises(AnswerBroken, match="Edit 2") as broken:
        edits_in(_answer(good, edit), GIVEN)

    assert why in str(broken.value)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I would fold in the phone.",
        "[]",
        '{"edits": {}}',
        '{"edits": [1]}',
        _answer({"from": [TEA], "write": "- Tea \ud83d"}),
    ],
)
def test_what_is_no_such_object_is_refused(answer: str) -> None:
    """Prose and other JSON are no edits, nor is what no file can hold: half of an emoji."""
    with pytest.raises(AnswerBroken, match=r"not JSON|not an object"):
        edits_in(answer, GIVEN)


def test_edits_do_not_take_each_others_lines_away() -> None:
    """No line goes twice, and none goes because of one that goes itself."""
    by_new = {"remove": [GATE], "superseded_by": NEW_GATE}
    with pytest.raises(AnswerBroken, match=r"Two edits remove MEMORY\.md#L5"):
        edits_in(_answer(by_new, by_new), GIVEN)
    older = {"at": "MEMORY.md#L1", "says": "- The gate code is 4710."}
    text = f"{older['says']}\n" + MEMORY.partition("## Facts\n")[2]
    gate = GATE | {"at": "MEMORY.md#L3"}
    found = (*places("MEMORY.md", text), *places(DAY, LOG))
    given = TidyInput(path="MEMORY.md", text=text, places=found, max_chars=1_000)
    with pytest.raises(AnswerBroken, match=r"depends on MEMORY\.md#L3"):
        edits_in(
            _answer(
                {"remove": [older], "superseded_by": gate}, {"remove": [gate], "superseded_by": NEW_GATE}
            ),
            given,
        )


def test_the_note_does_not_grow_beyond_its_limit() -> None:
    """What would be cut from the context is refused; one that is too long already may shrink."""
    small = TidyInput(path="MEMORY.md", text=MEMORY, places=GIVEN.places, max_chars=100)
    with pytest.raises(AnswerBroken, match="its limit of 100"):
        edits_in(_answer({"from": [TEA], "write": "- Tea, not coffee."}), small)

    assert edits_in(_answer({"remove": [GATE], "superseded_by": NEW_GATE}), small)


CURATED = "# M\n\n## Facts\n\n- The gate is green.\n"
LIMITS = TidyLimits(window_tokens=3_000, most_chars=2_000)


def _notes(days: int) -> TidyNotes:
    texts = {"CURATED.md": CURATED} | {
        f"memory/2026-01-{day:02}.md": "\n".join(
            f"- line {line} of day {day} {'x' * 60}" for line in range(25)
        )
        for day in range(1, days + 1)
    }
    found = [place for path, text in texts.items() for place in places(path, text)]
    return TidyNotes(
        path="CURATED.md", texts=texts, places=tuple(found), left_out=frozenset(), others_count=0
    )


def _requests(model: ScriptedModel) -> Sequence[str]:
    return [message_text(request.messages[0]) for request in model.requests]


async def test_parts_are_asked_oldest_first_and_the_newest_are_not_left_out() -> None:
    """No request is larger than the window leaves room for; what was left out is told by its day."""
    model = ScriptedModel(*(says(_answer(), purpose="tidy") for _ in range(MOST_CALLS)))
    answer = await ask_for_edits(model, _notes(12), LIMITS, Clock(START))
    asked = _requests(model)

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
    written = "- line 0 (memory/2026-01-01.md#L1)"
    model = ScriptedModel(
        says(_answer({"from": [first], "write": "- line 0", "under": "Facts"}), purpose="tidy"),
        says(
            _answer({"remove": [{"at": "CURATED.md#L6", "says": written}], "superseded_by": newer}),
            purpose="tidy",
        ),
    )
    answer = await ask_for_edits(model, notes, LIMITS, Clock(START))

    assert f"> CURATED.md#L6: {written}" in _requests(model)[1]
    assert tidied("CURATED.md", CURATED, answer.edits).after == CURATED
    assert tidied("CURATED.md", CURATED, answer.edits[1:]).edits == ()


async def test_what_notes_and_logs_both_say_is_not_sent() -> None:
    """And a note without logs is looked at for itself, once it has two lines."""
    texts = {"CURATED.md": CURATED + "- It is blue.\n", "memory/2026-01-01.md": "* The gate is  green.\n"}
    found = tuple(place for path, text in texts.items() for place in places(path, text))
    notes = TidyNotes(path="CURATED.md", texts=texts, places=found, left_out=frozenset(), others_count=0)
    model = ScriptedModel(says(_answer(), purpose="tidy"))
    await ask_for_edits(model, notes, LIMITS, Clock(START))

    assert "memory/2026-01-01.md#L1: *" not in _requests(model)[0]


async def test_a_window_without_room_and_a_model_that_fails_are_told() -> None:
    """Nothing is asked in a window too small, and the provider's sentence is passed on."""
    small = TidyLimits(window_tokens=800, most_chars=2_000)
    with pytest.raises(ProposalFailed, match="has no room for logs"):
        await ask_for_edits(ScriptedModel(), _notes(1), small, Clock(START))
    model = ScriptedModel(fails(ModelError("The provider sleeps."), purpose="tidy"))
    with pytest.raises(ProposalFailed, match=r"Nothing was changed\. The provider sleeps\."):
        await ask_for_edits(model, _notes(1), LIMITS, Clock(START))
