"""What of a note is new, and what stands in the file already."""

from __future__ import annotations

import pytest
from hypothesis import example, given, strategies as st

from nacre.memory.text.repeats import without_repeats

LINES = st.sampled_from(
    [
        "",
        "# Log",
        "## Decisions",
        "## Names",
        "- port 8443",
        "1. first",
        "A paragraph.",
        "  more",
        "#### ",
        "-no item",
    ]
)
NOTES = st.lists(LINES, max_size=10).map("\n".join)


@pytest.mark.parametrize(
    ("existing", "text", "new", "skipped"),
    [
        ("", "\n- a\n- b\n\n", "- a\n- b", 0),
        ("- a\n", "- a\n- b\n", "- b", 1),
        ("- a\n", "-   a  \n", "", 1),
        ("## D\n- a\n\n## N\n- b\n", "## D\n- a\n- new\n\n## N\n- b\n", "## D\n- new", 2),
        ("## Mon\n- run\n", "## Tue\n\n- run\n", "## Tue\n\n- run", 0),
        ("## Mon\n\n- run\n", "- run\n\nA paragraph.", "A paragraph.", 1),
        ("```\nx\n\ny\n```\n", "```\nx\n\ny\n```\n\nq", "q", 1),
        ("x\n", "```\nx\n```", "```\nx\n```", 0),
        ("## A\n- a\n\n## B\n- b\n", "- a\n- c", "- c", 1),
        ("## A\n", "## A\n## B\n", "## B", 1),
        ("one\ntwo\n", "one two", "", 1),
        ("one\n", "one\n\ntwo\n\nthree", "two\n\nthree", 1),
    ],
)
def test_parts_that_stand_there_are_left_out(existing: str, text: str, new: str, skipped: int) -> None:
    """Paragraphs, list items and fences count under their heading; white space does not."""
    assert without_repeats(existing, text) == (new, skipped)


FLUSH = "## Notes of the conversation, 09:00"
LATER = "## Notes of the conversation, 14:30"


@pytest.mark.parametrize(
    ("existing", "text", "below", "new"),
    [
        ("", "- a", "", f"{LATER}\n\n- a"),
        ("- a\n", "- a", "", ""),
        ("- a\n", "- a\n- b", "", f"{LATER}\n\n- b"),
        (f"{FLUSH}\n\n### Asks\n- x?\n", "### Asks\n- x?\n- y?", "", f"{LATER}\n\n### Asks\n- y?"),
        (f"{LATER}\n\n- a\n", "- b", "", "- b"),
        ("- a\n", "## Own\n- b", "", "## Own\n- b"),
        ("- a\n", "- b", "## Notes of", "- b"),
        (f"{FLUSH}\n\n### Asks\n- x?\n", "- b", "## Notes of", f"{LATER}\n\n- b"),
        (f"{FLUSH}\n\n### Asks\n- x?\n\n## Own\n", "- b", "## Notes of", "- b"),
        (f"{FLUSH}\n\n- a\n\n## Retain\n- W: c\n", "- b", "## Notes of", f"{LATER}\n\n- b"),
    ],
)
def test_what_is_left_stands_under_its_heading(existing: str, text: str, below: str, new: str) -> None:
    """Each block has its heading once, whatever was left out and whatever stood before it."""
    assert without_repeats(existing, text, heading=LATER, below=below)[0] == new


def test_what_is_left_keeps_all_headings_above_it() -> None:
    """A heading that stood in the file before is written again where it is not open any more."""
    existing = "## Notes\n\n### Facts\n- a\n\n## Other\n- c\n"
    assert without_repeats(existing, "## Notes\n\n### Facts\n- a\n- b")[0] == "## Notes\n### Facts\n- b"


@given(existing=NOTES, text=NOTES)
@example(existing="# Log", text="- port 8443\n# Log\n#### ")
def test_what_was_appended_is_known_afterwards(existing: str, text: str) -> None:
    """After one append the same text has nothing new, whatever stood there before."""
    first, _ = without_repeats(existing, text)

    assert without_repeats(f"{existing}\n\n{first}\n", text)[0] == ""


@given(existing=NOTES, text=NOTES)
def test_every_word_is_kept_or_was_there(existing: str, text: str) -> None:
    """Nothing that was not in the file before is lost."""
    new, _ = without_repeats(existing, text)

    for line in text.splitlines():
        if line.strip():
            assert line.strip() in (new + "\n" + existing)
