"""What the daily logs change in the bank: pages by kind and entity, links, hand edits kept, nothing twice."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from nacre.extensions.curation.pages import LINK, OPINIONS, TAKEN, WORLD
from nacre.extensions.curation.reflection import BankProposal, bank_proposal, opinions_of, propose_bank
from nacre.memory.files.proposals import ProposalFailed, write_changes
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.folder import FolderWorkspace
from tests.extensions.curation.logs import DAY, LOG, after, of

AT = "2026-03-14T12:00:00+00:00"
PETER = "bank/entities/Peter.md"
LATER = "memory/2026-02-02.md"


def _opinion(log: str, pages: dict[str, str], day: str = LATER) -> float:
    made = after({DAY: LOG, day: f"## Retain\n{log}\n"}, pages)
    return opinions_of(made[OPINIONS])[0].confidence


@pytest.mark.covers("SEED-26")
def test_each_line_is_put_on_the_page_of_its_kind_and_of_its_entities() -> None:
    """The layout of the description, and every item links to its line of the log."""
    pages = {change.path: change.after for change in of(LOG).changes}

    assert set(pages) == {
        WORLD,
        OPINIONS,
        PETER,
        "bank/experience.md",
        "bank/entities/warelay.md",
        "bank/entities/The-Castle.md",
    }
    assert pages[WORLD] == (
        "# World\n\n- @Peter: Currently in Marrakech (Jan 18–22) for Andy's birthday. "
        "(memory/2026-01-20.md#L7)\n"
    )
    assert pages[OPINIONS] == (
        "# Opinions\n\n- @Peter: Prefers concise replies on WhatsApp. (c=0.95)\n"
        "  - for: memory/2026-01-20.md#L10 (c=0.95)\n"
    )
    assert "## World\n\n- Currently in Marrakech" in pages[PETER]
    assert "- Prefers concise replies on WhatsApp. (c=0.95, bank/opinions.md)\n" in pages[PETER]
    log = LOG.splitlines()
    for page in pages.values():
        for link in LINK.findall(page):
            assert re.match(r"- [WBOS]", log[int(link.rpartition("L")[2]) - 1])


def test_a_second_run_changes_nothing() -> None:
    """Also where `.taken` was lost, as after a kill before it was written."""
    pages = after({DAY: LOG}, {})
    again = bank_proposal({DAY: LOG}, pages)
    without = bank_proposal({DAY: LOG}, {path: text for path, text in pages.items() if path != TAKEN})

    assert (again.changes, again.taken.before) == ((), again.taken.after)
    assert without.changes == ()


def test_what_a_hand_did_is_kept() -> None:
    """A reworded item, a removed one, words around them, Windows line ends and a number stay as they are."""
    pages = after({DAY: LOG}, {})
    pages[WORLD] = (
        "# My world\r\n\r\nWords of mine.\r\n\r\n"
        "- @Peter: in Morocco (memory/2026-01-20.md#L7)\r\n\r\nEnd.\r\n"
    )
    pages[PETER] = "# Peter\n\nMy cousin.\n"
    pages[OPINIONS] = pages[OPINIONS].replace("(c=0.95)\n  -", "(c=0.4)\n  -")

    assert bank_proposal({DAY: LOG}, pages).changes == ()
    more = after({DAY: LOG, LATER: "## Retain\n- W @peter: Is back.\n"}, pages)
    assert more[WORLD] == f"{pages[WORLD]}\r\n- @peter: Is back. (memory/2026-02-02.md#L2)\r\n"
    assert more[PETER] == f"{pages[PETER]}\n## World\n\n- Is back. (memory/2026-02-02.md#L2)\n"
    assert more[OPINIONS] == pages[OPINIONS]


def test_links_follow_their_lines() -> None:
    """A line that moved in its log is linked where it stands now, on every page, and is not put twice."""
    pages = after({DAY: LOG}, {})
    moved = LOG.replace("- W @Peter", "- W @Anna: Has arrived.\n- W @Peter")
    made = after({DAY: moved}, pages)

    assert made[WORLD].count("Marrakech") == 1
    assert "birthday. (memory/2026-01-20.md#L8)" in made[WORLD]
    assert "- @Anna: Has arrived. (memory/2026-01-20.md#L7)" in made[WORLD]
    assert "for: memory/2026-01-20.md#L11" in made[OPINIONS]
    assert bank_proposal({DAY: moved}, made).changes == ()


@pytest.mark.covers("SEED-26")
def test_evidence_moves_an_opinion() -> None:
    """The same again raises it, the contrary or a doubtful repetition lowers it, another statement is new."""
    begun = after({DAY: LOG.replace("0.95", "0.6")}, {})
    said = "@Peter: {}oncise replies on WhatsApp."

    assert _opinion(f"- O(c=0.9) {said.format('Prefers c')}", begun) > 0.6
    assert _opinion(f"- O(c=0.9) {said.format('Does not prefer c')}", begun) < 0.6
    assert _opinion(f"- O(c=0.1) {said.format('Prefers c')}", begun) < 0.6
    assert _opinion(f"- O(c=0.9) {said.format('Prefers c').replace('@Peter', '@Anna')}", begun) == 0.6
    assert _opinion("- O(c=0.9) @Peter: Prefers long replies on the phone.", begun) == 0.6


def test_entity_pages_follow_the_opinion() -> None:
    """The number on the page of an entity is that of `opinions.md`, also one that a hand wrote there."""
    pages = after({DAY: LOG}, {})
    pages[OPINIONS] = pages[OPINIONS].replace("WhatsApp. (c=0.95)", "WhatsApp. (c=0.20)")

    assert "(c=0.20, bank/opinions.md)" in after({DAY: LOG}, pages)[PETER]


@settings(max_examples=30)
@given(st.permutations([0.9, 0.2, 0.7, 0.55]))
def test_lines_of_one_day_count_the_same_in_any_order(confidences: list[float]) -> None:
    """The number depends on what the day's lines say, and not on which came first."""
    lines = "".join(f"- O(c={sure}) @Peter: Likes jazz.\n" for sure in confidences)
    made = after({DAY: f"## Retain\n{lines}"}, {})

    assert [opinion.confidence for opinion in opinions_of(made[OPINIONS])] == [0.59]


WORDS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n"), min_size=1, max_size=30)
LINES = st.tuples(
    st.sampled_from(["W", "B", "O(c=0.8)", "S", "X"]), st.sampled_from([" @a", " @B @a", ""]), WORDS
)


@given(st.lists(LINES, max_size=8), st.lists(LINES, max_size=8))
def test_any_two_days_come_to_rest(
    first: list[tuple[str, str, str]], second: list[tuple[str, str, str]]
) -> None:
    """Whatever the lines say, one writing is enough, day by day, and no page is lost."""
    logs = {
        day: "## Retain\n" + "".join(f"- {kind}{names}: {words}\n" for kind, names, words in lines)
        for day, lines in ((DAY, first), (LATER, second))
    }
    one = after({DAY: logs[DAY]}, {})
    both = after(logs, one)

    assert bank_proposal({DAY: logs[DAY]}, one).changes == ()
    assert bank_proposal(logs, both).changes == ()
    assert all(path in both for path in one)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with one log, and a note that is none."""
    root = tmp_path / "workspace"
    (root / "memory").mkdir(parents=True)
    (root / DAY).write_text(LOG, encoding="utf-8")
    (root / "memory" / "plans.md").write_text("## Retain\n- W: no log\n", encoding="utf-8")
    return root


def _workspace(root: Path) -> FolderWorkspace:
    return FolderWorkspace(root, lock_dir=root.parent / "locks")


async def _write(workspace: FolderWorkspace, made: BankProposal) -> None:
    await write_changes(workspace, (*made.changes, made.taken), at=AT, redacts_secrets=False)


def _files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_nothing_is_written_before_it_is_approved(root: Path) -> None:
    """A proposal touches no file; writing it makes the pages; the next one is empty."""
    before = _files(root)

    async def story() -> None:
        workspace = _workspace(root)
        found = await propose_bank(workspace)
        assert _files(root) == before
        assert "no log" not in found.diff
        await _write(workspace, found)
        assert (await propose_bank(workspace)).changes == ()

    asyncio.run(story())
    assert "Marrakech" in (root / "bank/entities/Peter.md").read_text(encoding="utf-8")
    assert _files(root) | before == _files(root)


def test_a_kill_between_two_pages_is_mended_by_the_next_run(root: Path, tmp_path: Path) -> None:
    """After each number of pages that were written, the next run ends with the very same bank."""

    async def story() -> None:
        found = await propose_bank(_workspace(root))
        whole = {change.path: change.after for change in (*found.changes, found.taken)}
        for written in range(len(found.changes) + 1):
            place = tmp_path / f"killed-{written}"
            (place / "memory").mkdir(parents=True)
            (place / DAY).write_text(LOG, encoding="utf-8")
            workspace = _workspace(place)
            for change in found.changes[:written]:
                await workspace.change(change.path, lambda _old, text=change.after: text.encode())
            rest = await propose_bank(workspace)
            await _write(workspace, rest)
            assert {path: (place / path).read_text(encoding="utf-8") for path in whole} == whole

    asyncio.run(story())


@pytest.mark.parametrize(("number", "words"), [(6, "Marrakech"), (8, "warelay")])
@pytest.mark.covers("SEED-26")
def test_what_others_said_is_never_put_on_a_page(root: Path, number: int, words: str) -> None:
    """An item that has a line of a web page or a group, its first or a later one, stays in its log, and is
    told; pages know their source."""
    line = LOG.splitlines()[number]
    page = "- @Peter: Prefers concise replies on WhatsApp. (c=0.95)"
    of_a_tool = Source(written_by="flush", audience=PRIVATE, said_by=("owner", "tool"), at=AT)

    async def story() -> None:
        workspace = _workspace(root)
        (root / DAY).rename(root / "kept")
        await Sources(workspace).keep(DAY, line, lambda _line: of_a_tool)
        (root / "kept").rename(root / DAY)
        found = await propose_bank(workspace)
        assert words not in found.diff
        assert "not the owner's word" in str(found.unparsed[0])
        await _write(workspace, found)
        (source,) = await Sources(workspace).of_lines("bank/opinions.md", [page])
        assert source is not None
        assert (source.written_by, source.audience) == ("reflection", PRIVATE)

    asyncio.run(story())


def test_a_page_that_changed_meanwhile_is_left_alone(root: Path) -> None:
    """What the owner wrote between proposal and approval stays, and the sentence says what to do."""
    page = root / "bank/world.md"

    async def story() -> None:
        workspace = _workspace(root)
        found = await propose_bank(workspace)
        page.parent.mkdir()
        page.write_text("# Mine\n", encoding="utf-8")
        with pytest.raises(ProposalFailed, match="Run the command again"):
            await _write(workspace, found)

    asyncio.run(story())
    assert page.read_text(encoding="utf-8") == "# Mine\n"


def test_what_cannot_be_read_is_told_and_not_overwritten(root: Path) -> None:
    """A page in another encoding stops the run with its name."""
    page = root / "bank/world.md"
    page.parent.mkdir()
    page.write_bytes(b"caf\xe9\n")

    with pytest.raises(ProposalFailed, match=r"bank/world\.md is not UTF-8"):
        asyncio.run(propose_bank(_workspace(root)))
    assert page.read_bytes() == b"caf\xe9\n"
