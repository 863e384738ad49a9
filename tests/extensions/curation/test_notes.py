"""Without a model: what stands in several notes, and keys with several values."""

from __future__ import annotations

from collections.abc import Mapping

from nacre.extensions.curation.edits import tidied
from nacre.extensions.curation.notes import contradictions, places, repeats, without_repeats

JANUARY, MARCH = "memory/2026-01-20.md", "memory/2026-03-01.md"


def _all(texts: Mapping[str, str]) -> list[list[str]]:
    lines = [place for path, text in texts.items() for place in places(path, text)]
    return [[place.name for place in each.places] for each in contradictions(lines, texts)]


def test_values_of_one_key_are_listed_newest_day_first() -> None:
    """Marks of lists and bold keys do not count; what has no day comes last."""
    texts = {
        "MEMORY.md": "# M\n\n## People\n\n- **Phone**: 555-1\n",
        JANUARY: "- Phone: 555-2\n- Ran at dawn\n",
        MARCH: "- [ ] phone: 555-3\n",
    }

    assert _all(texts) == [[f"{MARCH}#L1", f"{JANUARY}#L1", "MEMORY.md#L5"]]


def test_the_same_value_and_other_things_are_no_contradiction() -> None:
    """A value told at more length, keys of two people, code, quotations, times and talk."""
    texts = {
        "MEMORY.md": "# M\n\n## Anna\n\n- Phone: 555-1\n\n## Bob\n\n- Phone: 555-2\n",
        JANUARY: "- Wifi: seagull\n- Note: buy milk\n- 14:30: lunch\n\n```\nport: 1\n```\n\n> door: red\n",
        MARCH: "- Wifi: seagull, since March\n- Note: call Bob\n- 14:30: tea\n- port: 2\n- door: blue\n",
    }

    assert _all(texts) == []


def test_repeats_are_of_a_note_without_a_day() -> None:
    """What two days say may have happened twice; what MEMORY.md says as well is said twice."""
    texts = {
        "MEMORY.md": "# M\n\n- The gate is green.\n",
        JANUARY: "- Went for a run\n* the  gate is GREEN.\n",
        MARCH: "- Went for a run\n",
    }
    lines = [place for path, text in texts.items() for place in places(path, text)]

    assert [[place.name for place in group] for group in repeats(lines)] == [
        ["MEMORY.md#L3", f"{JANUARY}#L2"]
    ]


def test_what_the_note_says_twice_under_one_heading_is_said_once() -> None:
    """The first stays, also below another heading, and with lines of its own below."""
    text = (
        "# M\n\n## A\n\n- Boat: Seagull\n- x y\n- Boat: Seagull\n\n"
        "## B\n\n- Boat: Seagull\n- x y\n- x y\n  - more\n"
    )

    made = tidied("MEMORY.md", text, without_repeats("MEMORY.md", text, list(places("MEMORY.md", text))))

    assert made.after == text.replace("- x y\n- Boat: Seagull\n", "- x y\n")
    assert made.reasons == ("also in MEMORY.md#L5",)
