"""Damaged transcripts: they open, say what was wrong, and nothing that was in them is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.sessions.contracts.messages import Message
from nacre.sessions.disk.json_text import to_line
from nacre.sessions.journal.journal import Journal
from tests.sessions.talk import FIXTURES, STAMP, START, opened, said, set_aside_in, user

HEADER = {"type": "session", "version": 3, "id": "s-1", "timestamp": STAMP, "cwd": "/w"}


def line(entry_id: str | None, parent: object, text: str) -> bytes:
    message = {"type": "message", "timestamp": STAMP, "message": user(text).to_json()}
    return to_line({**message, **({"id": entry_id} if entry_id else {}), "parentId": parent})


def written(tmp_path: Path, *lines: bytes) -> Path:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(lines))
    return path


def aside(path: Path) -> list[bytes]:
    return set_aside_in(path.parent)


async def texts(path: Path) -> list[str]:
    return said((await opened(path)).tree.branch())


TORN = [
    b'{"type":"message","id":"b","par',
    b'{"type":"message","id":"b"}x\n',
    b"\xff\xfe broken\n",
    b"\0" * 4096,
    b'{"no":"type"}\n',
    b"[1,2]\n{\n",
    b"[" * 100_000 + b"\n",
]


@pytest.mark.parametrize("torn", TORN)
async def test_a_torn_end_is_set_aside(tmp_path: Path, torn: bytes) -> None:
    """What a crash left behind the last good line is copied beside the file, then cut off."""
    good = to_line(HEADER) + line("a", None, "kept")
    path = written(tmp_path, good, torn)

    journal = await opened(path)

    assert (path.read_bytes(), aside(path)) == (good, [torn])
    assert len(journal.notices) == 1
    assert journal.notices[0].startswith("The end of s.jsonl was incomplete")
    await journal.append(user("next"))
    again = await opened(path)
    assert (said(again.tree.branch()), again.notices, len(aside(path))) == (["kept", "next"], (), 1)


async def test_the_torn_fixture_opens(tmp_path: Path) -> None:
    """The kept example of a torn file opens with everything that was whole."""
    path = written(tmp_path, (FIXTURES / "torn.jsonl").read_bytes())
    assert await texts(path) == ["This was saved.", "This too."]
    assert aside(path)[0].endswith(b"This was n")


async def test_a_last_line_without_its_feed_is_kept(tmp_path: Path) -> None:
    """A whole last line that only lacks its line feed is kept and ended."""
    path = written(tmp_path, to_line(HEADER), line("a", None, "whole").rstrip(b"\n"))
    journal = await opened(path)
    await journal.append(user("next"))
    assert journal.notices == ("The last line of s.jsonl had no line feed; the line was kept and ended.",)
    assert (await texts(path), aside(path)) == (["whole", "next"], [])


@pytest.mark.covers("A6-1")
async def test_a_broken_line_in_the_middle_is_copied_once(tmp_path: Path) -> None:
    """A broken line is skipped and copied, its children stay in the conversation, and it is told once."""
    broken = b'{"type":"message","id":"b", oh no\n'
    path = written(tmp_path, to_line(HEADER), line("a", None, "one"), broken, line("c", "b", "three"))
    before = path.read_bytes()

    first, second = await opened(path), await opened(path)

    assert said(first.tree.branch()) == said(second.tree.branch()) == ["one", "three"]
    assert (path.read_bytes(), aside(path)) == (before, [broken])
    assert len(first.notices) == 1
    assert "1 unreadable line(s) of s.jsonl are skipped" in first.notices[0]
    assert second.notices == ()


@pytest.mark.parametrize("head", [b"", b"\n \n"])
@pytest.mark.covers("A6-1", "A6-3")
async def test_an_empty_file_gets_a_header(tmp_path: Path, head: bytes) -> None:
    """A file that a crash left empty begins anew, without any fuss."""
    journal = await opened(written(tmp_path, head))
    assert (journal.header.id, journal.notices, aside(journal.path)) == ("s-1", (), [])


@pytest.mark.parametrize(
    "head", [b"", b'{"type":"session","vers\n', b'{"type":"session","id":7}\n', b"\x00\x01\n"]
)
@pytest.mark.covers("A6-1")
async def test_a_file_without_a_header_is_salvaged(tmp_path: Path, head: bytes) -> None:
    """Without a header the file is set aside whole, and its readable entries go on under a new one."""
    path = written(tmp_path, head, line("a", None, "one"), b"junk\n", line("b", "a", "two"))
    before = path.read_bytes()

    journal = await opened(path)

    assert (said(journal.tree.branch()), aside(path)) == (["one", "two"], [before])
    assert "had no valid header" in journal.notices[0]
    assert "entries were kept (2)" in journal.notices[0]
    again = await opened(path)
    assert (again.tree.branch(), again.notices) == (journal.tree.branch(), ())


async def test_a_file_of_something_else_is_not_lost(tmp_path: Path) -> None:
    """A file that is no transcript at all is set aside whole."""
    path = written(tmp_path, b"Dear diary\n")
    assert await texts(path) == []
    assert aside(path) == [b"Dear diary\n"]


@pytest.mark.covers("A7-4")
async def test_an_unknown_parent_does_not_hide_the_past(tmp_path: Path) -> None:
    """An entry whose parent is not in the file hangs on the entry before it, and a notice says so."""
    path = written(
        tmp_path, to_line(HEADER), line("a", None, "one"), line("b", "lost", "two"), line("c", 5, "three")
    )
    journal = await opened(path)
    assert said(journal.tree.branch()) == ["one", "two", "three"]
    assert [notice[:28] for notice in journal.notices] == [
        "The entry 'b' has the parent",
        "The entry 'c' has the parent",
    ]


async def test_circles_and_repeated_ids_come_to_an_end(tmp_path: Path) -> None:
    """Entries that name themselves, each other, or share an id are all read, once each."""
    path = written(
        tmp_path,
        to_line(HEADER),
        line("a", "a", "one"),
        line("b", "c", "two"),
        line("c", "b", "three"),
        line("a", "c", "four"),
        line("d", "a", "five"),
        line(None, "d", "six"),
    )
    journal = await opened(path)
    assert said(journal.tree.branch()) == ["one", "two", "three", "four", "five", "six"]
    assert len({entry.id for entry in journal.tree.entries}) == 6
    assert (await opened(path)).tree.entries == journal.tree.entries


async def test_an_entry_of_a_wrong_shape_is_told(tmp_path: Path) -> None:
    """A message that is JSON but no message stays in the file, out of the conversation, with a notice."""
    odd = to_line({"type": "message", "id": "b", "parentId": "a", "message": {"role": "user", "content": 5}})
    path = written(tmp_path, to_line(HEADER), line("a", None, "one"), odd, line("c", "b", "two"))
    journal = await opened(path)
    assert (said(journal.tree.branch()), len(journal.tree.entries)) == (["one", "two"], 3)
    [notice] = journal.notices
    assert "'b'" in notice


async def test_foreign_line_ends_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    """A file that went through another system's editor is read as it is."""
    data = to_line(HEADER) + b"\n" + line("a", None, "one") + line("b", "a", "two")
    path = written(tmp_path, b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"))
    journal = await opened(path)
    assert (said(journal.tree.branch()), journal.notices) == (["one", "two"], ())


async def test_copies_made_in_one_second_do_not_meet(tmp_path: Path) -> None:
    """Two repairs at the same moment leave two copies."""

    async def reopened(torn: bytes) -> None:
        path = written(tmp_path, to_line(HEADER), torn)
        await Journal.open(path, session_id="s", cwd=tmp_path, now=lambda: START, new_id=lambda: "x")

    await reopened(b"{one")
    await reopened(b"{two")
    assert sorted(aside(tmp_path / "s.jsonl")) == [b"{one", b"{two"]


def is_whole(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


SHORT = (
    to_line(HEADER)
    + b'{"type":"custom","id":"a","parentId":null}\n{"type":"custom","id":"b","data":"\xc3\xa9"}\n'
)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(SHORT, id="short"),
        pytest.param((FIXTURES / "v3-pi.jsonl").read_bytes(), id="v3-pi", marks=pytest.mark.slow),
    ],
)
async def test_a_file_cut_at_any_place_opens(tmp_path: Path, data: bytes) -> None:
    """Cut at any byte of its last two lines, a file opens with all that was whole, and the rest is aside."""
    second_last = data.rfind(b"\n", 0, data.rfind(b"\n", 0, -1)) + 1
    for end in range(second_last, len(data) + 1):
        path = tmp_path / str(end) / "s.jsonl"
        path.parent.mkdir()
        path.write_bytes(data[:end])
        start_of_last = data.rfind(b"\n", 0, end) + 1
        last = data[start_of_last:end]

        journal = await opened(path)

        kept = last + b"\n" if is_whole(last) else b""
        assert path.read_bytes() == data[:start_of_last] + kept
        assert aside(path) == ([last] if last and not kept else [])
        assert len(journal.tree.entries) == path.read_bytes().count(b"\n") - 1


async def test_a_repair_does_not_touch_the_entries_before_it(tmp_path: Path) -> None:
    """The ids and parents that were read before a repair are the same after it."""
    path = written(tmp_path, (FIXTURES / "torn.jsonl").read_bytes())
    entries = (await opened(path)).tree.entries
    assert [entry.id for entry in entries if isinstance(entry.body, Message)] == ["a0000001", "a0000002"]
