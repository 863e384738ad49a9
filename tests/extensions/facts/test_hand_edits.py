"""The page is the owner's to edit: what is changed there is known from then on; the rest stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.extensions.facts.fact_pages import FactPages
from tests.extensions.facts.pages import Clock, open_facts, page_of


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def _with_two_facts(tmp_path: Path, clock: Clock) -> FactPages:
    facts = open_facts(tmp_path, clock)
    await facts.set_fact("anna", "city", "Lisbon", source="session 1")
    await facts.set_fact("anna", "vegetarian", True, source="session 1")
    clock.later(days=1)
    return facts


def _edit(tmp_path: Path, old: str, new: str) -> None:
    page = page_of(tmp_path)
    text = page.read_text()
    assert old in text
    page.write_text(text.replace(old, new, 1))


async def _values(facts: FactPages) -> dict[str, object]:
    return {fact.key.lower(): fact.value for fact in (await facts.known("anna")).facts}


@pytest.mark.parametrize(
    "line",
    [
        "- city: Porto (2026-01-03, session 1)",
        "- city: Porto",
        "- City: Porto",
        "- city: Porto\n- city: Lisbon",
    ],
)
@pytest.mark.covers("FACT-2")
async def test_a_changed_value_is_a_new_fact_by_hand(tmp_path: Path, clock: Clock, line: str) -> None:
    """It has the time when it was seen; what was known before stays in the history with its source."""
    facts = await _with_two_facts(tmp_path, clock)
    _edit(tmp_path, "- city: Lisbon (2026-01-03, session 1)", line)

    assert await _values(facts) == {"city": "Porto", "vegetarian": True}
    before, after = await facts.history("anna", "city")
    assert (before.value, before.source) == ("Lisbon", "session 1")
    assert (after.value, after.source, after.at) == ("Porto", "by hand", clock.moment)
    clock.later(days=1)
    assert (await facts.history("anna", "city"))[1:] == (after,)
    assert page_of(tmp_path).read_text().lower().count("- city: porto (2026-01-04, by hand)") == 1
    await facts.close()


async def test_a_day_and_a_source_of_ones_own_count(tmp_path: Path, clock: Clock) -> None:
    """Whoever knows since when, and from whom, writes it behind the value."""
    facts = await _with_two_facts(tmp_path, clock)
    clock.later(days=30)
    _edit(tmp_path, "\n## History", "- pet: a cat (2026-01-20, her letter)\n\n## History")

    (pet,) = await facts.history("anna", "pet")

    assert (pet.value, pet.source, pet.at.date().isoformat()) == ("a cat", "her letter", "2026-01-20")
    assert [fact.key for fact in (await facts.known("anna", as_of="2026-01-19")).facts] == [
        "city",
        "vegetarian",
    ]
    await facts.close()


async def test_a_removed_line_is_forgotten(tmp_path: Path, clock: Clock) -> None:
    """The history says until when it was known; without its lines there nothing is left of it."""
    facts = await _with_two_facts(tmp_path, clock)
    _edit(tmp_path, "- city: Lisbon (2026-01-03, session 1)\n", "")

    assert await _values(facts) == {"vegetarian": True}
    assert [fact.is_forgotten for fact in await facts.history("anna", "city")] == [False, True]
    assert (await facts.known("anna", as_of="2026-01-03")).facts[0].value == "Lisbon"
    page = page_of(tmp_path)
    page.write_text("\n".join(line for line in page.read_text().split("\n") if "city" not in line))
    assert await facts.history("anna", "city") == ()
    assert "Lisbon" not in page.read_text()
    await facts.close()


async def test_a_line_that_says_nothing_is_kept_and_told(tmp_path: Path, clock: Clock) -> None:
    """A slip neither loses the line nor the fact that it stood for."""
    facts = await _with_two_facts(tmp_path, clock)
    _edit(tmp_path, "- city: Lisbon", "- city Porto")
    _edit(tmp_path, "\n## History", "something\n\n## History")

    known = await facts.known("anna")

    assert {fact.key for fact in known.facts} == {"city", "vegetarian"}
    assert [problem.split(" is not ")[0] for problem in known.problems] == [
        "people/anna/facts.md#L8",
        "people/anna/facts.md#L10",
    ]
    await facts.set_fact("anna", "pet", "cat")
    assert "- city Porto (2026-01-03, session 1)\n" in page_of(tmp_path).read_text()
    assert "something\n" in page_of(tmp_path).read_text()
    await facts.close()


async def test_without_its_heading_nothing_is_forgotten(tmp_path: Path, clock: Clock) -> None:
    """A page that lost a section by accident gets it back."""
    facts = await _with_two_facts(tmp_path, clock)
    page = page_of(tmp_path)
    text = page.read_text()
    page.write_text(text[: text.index("## Facts")] + text[text.index("## History") :])

    assert await _values(facts) == {"city": "Lisbon", "vegetarian": True}
    assert "## Facts\n\n- city: Lisbon (2026-01-03, session 1)" in page.read_text()
    await facts.close()


async def test_a_note_by_hand_gets_its_id(tmp_path: Path, clock: Clock) -> None:
    """Notes without one, and copies of one, are told apart."""
    facts = open_facts(tmp_path, clock)
    chunk = await facts.note("anna", "Likes tea.")
    line = page_of(tmp_path).read_text().split("## Notes\n\n")[1].rstrip("\n")
    _edit(tmp_path, line, f"{line}\n{line}\n- Likes coffee\n  with milk.\n\nNot a note.\n")

    notes = (await facts.known("anna")).notes

    assert [note.text for note in notes] == ["Likes tea.", "Likes tea.", "Likes coffee\nwith milk."]
    assert len({note.id for note in notes}) == 3
    assert notes[0].id == chunk
    assert notes[2].source == "by hand"
    assert (await facts.known("anna")).notes == notes
    await facts.close()


async def test_what_else_stands_there_stays_to_the_byte(tmp_path: Path, clock: Clock) -> None:
    """Line ends of Windows, bytes that are no UTF-8, headings and texts of one's own."""
    page = page_of(tmp_path)
    page.parent.mkdir(parents=True)
    page.write_bytes(
        b"# Mine\r\n\r\n\xff words\r\n\r\n## Facts\r\n- city: Porto\r\n\r\n## Plans\r\n- a: b\r\n"
    )
    facts = open_facts(tmp_path, clock)

    await facts.set_fact("anna", "pet", "cat")

    assert page.read_bytes() == (
        b"# Mine\r\n\r\n\xff words\r\n\r\n## Facts\r\n- city: Porto (2026-01-03, by hand)\r\n"
        b"- pet: cat (2026-01-03)\r\n\r\n## Plans\r\n- a: b\r\n\r\n## History\r\n\r\n"
        b"- city: Porto (2026-01-03 10:00:00+00:00, by hand)\r\n- pet: cat (2026-01-03 10:00:00+00:00)\r\n"
    )
    await facts.close()


async def test_a_long_list_that_is_pasted_in_is_a_fact_and_a_note_each(tmp_path: Path, clock: Clock) -> None:
    """In any order of its days; the history has them in the order of time, and every note its own id."""
    facts = await _with_two_facts(tmp_path, clock)
    clock.later(days=400)
    lines = [f"- book {number}: read (2026-{1 + number % 12:02}-05, a list)" for number in range(400)]
    _edit(tmp_path, "\n## History", "\n".join([*lines, "", "## History"]))
    _edit(tmp_path, "## Notes\n", "\n".join(["## Notes", "", *(f"- Page {n}." for n in range(400)), ""]))

    known = await facts.known("anna")
    page = page_of(tmp_path).read_bytes()

    assert len(known.facts) == 402
    assert {fact.source for fact in known.facts} == {"session 1", "a list"}
    assert len({note.number for note in known.notes}) == 400
    written = [line for line in page.decode().partition("## History")[2].splitlines() if "book" in line]
    days = [line.partition("(")[2][:10] for line in written]
    assert days == sorted(days)
    assert await facts.known("anna") == known
    assert page_of(tmp_path).read_bytes() == page
    await facts.close()
