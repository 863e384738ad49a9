"""A change taken back out of a text that went on since."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.history.commits import commit_changes, known_sources
from nacre.memory.workspace.history.undo import (
    CommitUnknown,
    Conflict,
    UndoConflict,
    line_origins,
    reverted,
    undo_line,
)
from tests.memory.workspace.history.home import LOG, Home

LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\n"]), max_size=8)


def test_what_was_written_beside_it_stays() -> None:
    """Lines right before and right behind an added block are no part of it."""
    before = ["# Log\n"]
    after = ["# Log\n", "- added\n", "- too\n"]
    now = ["# Log\n", "- between\n", "- added\n", "- too\n", "- later\n"]

    assert reverted(before, after, now) == ["# Log\n", "- between\n", "- later\n"]


def test_a_line_that_was_changed_again_is_a_conflict() -> None:
    """It is named by where it stands now."""
    now = ["new\n", "# Log\n", "- added, and corrected\n"]

    assert reverted(["# Log\n"], ["# Log\n", "- added\n"], now) == Conflict(line=3)
    assert reverted(["# Log\n"], ["# Log\n", "- added\n"], ["# Log\n"]) == Conflict(line=2)


@given(LINES, LINES)
def test_a_change_and_its_undoing_are_nothing(before: list[str], after: list[str]) -> None:
    """Where nothing came since, the text before is there again."""
    assert reverted(before, after, after) == before


@given(LINES, LINES, LINES, LINES)
def test_lines_around_it_stay(before: list[str], after: list[str], first: list[str], last: list[str]) -> None:
    """Whatever was put around a text that the change is inside of is kept."""
    first, last = [f"> {line}" for line in first], [f"< {line}" for line in last]
    before, after = [["top\n", *lines, "end\n"] for lines in (before, after)]

    assert reverted(before, after, [*first, *after, *last]) == [*first, *before, *last]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
class TestLines:
    """A line is followed to its commit, and what that commit did to it is undone alone."""

    async def test_each_line_knows_its_commit_and_what_it_replaced(self, tmp_path: Path) -> None:
        """Also behind later changes; a line that is not committed yet has no origin."""
        home = await _home(tmp_path)
        first, second = _commits(home)
        home.write("- new\n- sugar: 3 kg\n- fed\n- at seven\n")
        origins = line_origins(home.repository, LOG)

        assert [origin and origin.commit for origin in origins] == [None, second, first, second]
        assert [origin and origin.replaced for origin in origins] == [None, ("- sugar: 2 kg\n",), (), ()]

    async def test_one_line_of_a_commit_is_undone(self, tmp_path: Path) -> None:
        """An added line goes, a replaced one is as it was, other lines of the commit stay."""
        home = await _home(tmp_path)
        first, second = _commits(home)
        await home.undo_line(0, second)
        replaced = home.text()
        await home.undo_line(2, second)

        assert replaced == "- sugar: 2 kg\n- fed\n- at seven\n"
        assert home.text() == "- sugar: 2 kg\n- fed\n"
        assert home.subjects()[0][0] == f"Undo a line of {second[:12]} in {LOG}"
        assert first != second

    async def test_a_line_that_is_another_now_is_left_alone(self, tmp_path: Path) -> None:
        """Neither another line nor one of another commit is touched, also beyond the end."""
        home = await _home(tmp_path)
        first, second = _commits(home)
        for number, commit in ((0, first), (1, second), (7, second), (-1, second)):
            with pytest.raises(CommitUnknown, match="Reload"):
                await home.undo_line(number, commit)
        assert home.text() == "- sugar: 3 kg\n- fed\n- at seven\n"

    async def test_a_rewritten_passage_is_undone_as_a_whole_or_not_at_all(self, tmp_path: Path) -> None:
        """Two lines made of one come back as that one, unless one of the two has changed since."""
        home = await _home(tmp_path)
        home.write("- sugar: 1 kg\n- and honey\n- fed\n- at seven\n")
        await home.commit()
        commit, _first = home.git("log", "-2", "--format=%H").split()
        home.write("- sugar: 1 kg\n- and much honey\n- fed\n- at seven\n")
        with pytest.raises(UndoConflict):
            await home.undo_line(0, commit)
        home.write("- sugar: 1 kg\n- and honey\n- fed\n- at seven\n")
        await home.undo_line(0, commit)

        assert home.text() == "- sugar: 3 kg\n- fed\n- at seven\n"

    async def test_names_that_git_writes_in_quotes(self, tmp_path: Path) -> None:
        """Blanks, quotation marks and letters of any script."""
        home = await _home(tmp_path)
        name = 'memory/京都 "plan".md'
        (home.root / name).write_text("- 町家\n", encoding="utf-8")
        await home.commit()
        [origin] = line_origins(home.repository, name)

        assert origin is not None
        assert origin.after == ("- 町家\n",)


class _Notes(Home):
    def write(self, text: str) -> None:
        (self.root / LOG).parent.mkdir(parents=True, exist_ok=True)
        (self.root / LOG).write_text(text, encoding="utf-8")

    async def undo_line(self, number: int, commit: str) -> None:
        def undo() -> None:
            with self.repository.opened():
                commit_changes(self.repository, known_sources(Sources(self.workspace)))
                undo_line(self.repository, LOG, number, commit)

        await asyncio.to_thread(undo)


async def _home(tmp_path: Path) -> _Notes:
    """A log of two commits: the second replaced its first line and added the last."""
    home = _Notes(tmp_path)
    for text in ("- sugar: 2 kg\n- fed\n", "- sugar: 3 kg\n- fed\n- at seven\n"):
        home.write(text)
        await home.commit()
    return home


def _commits(home: _Notes) -> tuple[str, str]:
    second, first = home.git("log", "--format=%H").split()
    return first, second
