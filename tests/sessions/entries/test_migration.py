"""Transcripts of older formats: brought to the present one once, with the old file kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.sessions.contracts.messages import message_text
from nacre.sessions.disk.json_text import to_line
from tests.sessions.talk import FIXTURES, opened, said, set_aside_in, user

RIVERS = [
    "Which river runs through Vienna?",
    "The Danube.",
    "And through Prague?",
    "The Vltava.",
    "And through Rome?",
]


@pytest.mark.parametrize(
    ("name", "texts"),
    [("v1.jsonl", RIVERS), ("v2.jsonl", ["Good morning", "Take an umbrella."])],
)
@pytest.mark.covers("A6-14")
async def test_an_old_file_is_migrated_once_and_kept(tmp_path: Path, name: str, texts: list[str]) -> None:
    """A file of an older format reads as before, is told once, and lies beside the new one as it was."""
    path = tmp_path / name
    path.write_bytes(before := (FIXTURES / name).read_bytes())

    journal = await opened(path)

    assert said(journal.tree.branch()) == texts
    [notice] = journal.notices
    version = name[1]
    assert name in notice
    [kept] = tmp_path.glob(f"{name}.v{version}-*")
    assert (kept.name in notice, kept.read_bytes()) == (True, before)

    migrated = path.read_bytes()
    await journal.append(user("new"))
    again = await opened(path)
    assert (said(again.tree.branch()), again.notices, len(list(tmp_path.glob("*.v*-*")))) == (
        [*texts, "new"],
        (),
        1,
    )
    assert path.read_bytes().startswith(migrated)
    assert again.tree.branch() == journal.tree.branch()


@pytest.mark.covers("A6-14")
async def test_a_migrated_file_names_ids_and_parents(tmp_path: Path) -> None:
    """Every line of a version 1 file has an id and a parent afterwards, and loses none of its keys."""
    path = tmp_path / "v1.jsonl"
    path.write_bytes(before := (FIXTURES / "v1.jsonl").read_bytes())
    await opened(path)

    old = [json.loads(text) for text in before.splitlines()]
    header, *new = [json.loads(text) for text in path.read_bytes().splitlines()]

    assert header == {**old[0], "version": 3}
    assert [entry["parentId"] for entry in new] == [None, *(entry["id"] for entry in new[:-1])]
    for was, now in zip(old[1:], new, strict=True):
        was.pop("firstKeptEntryIndex", None)
        assert was.items() <= now.items()


@pytest.mark.covers("A6-14")
async def test_old_formats_mean_what_they_meant(tmp_path: Path) -> None:
    """Version 1's compaction keeps what it kept, and version 2's hook message is seen by the model."""
    for name in ("v1.jsonl", "v2.jsonl"):
        (tmp_path / name).write_bytes((FIXTURES / name).read_bytes())
    first, second = [
        [message_text(item.message) for item in (await opened(tmp_path / name)).transcript()]
        for name in ("v1.jsonl", "v2.jsonl")
    ]

    assert "Rivers were asked for." in first[0]
    assert first[1:] == RIVERS[2:]
    assert second == ["Good morning", "It rains.", "Take an umbrella."]


async def test_a_torn_old_file_loses_nothing(tmp_path: Path) -> None:
    """Broken lines of an old file are left out of the new one and stand in the kept one."""
    path = tmp_path / "v2.jsonl"
    header, first, *others = (FIXTURES / "v2.jsonl").read_bytes().splitlines(keepends=True)
    path.write_bytes(before := b"".join([header, first, b"{broken\n", *others, b"{torn"]))

    journal = await opened(path)

    assert said(journal.tree.branch()) == ["Good morning", "Take an umbrella."]
    assert "2 unreadable line(s) were left out" in journal.notices[0]
    assert [copy.read_bytes() for copy in tmp_path.glob("*.v2-*")] == [before]
    assert set_aside_in(tmp_path) == []


async def test_ids_that_an_old_file_has_are_kept(tmp_path: Path) -> None:
    """A version 1 file that a later program went on writing to keeps those entries' places."""
    path = tmp_path / "v1.jsonl"
    message = {"type": "message", "timestamp": "2025-11-01T08:00:00.000Z"}
    lines = (FIXTURES / "v1.jsonl").read_bytes()
    late = {**message, "id": "late0001", "parentId": None, "message": user("a new root").to_json()}
    path.write_bytes(lines + to_line(late))

    journal = await opened(path)

    assert said(journal.tree.branch()) == ["a new root"]
    assert said(journal.tree.entries) == [*RIVERS, "a new root"]
