"""A transcript: what is appended is on disk, in order, and comes back."""

from __future__ import annotations

import asyncio
import json
import os
import resource
from pathlib import Path

import pytest

from nacre.sessions.contracts.errors import SessionCorrupt, SessionVersionUnknown, SessionWriteFailed
from nacre.sessions.contracts.messages import ToolResultMessage
from nacre.sessions.entries.entries import Compaction, CustomMessage, Label, SessionHeader
from nacre.sessions.journal.journal import Journal
from tests.sessions.talk import FIXTURES, HeldDisk, answer, opened, said, ticking_clock, user


@pytest.mark.covers("A6-13")
async def test_a_new_transcript_begins_with_its_header(tmp_path: Path) -> None:
    """The first durable entry writes it, the header and what was not durable, for the owner's eyes only."""
    journal = await opened(tmp_path / "agents" / "main" / "s-1.jsonl")
    await journal.append_custom("record", {}, durable=False)
    assert (journal.path.exists(), journal.size_bytes) == (False, 0)
    assert not await journal.refresh()
    await journal.append(user("hi"))

    header, *entries = map(json.loads, journal.path.read_text().splitlines())
    assert [entry["type"] for entry in entries] == ["custom", "message"]
    assert header == {
        "type": "session",
        "version": 3,
        "id": "s-1",
        "timestamp": "2026-03-01T09:00:00.000Z",
        "cwd": str(journal.path.parent),
    }
    assert journal.path.stat().st_mode & 0o777 == 0o600
    assert journal.path.parent.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "agents").stat().st_mode & 0o777 == 0o700
    assert (len(journal.tree.branch()), journal.size_bytes) == (2, journal.path.stat().st_size)
    assert (await journal.refresh(), journal.notices) == (False, ())


@pytest.mark.parametrize("is_new", [True, False])
async def test_what_is_not_written_yet_gives_way_to_what_another_wrote(tmp_path: Path, is_new: bool) -> None:
    """A record that waits for the next durable entry is left out, and the branch goes on behind theirs."""
    path = tmp_path / "s.jsonl"
    if not is_new:
        await (await opened(path)).append(user("zero"))
    mine, theirs = await opened(path), await opened(path)
    await mine.append_custom("record", {}, durable=False)
    await theirs.append(user("one"))
    await mine.append(user("two"))

    texts = ["one", "two"] if is_new else ["zero", "one", "two"]
    assert said(mine.tree.branch()) == said((await opened(path)).tree.branch()) == texts
    assert (len(mine.tree), mine.notices) == (len(texts), ())


async def test_a_copy_has_what_was_not_written_yet(tmp_path: Path) -> None:
    """A fork of a transcript that has no file yet writes it first."""
    journal = await opened(tmp_path / "s.jsonl")
    record = await journal.append_custom("record", {}, durable=False)
    await journal.fork("copy.jsonl", session_id="s-2", leaf_id=record.id)
    for name in ("s.jsonl", "copy.jsonl"):
        assert [entry.id for entry in (await opened(tmp_path / name)).tree.branch()] == [record.id]


async def test_a_new_file_that_could_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    """The next attempt writes the header and everything that was kept."""
    room = [False]

    def sync(descriptor: int) -> None:
        if not room[0]:
            raise OSError(28, "No space left on device")
        os.fsync(descriptor)

    journal = await opened(tmp_path / "s.jsonl", sync=sync)
    await journal.append_custom("record", {}, durable=False)
    with pytest.raises(SessionWriteFailed):
        await journal.append(user("lost"))
    assert not journal.path.exists()
    room[0] = True
    await journal.append(user("kept"))
    again = await opened(journal.path)
    assert (len(again.tree), said(again.tree.branch()), again.notices) == (2, ["kept"], ())


@pytest.mark.covers("A6-4", "A6-13")
async def test_what_was_appended_comes_back(tmp_path: Path) -> None:
    """Each kind of entry is one line, child of the one before, and is read again as it was returned."""
    journal = await opened(tmp_path / "s.jsonl")
    appended = [
        await journal.append_custom("nacre.session", {"key": "agent:main:main"}),
        question := await journal.append(user("zwei\nZeilen")),
        await journal.append(answer("ok", "c1")),
        await journal.append(
            CustomMessage(custom_type="nacre.recall", content="notes", details={"path": "x"})
        ),
        await journal.append(
            Compaction(
                summary="S", first_kept_entry_id=question.id, tokens_before=9, details={"readFiles": []}
            )
        ),
    ]

    again = await opened(tmp_path / "s.jsonl")

    assert again.tree.entries == again.tree.branch() == journal.tree.entries == tuple(appended)
    assert [entry.parent_id for entry in again.tree.entries] == [
        None,
        *(entry.id for entry in again.tree.entries[:-1]),
    ]
    assert all(len(entry.id) == 8 and int(entry.id, 16) >= 0 for entry in again.tree.entries)
    assert len((tmp_path / "s.jsonl").read_bytes().splitlines()) == 6
    assert (again.header, again.notices) == (
        SessionHeader(id="s-1", timestamp="2026-03-01T09:00:00.000Z", cwd=str(tmp_path)),
        (),
    )


async def test_ids_stay_unique_when_the_source_repeats_itself(tmp_path: Path) -> None:
    """A source of ids that always gives the same one still leads to different entries."""
    journal = await Journal.open(
        tmp_path / "s.jsonl", session_id="s", cwd=tmp_path, now=ticking_clock(), new_id=lambda: "same"
    )
    ids = [(await journal.append(user(str(number)))).id for number in range(3)]
    assert len(set(ids)) == 3
    assert said((await opened(tmp_path / "s.jsonl")).tree.branch()) == ["0", "1", "2"]


async def test_a_useless_compaction_is_refused(tmp_path: Path) -> None:
    """An empty summary or a first kept entry that is not there never hides the history."""
    journal = await opened(tmp_path / "s.jsonl")
    entry = await journal.append(user("hi"))
    before = journal.path.read_bytes()
    for summary, first in (("S", "nowhere"), (" ", entry.id)):
        with pytest.raises(ValueError, match="The history is unchanged"):
            await journal.append(Compaction(summary=summary, first_kept_entry_id=first, tokens_before=1))
    assert journal.path.read_bytes() == before


async def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """When the system takes only part of a line, the file is cut back and the next append succeeds."""
    journal = await opened(tmp_path / "s.jsonl")
    await journal.append(user("before"))
    before = journal.path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 40, hard))
    try:
        with pytest.raises(
            SessionWriteFailed, match=r"Could not write .*s\.jsonl: File too large"
        ) as failure:
            await journal.append(user("too much " * 50))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert failure.value.path == journal.path
    assert journal.path.read_bytes() == before
    assert said(journal.tree.branch()) == ["before"]
    await journal.append(user("after"))
    assert said((await opened(tmp_path / "s.jsonl")).tree.branch()) == ["before", "after"]


async def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    """A file in the place of the folder is named in the error."""
    (tmp_path / "agents").write_text("in the way")
    with pytest.raises(SessionWriteFailed, match="agents"):
        await (await opened(tmp_path / "agents" / "s.jsonl")).append(user("hi"))


async def test_a_cancelled_append_is_finished_first(tmp_path: Path) -> None:
    """Cancelling a caller in mid-append leaves object and file in agreement."""
    disk = HeldDisk()
    journal = await opened(tmp_path / "s.jsonl", sync=disk.sync)
    for number in range(20):
        with disk.held():
            task = asyncio.create_task(journal.append(user(str(number))))
            for _ in range(number % 4):
                await asyncio.wait({task}, timeout=0)
            task.cancel()
            await asyncio.wait({task}, timeout=0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert journal.tree.branch() == (await opened(tmp_path / "s.jsonl")).tree.branch()


async def test_appends_keep_the_order_of_the_calls(tmp_path: Path) -> None:
    """Many appends begun at once stand in the file in the order they were asked for."""
    journal = await opened(tmp_path / "s.jsonl")
    await asyncio.gather(*(journal.append(user(str(number))) for number in range(30)))
    assert said((await opened(tmp_path / "s.jsonl")).tree.branch()) == [str(number) for number in range(30)]


@pytest.mark.parametrize("kind", ["link", "folder", "dangling"])
async def test_only_plain_files_are_opened(tmp_path: Path, kind: str) -> None:
    """A symbolic link or a folder in the transcript's place is refused, and what it names is untouched."""
    target = tmp_path / "secret.txt"
    if kind == "link":
        target.write_text("secret")
    path = tmp_path / "s.jsonl"
    path.mkdir() if kind == "folder" else path.symlink_to(target)
    with pytest.raises(SessionCorrupt, match=r"s\.jsonl is (a symbolic link|not a regular file)"):
        await opened(path)
    assert (target.read_text() if kind == "link" else target.exists()) in ("secret", False)


async def test_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    """A file of a version that is not known is refused and not changed."""
    path = tmp_path / "s.jsonl"
    path.write_text('{"type":"session","version":4,"id":"s"}\n{"type":"novelty"}\n{"torn')
    before = path.read_bytes()
    with pytest.raises(SessionVersionUnknown, match="format version 4; this program reads up to 3"):
        await opened(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        (
            "v3-pi.jsonl",
            ["What is in notes.md?", "Let me look.", "Buy milk.", "It says: buy milk.", "Thanks!", "You are"],
        ),
        ("compacted-twice.jsonl", ["one", "first", "two", "second", "three", "third", "four"]),
        ("failed-flush.jsonl", ["Remember the milk.", "I will.", "Still there?"]),
    ],
)
async def test_every_file_of_the_format_loads(tmp_path: Path, name: str, texts: list[str]) -> None:
    """pi's own files and older ones of Nacre open without a notice, stay as they are, and go on."""
    path = tmp_path / name
    path.write_bytes(before := (FIXTURES / name).read_bytes())

    journal = await opened(path)
    assert (said(journal.tree.branch()), journal.notices, path.read_bytes()) == (texts, (), before)

    await journal.append(user("new"))
    again = await opened(path)
    assert (said(again.tree.branch()), again.notices) == ([*texts, "new"], ())
    assert again.tree.branch() == journal.tree.branch()
    assert path.read_bytes().startswith(before)


@pytest.mark.covers("A6-4")
async def test_a_pi_file_keeps_its_tree(tmp_path: Path) -> None:
    """The branch is pi's: what was left behind is in the file but not on the branch."""
    (tmp_path / "p.jsonl").write_bytes((FIXTURES / "v3-pi.jsonl").read_bytes())
    journal = await opened(tmp_path / "p.jsonl")

    left = [entry for entry in journal.tree.entries if entry not in journal.tree.branch()]
    assert "Never mind that." in said(left)
    assert isinstance(left[1].body, Label)
    assert any(
        isinstance(entry.body, CustomMessage) and entry.body.content == "Mind the date." for entry in left
    )
    results = [entry.body for entry in journal.tree.branch() if isinstance(entry.body, ToolResultMessage)]
    assert [message.details for message in results] == [{"lines": 1}]
    assert journal.header.parent_session == "/srv/bot/old.jsonl"
