"""The words of a template are no memory; what the owner wrote between them is."""

from __future__ import annotations

import pytest

from nacre.memory.files.file_reader import without_template
from nacre.memory.workspace.workspace import TEMPLATES, template_text


@pytest.mark.parametrize("name", [*TEMPLATES, "BOOTSTRAP.md", "memory.md"])
@pytest.mark.covers("ATT-11")
def test_a_file_as_the_template_made_it_says_nothing(name: str) -> None:
    """Every line is empty, and there are as many as before."""
    lines = template_text("MEMORY.md" if name == "memory.md" else name).splitlines()

    assert without_template(name, lines) == [""] * len(lines)


def test_what_was_added_stays_under_its_heading_and_on_its_line() -> None:
    """A heading of the template stays above words of the owner; empty ones and the title go."""
    lines = template_text("MEMORY.md").replace("## Decisions\n", "## Decisions\n\n- the boat is sold\n")
    lines += "\n### Aunt Mia\n\nLives in Porto.\n\n## Facts\n"

    told = without_template("MEMORY.md", lines.splitlines())

    assert len(told) == len(lines.splitlines())
    assert [line for line in told if line] == [
        "## Decisions",
        "- the boat is sold",
        "## Lessons",
        "### Aunt Mia",
        "Lives in Porto.",
    ]
    assert told[lines.splitlines().index("- the boat is sold")] == "- the boat is sold"


def test_a_filled_form_is_told() -> None:
    """What was written behind a prompt of the template makes its line the owner's."""
    lines = template_text("USER.md").replace("- **Name:**", "- **Name:** Robin").splitlines()

    assert [line for line in without_template("USER.md", lines) if line] == ["- **Name:** Robin"]


def test_other_files_are_left_alone() -> None:
    """A note may say what a template says, and a file elsewhere may have a template's name."""
    lines = template_text("MEMORY.md").splitlines()

    assert without_template("memory/MEMORY.md", lines) == lines
    assert without_template("memory/2026-01-02.md", lines) == lines
