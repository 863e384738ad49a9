"""Lines under `## Retain`: the four kinds, and what is told of lines that say none."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nacre.extensions.curation.reflection import Retained, Unparsed, retained_items
from tests.extensions.curation.logs import DAY, LOG


def _one(line: str) -> Retained | Unparsed:
    (found,) = retained_items(DAY, f"## Retain\n{line}\n")
    return found


def test_the_four_kinds_are_read_with_names_and_lines() -> None:
    """Each line knows its kind, whom it is about, its words and where it stands; other sections are prose."""
    found = [line for line in retained_items(DAY, LOG) if isinstance(line, Retained)]

    assert [(line.kind, line.entities, line.confidence, line.link) for line in found] == [
        ("W", ("Peter",), None, f"{DAY}#L7"),
        ("B", ("warelay",), None, f"{DAY}#L8"),
        ("O", ("Peter",), 0.95, f"{DAY}#L10"),
        ("S", ("Peter", "The-Castle"), None, f"{DAY}#L11"),
    ]
    assert found[1].text.startswith("I fixed the crash on reconnect by wrapping")


@pytest.mark.parametrize(
    "line", ["W @Peter: Here.", "- W @Peter: Here.", "* W  @Peter : Here.", "1. W @Peter：Here."]
)
def test_marks_of_lists_do_not_matter(line: str) -> None:
    """The line may be an item or stand by itself; a full-width colon is one too."""
    found = _one(line)

    assert isinstance(found, Retained)
    assert (found.entities, found.text) == (("Peter",), "Here.")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("- Peter is here", "does not begin with one of"),
        ("- X @Peter: here", "does not begin with one of"),
        ("- W @../secret: here", "cannot be the name of a page"),
        ("- W @a/b: here", "cannot be the name of a page"),
        ("- W @Con: here", "cannot be the name of a page"),
        ("- W @Peter:", "there is no text after the colon"),
        ("- W(c=0.5) @Peter: here", "only an opinion (O) has a confidence"),
        ("- O(c=1.5) @Peter: here", "is not a confidence"),
        ("- O(sure) @Peter: here", "is not a confidence"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(line: str, reason: str) -> None:
    """The reason names path and line; nothing of it is kept."""
    found = _one(line)

    assert isinstance(found, Unparsed)
    assert reason in str(found)
    assert f"{DAY}#L2" in str(found)


def test_code_and_deeper_headings() -> None:
    """A fence inside the section is code; a deeper heading does not end it, one of its level does."""
    text = "## Retain\n```\n- W: code\n```\n### More\n- W: kept\n## Next\n- W: not kept\n"

    assert [line.text for line in retained_items(DAY, text)] == ["kept"]


@given(st.text())
def test_no_text_fails(text: str) -> None:
    """Whatever stands there, reading ends, and each line that was found is one of the file."""
    lines = f"## Retain\n{text}".split("\n")

    assert all(1 < line.line <= len(lines) for line in retained_items(DAY, f"## Retain\n{text}"))
