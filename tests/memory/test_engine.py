"""The engine as the runtime uses it: search, freshness, sync, status; nearly all by words only."""

from __future__ import annotations

import asyncio
import os
from datetime import date
from pathlib import Path

import pytest

from nacre.memory.contracts.errors import IndexClosed
from nacre.memory.contracts.records import SearchReport, SyncProgress
from tests.memory.doubles import NOON, WordEmbedder, open_engine, workspace

LOG = "# 2026-02-10\n\n- Lisa adopted a cat named Pepper.\n- The wifi password is hunter2.\n"


def _paths(report: SearchReport) -> list[str]:
    return [hit.path for hit in report.hits]


@pytest.mark.covers("IDX-1", "Q-5")
async def test_a_workspace_that_was_never_indexed_is_searchable_at_once(tmp_path: Path) -> None:
    """The first search finds what is there, without a sync before it and without an embedder."""
    workspace(tmp_path, {"memory/2026-02-10.md": LOG, "MEMORY.md": "# Facts\n\n- Max likes tea.\n"})
    engine = await open_engine(tmp_path)

    report = await engine.search("what is the name of the cat?")

    (hit,) = report.hits[:1]
    assert (hit.path, hit.start_line, hit.end_line) == ("memory/2026-02-10.md", 1, 4)
    assert hit.citation == "memory/2026-02-10.md#L1-L4"
    assert "Pepper" in hit.snippet
    assert 0 <= hit.score <= 1
    assert (report.mode, report.provider, report.degraded, report.stale) == ("lexical", "none", "", False)
    await engine.close()


@pytest.mark.covers("SEED-3")
async def test_a_note_written_a_moment_ago_is_found(tmp_path: Path) -> None:
    """After `mark_dirty`, the next search has the new note; a changed and a deleted file are followed too."""
    root = workspace(tmp_path, {"memory/2026-02-10.md": LOG})
    engine = await open_engine(tmp_path)
    await engine.search("cat")

    (root / "memory" / "2026-02-11.md").write_text("- The zebra escaped.\n")
    engine.mark_dirty()
    assert _paths(await engine.search("zebra", min_score=0)) == ["memory/2026-02-11.md"]

    (root / "memory" / "2026-02-11.md").write_text("- The giraffe escaped.\n")
    engine.mark_dirty()
    assert _paths(await engine.search("zebra", min_score=0)) == []
    assert _paths(await engine.search("giraffe", min_score=0)) == ["memory/2026-02-11.md"]

    (root / "memory" / "2026-02-11.md").unlink()
    engine.mark_dirty()
    assert _paths(await engine.search("giraffe", min_score=0)) == []
    await engine.close()


@pytest.mark.covers("Q-28")
async def test_an_unchanged_workspace_is_not_read_again(tmp_path: Path) -> None:
    """The second sync and a second process find everything unchanged by its stat values."""
    root = workspace(tmp_path, {"memory/2026-02-10.md": LOG, "MEMORY.md": "facts"})
    for path in root.rglob("*.md"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    engine = await open_engine(tmp_path)
    first = await engine.sync(reason="cli")
    second = await engine.sync(reason="cli")
    await engine.close()
    again = await open_engine(tmp_path)
    third = await again.sync(reason="cli")

    assert (first.indexed_files, first.unchanged_files, first.indexed_chunks) == (2, 0, 2)
    for report in (second, third):
        assert (report.indexed_files, report.unchanged_files) == (0, 2)
    await again.close()


@pytest.mark.covers("Q-28")
async def test_a_same_size_edit_within_the_same_tick_is_noticed(tmp_path: Path) -> None:
    """A file changed right after it was read is read again although size and time are the same."""
    root = workspace(tmp_path, {"MEMORY.md": "the cat\n"})
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    before = (root / "MEMORY.md").stat()
    with (root / "MEMORY.md").open("r+") as stream:
        stream.write("the dog\n")
    os.utime(root / "MEMORY.md", ns=(before.st_atime_ns, before.st_mtime_ns))

    engine.mark_dirty()

    assert _paths(await engine.search("dog", min_score=0)) == ["MEMORY.md"]
    await engine.close()


@pytest.mark.covers("Q-27")
async def test_limits_of_a_search_are_kept_sane(tmp_path: Path) -> None:
    """`max_results` is at least one and may be huge, `min_score` within 0…1; blank queries find nothing."""
    workspace(tmp_path, {f"memory/{number}.md": f"cat number {number}" for number in range(9)})
    engine = await open_engine(tmp_path)

    assert len((await engine.search("cat number", max_results=-5, min_score=-3)).hits) == 1
    assert len((await engine.search("cat number", max_results=3, min_score=0)).hits) == 3
    assert (await engine.search("cat", min_score=99)).hits == ()
    for blank in ("", "  \n", "???", "\x00"):
        assert (await engine.search(blank, min_score=0)).hits == ()
    await engine.close()


@pytest.mark.covers("Q-43")
async def test_more_results_never_change_who_is_first(tmp_path: Path) -> None:
    """The candidate pool does not depend on `max_results`, so a longer list only continues a shorter one."""
    workspace(
        tmp_path, {f"memory/{n}.md": f"cat {'tea ' * (n % 7)} note {n} {'cat ' * (n % 5)}" for n in range(60)}
    )
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")

    short = await engine.search("cat tea note", max_results=2, min_score=0)
    long = await engine.search("cat tea note", max_results=10**30, min_score=0)

    assert (short.hits, len(long.hits)) == (long.hits[:2], 60)
    await engine.close()


async def test_days_narrow_a_search(tmp_path: Path) -> None:
    """`after` and `before` are inclusive; undated notes are left out when one is given."""
    workspace(
        tmp_path,
        {
            "memory/2026-02-10.md": "- met Anna",
            "memory/2026-02-12.md": "- met Anna again",
            "MEMORY.md": "Anna is my sister",
        },
    )
    engine = await open_engine(tmp_path)

    async def found(after: date | None, before: date | None) -> set[str]:
        return set(_paths(await engine.search("Anna", after=after, before=before, min_score=0)))

    assert await found(date(2026, 2, 11), None) == {"memory/2026-02-12.md"}
    assert await found(None, date(2026, 2, 10)) == {"memory/2026-02-10.md"}
    assert len(await found(None, None)) == 3
    await engine.close()


async def test_a_question_as_of_a_day_is_asked_on_that_day(tmp_path: Path) -> None:
    """Yesterday is the day before it, and what was noted on it has not aged."""
    days = (7, 8, 9)
    workspace(tmp_path, {f"memory/2026-02-{day:02}.md": f"- Tea with Ann, cup {day}.\n" for day in days})
    engine = await open_engine(tmp_path, {"query": {"hybrid": {"temporalDecay": {"enabled": True}}}})
    report = await engine.search("With whom was the tea yesterday?", as_of="2026-02-09", explain=True)
    await engine.close()

    decays = {hit.path: hit.explain.decay_factor for hit in report.hits if hit.explain}
    assert _paths(report)[0] == "memory/2026-02-08.md"
    assert decays["memory/2026-02-09.md"] == 1


async def test_a_question_that_is_only_a_day_finds_what_was_noted_then(tmp_path: Path) -> None:
    """A note of no day that has the words of the question comes behind."""
    workspace(
        tmp_path,
        {
            "memory/2026-01-05.md": "- painted the kitchen",
            "memory/club.md": "# January club\n\nLast January we met in January.",
            "memory/2026-02-12.md": "- bought seeds",
        },
    )
    engine = await open_engine(tmp_path, embedder=WordEmbedder())
    await engine.sync(reason="cli")
    for question in ("last January", "what did we do last January?"):
        assert _paths(await engine.search(question))[0] == "memory/2026-01-05.md"
    assert _paths(await engine.search("the January club"))[0] == "memory/club.md"
    await engine.close()


async def test_a_hit_can_be_explained(tmp_path: Path) -> None:
    """With `explain`, each hit says its rank by words and how its score came about; without, nothing."""
    workspace(tmp_path, {"memory/2026-02-10.md": LOG})
    engine = await open_engine(tmp_path)

    (hit,) = (await engine.search("Pepper", explain=True)).hits
    (plain,) = (await engine.search("Pepper")).hits

    assert hit.explain is not None
    assert (hit.explain.lexical_rank, hit.explain.vector_rank, hit.explain.cosine) == (1, None, None)
    assert (hit.explain.final, hit.explain.decay_factor) == (hit.score, 1.0)
    assert plain.explain is None
    await engine.close()


async def test_a_forced_sync_builds_everything_again(tmp_path: Path) -> None:
    """`force` says that it rebuilt, leaves no second file behind, and what is found stays the same."""
    workspace(tmp_path, {"memory/2026-02-10.md": LOG})
    engine = await open_engine(tmp_path)
    before = await engine.search("Pepper")

    report = await engine.sync(reason="cli", force=True)

    assert (report.rebuilt, report.indexed_files) == ("it was asked for", 1)
    assert (await engine.search("Pepper")).hits == before.hits
    assert not list((tmp_path / "state").glob("*.rebuild*"))
    await engine.close()


@pytest.mark.covers("Q-10")
async def test_a_force_during_a_sync_is_honoured(tmp_path: Path) -> None:
    """Of three callers at once, the one that forces gets a rebuild, and nobody a run older than its call."""
    workspace(tmp_path, {"memory/2026-02-10.md": LOG})
    engine = await open_engine(tmp_path)

    _, forced, joined = await asyncio.gather(
        engine.sync(reason="one"), engine.sync(reason="two", force=True), engine.sync(reason="three")
    )

    assert forced.rebuilt
    assert joined.rebuilt
    await engine.close()


@pytest.mark.covers("SEED-4")
async def test_other_chunking_rebuilds_behind_the_old_index(tmp_path: Path) -> None:
    """Status says why before, the next sync rebuilds and says why, and then all is well."""
    workspace(tmp_path, {"memory/2026-02-10.md": LOG})
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    await engine.close()
    changed = await open_engine(tmp_path, {"chunking": {"tokens": 64, "overlap": 8}})

    assert "chunking changed" in (await changed.status()).identity_problem
    assert "chunking changed" in (await changed.sync(reason="cli")).rebuilt
    status = await changed.status()
    assert (status.identity_problem, status.dirty) == ("", False)
    await changed.close()


async def test_progress_is_told(tmp_path: Path) -> None:
    """Progress rises to its total, with a guess of the time that is left."""
    workspace(tmp_path, {f"memory/{number}.md": "words" for number in range(600)})
    engine = await open_engine(tmp_path)
    told: list[SyncProgress] = []

    await engine.sync(reason="cli", progress=told.append)

    assert len(told) > 1
    assert [item.completed for item in told] == sorted(item.completed for item in told)
    assert (told[-1].completed, told[-1].total, told[-1].eta_seconds) == (600, 600, 0)
    await engine.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
async def test_one_unreadable_file_does_not_stop_the_others(tmp_path: Path) -> None:
    """It is listed with the reason, and what was indexed of it before stays."""
    root = workspace(tmp_path, {"memory/a.md": "zebra", "memory/b.md": "giraffe"})
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    (root / "memory" / "a.md").write_text("zebra two")
    (root / "memory" / "a.md").chmod(0)
    (root / "memory" / "c.md").write_text("lion")

    report = await engine.sync(reason="cli")

    assert [item.path for item in report.failed] == ["memory/a.md"]
    assert _paths(await engine.search("lion", min_score=0)) == ["memory/c.md"]
    assert _paths(await engine.search("zebra", min_score=0)) == ["memory/a.md"]
    await engine.close()


@pytest.mark.covers("Q-17")
async def test_a_file_that_is_too_large_is_listed_not_fatal(tmp_path: Path) -> None:
    """A sparse giant is refused by name; its neighbours are indexed; a rebuild keeps to that."""
    root = workspace(tmp_path, {"memory/a.md": "zebra"})
    with (root / "memory" / "giant.md").open("wb") as stream:
        stream.truncate(1 << 30)
    engine = await open_engine(tmp_path)

    report = await engine.sync(reason="cli")

    assert [(item.path, item.attempts) for item in report.failed] == [("memory/giant.md", 1)]
    assert "too large" in report.failed[0].problem
    assert (await engine.status()).failed == report.failed
    assert _paths(await engine.search("zebra", min_score=0)) == ["memory/a.md"]
    await engine.close()


@pytest.mark.covers("Q-35")
async def test_a_workspace_that_vanishes_keeps_its_index(tmp_path: Path) -> None:
    """While the drive is away, searches still answer, syncs say so, and a forced rebuild loses nothing."""
    root = workspace(tmp_path, {"memory/a.md": "zebra"})
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    root.rename(tmp_path / "away")

    for force in (False, True):
        report = await engine.sync(reason="cli", force=force)
        assert "cannot be read" in report.problem
        assert _paths(await engine.search("zebra", min_score=0)) == ["memory/a.md"]

    (tmp_path / "away").rename(root)
    assert (await engine.sync(reason="cli")).problem == ""
    await engine.close()


@pytest.mark.covers("IDX-1", "IDX-9", "Q-13")
async def test_status_says_what_is_pending(tmp_path: Path) -> None:
    """A status counts files and chunks by source, and changes that are not indexed yet."""
    root = workspace(tmp_path, {"memory/2026-02-10.md": LOG})
    engine = await open_engine(tmp_path)
    before = await engine.status()
    await engine.sync(reason="cli")
    clean = await engine.status(deep=True)
    (root / "MEMORY.md").write_text("new")
    (root / "memory" / "2026-02-10.md").unlink()
    after = await engine.status()

    assert (before.files, before.pending_files, before.dirty, before.last_sync_at_seconds) == (
        0,
        1,
        True,
        None,
    )
    assert (clean.files, clean.chunks, clean.pending_files, clean.dirty) == (1, 1, 0, False)
    assert clean.last_sync_at_seconds == NOON.timestamp()
    assert [(item.source, item.files, item.chunks) for item in clean.source_counts] == [("memory", 1, 1)]
    assert (clean.mode, clean.provider, clean.watching) == ("lexical", "none", "off")
    assert (after.files, after.pending_files, after.dirty) == (1, 2, True)
    await engine.close()


async def test_a_closed_engine_says_so(tmp_path: Path) -> None:
    """Searching or syncing after `close` is an error with a name."""
    workspace(tmp_path, {})
    engine = await open_engine(tmp_path)
    await engine.close()

    with pytest.raises(IndexClosed):
        await engine.search("cat")
    with pytest.raises(IndexClosed):
        await engine.sync(reason="cli")
