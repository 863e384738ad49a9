"""What becomes of each file when a folder and a workspace meet."""

from __future__ import annotations

from itertools import product

import pytest

from nacre.memory.workspace.documents.steps import Step, pulled, pushed, travels

TEXTS = (None, b"a", b"b", b"c")
OLD, THERE, HERE = b"old", b"there", b"here"


@pytest.mark.parametrize(
    ("base", "there", "here", "by_pull", "by_push"),
    [
        (OLD, OLD, OLD, Step.NOTHING, Step.NOTHING),
        (None, THERE, THERE, Step.MET, Step.MET),
        (OLD, THERE, OLD, Step.COPY, Step.NOTHING),
        (OLD, OLD, HERE, Step.NOTHING, Step.COPY),
        (OLD, None, OLD, Step.COPY, Step.NOTHING),
        (OLD, OLD, None, Step.NOTHING, Step.COPY),
        (OLD, THERE, HERE, Step.MERGE, Step.MERGE),
        (None, THERE, HERE, Step.MERGE, Step.MERGE),
        (OLD, None, HERE, Step.KEEP, Step.MERGE),
        (OLD, THERE, None, Step.COPY, Step.MERGE),
    ],
)
def test_three_texts_decide(
    base: bytes | None, there: bytes | None, here: bytes | None, by_pull: Step, by_push: Step
) -> None:
    """Whoever did not change a file gets what the other has; a change goes before a removal."""
    assert (pulled(base, there, here), pushed(base, there, here)) == (by_pull, by_push)


def test_no_text_is_ever_lost() -> None:
    """A copy only takes the place of what both had, or of nothing."""
    for base, there, here in product(TEXTS, repeat=3):
        if pulled(base, there, here) is Step.COPY:
            assert here in (base, None)
        if pushed(base, there, here) is Step.COPY:
            assert there == base


@pytest.mark.parametrize(
    ("name", "goes"),
    [
        ("memory/2026-02-10.md", True),
        (".sources/a.jsonl", True),
        (".gitignore", True),
        (".git/hooks/pre-commit", False),
        ("deep/.GIT/config", False),
        (".nacre/met/a.md", False),
        (".obsidian/plugins/x/main.js", False),
        ("photo.png.theirs", False),
        ("memory/.0123456789abcdef.tmp", False),
    ],
)
def test_what_programs_keep_stays(name: str, goes: bool) -> None:
    """What git or Obsidian would run never comes out of a workspace."""
    assert travels(name) is goes
