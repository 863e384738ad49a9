"""Going back, forking and naming places: the tree in a transcript file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.sessions.contracts.errors import SessionCorrupt
from nacre.sessions.contracts.messages import message_text
from nacre.sessions.entries.entries import BranchSummary, Compaction, CustomRecord, Label
from nacre.sessions.journal.journal import Journal
from tests.sessions.talk import FIXTURES, answer, opened, said, user


async def talked(path: Path, *texts: str) -> tuple[Journal, list[str]]:
    """A journal of what was said in turns, and the ids of its entries."""
    journal = await opened(path)
    ids = []
    for number, text in enumerate(texts):
        entry = await journal.append(user(text) if number % 2 == 0 else answer(text))
        ids.append(entry.id)
    return journal, ids


def shown(journal: Journal) -> list[str]:
    return [message_text(item.message) for item in journal.transcript()]


@pytest.mark.covers("A6-7", "A6-10")
async def test_going_back_leaves_the_other_branch_in_the_file(tmp_path: Path) -> None:
    """After a rewind the model sees the older state and what comes then; the file has everything."""
    journal, ids = await talked(tmp_path / "s.jsonl", "one", "first", "two", "second")
    before = journal.path.read_bytes()

    left = await journal.rewind(ids[1])
    await journal.append(user("other"))

    assert shown(journal) == ["one", "first", "other"]
    assert isinstance(left.body, CustomRecord)
    assert (left.parent_id, left.body.data) == (ids[1], {"leftAt": ids[3]})
    assert journal.path.read_bytes().startswith(before)
    assert said(journal.tree.branch(ids[3])) == ["one", "first", "two", "second"]
    assert said(journal.tree.entries) == ["one", "first", "two", "second", "other"]


@pytest.mark.covers("A6-7")
async def test_a_rewind_holds_after_a_crash_right_behind_it(tmp_path: Path) -> None:
    """Going back is on disk at once: the next process goes on at the same place."""
    journal, ids = await talked(tmp_path / "s.jsonl", "one", "first", "two")
    await journal.rewind(ids[0])
    again = await opened(tmp_path / "s.jsonl")
    assert shown(again) == shown(journal) == ["one"]
    await again.append(user("next"))
    assert shown(await opened(tmp_path / "s.jsonl")) == ["one", "next"]


@pytest.mark.covers("A6-6")
async def test_a_rewind_to_the_root_and_back(tmp_path: Path) -> None:
    """The very beginning is a place to go back to, and so is the branch that was left."""
    journal, ids = await talked(tmp_path / "s.jsonl", "one", "first")
    await journal.rewind(None)
    assert shown(journal) == []
    await journal.append(user("afresh"))
    assert shown(journal) == ["afresh"]
    await journal.rewind(ids[-1])
    assert shown(journal) == ["one", "first"]


@pytest.mark.covers("A6-8", "A7-3")
async def test_a_summary_of_the_branch_that_was_left_is_shown(tmp_path: Path) -> None:
    """What is to be remembered of the other branch stands where it was left."""
    journal, ids = await talked(tmp_path / "s.jsonl", "one", "first", "two", "second")
    entry = await journal.rewind(ids[1], summary="The CSV was tried.")
    assert isinstance(entry.body, BranchSummary)
    assert (entry.body.from_id, entry.body.details) == (ids[1], {"leftAt": ids[3]})
    assert [text.split("\n")[0][:20] for text in shown(await opened(journal.path))] == [
        "one",
        "first",
        "Another branch of th",
    ]
    assert "The CSV was tried." in shown(journal)[-1]


@pytest.mark.covers("A6-7", "A6-8", "A6-9", "A6-11", "A6-12", "A7-4")
async def test_an_unknown_place_is_refused(tmp_path: Path) -> None:
    """A rewind, a fork, a label or a look at an entry that is not there changes nothing."""
    journal, _ = await talked(tmp_path / "s.jsonl", "one")
    before = journal.path.read_bytes()
    with pytest.raises(ValueError, match="no entry 'nowhere'"):
        await journal.rewind("nowhere")
    with pytest.raises(ValueError, match="no entry 'nowhere'"):
        await journal.fork("f.jsonl", session_id="f", leaf_id="nowhere")
    with pytest.raises(ValueError, match="no entry 'nowhere'"):
        await journal.append(Label(target_id="nowhere", label="x"))
    with pytest.raises(ValueError, match="no entry 'nowhere'"):
        journal.tree.branch("nowhere")
    assert journal.path.read_bytes() == before
    assert not (tmp_path / "f.jsonl").exists()


@pytest.mark.covers("A6-11")
async def test_a_fork_has_the_branch_and_names_its_parent(tmp_path: Path) -> None:
    """A forked file has the path to one entry, line for line, and nothing of other branches."""
    journal, ids = await talked(tmp_path / "s.jsonl", "one", "first", "two", "second")
    await journal.rewind(ids[1])
    await journal.append(user("other"))
    source = journal.path.read_bytes()

    await journal.fork("f.jsonl", session_id="f", leaf_id=ids[3])

    fork = await opened(tmp_path / "f.jsonl")
    assert (fork.header.id, fork.header.parent_session) == ("f", str(journal.path))
    assert fork.tree.entries == fork.tree.branch() == journal.tree.branch(ids[3])
    assert (tmp_path / "f.jsonl").read_bytes().splitlines()[1:] == source.splitlines()[1:5]
    assert journal.path.read_bytes() == source
    await fork.append(user("go on"))
    assert shown(journal) == ["one", "first", "other"]


@pytest.mark.covers("A6-12")
async def test_a_fork_keeps_what_it_does_not_understand(tmp_path: Path) -> None:
    """pi's own entries and keys go into the fork as they are, the names of its entries too."""
    (tmp_path / "p.jsonl").write_bytes((FIXTURES / "v3-pi.jsonl").read_bytes())
    journal = await opened(tmp_path / "p.jsonl")

    await journal.fork("f.jsonl", session_id="f", leaf_id=journal.tree.leaf_id)

    lines = [json.loads(line) for line in (tmp_path / "f.jsonl").read_bytes().splitlines()]
    stored = {entry["id"]: entry for entry in map(json.loads, journal.path.read_bytes().splitlines())}
    fork = await opened(tmp_path / "f.jsonl")
    assert [entry for entry in lines[1:] if entry["id"] in stored] == [
        stored[entry.id] for entry in journal.tree.branch()
    ]
    assert [fork.tree.labels.get(entry.id) for entry in journal.tree.branch()] == [
        journal.tree.labels.get(entry.id) for entry in journal.tree.branch()
    ]
    assert fork.tree.labels.get("a0000003") == "milk"
    assert fork.transcript() == journal.transcript()


@pytest.mark.covers("A6-11")
async def test_a_fork_at_the_beginning_is_empty(tmp_path: Path) -> None:
    """Before the first entry there is a header, once, and nothing else."""
    journal, _ = await talked(tmp_path / "s.jsonl", "one")
    await journal.fork("f.jsonl", session_id="f", leaf_id=None)
    fork = await opened(tmp_path / "f.jsonl")
    assert (len(fork.tree.entries), fork.header.id, fork.path.read_bytes().count(b"\n")) == (0, "f", 1)


@pytest.mark.covers("A6-11")
async def test_a_fork_overwrites_nothing(tmp_path: Path) -> None:
    """A file that is in the fork's place stays."""
    journal, ids = await talked(tmp_path / "s.jsonl", "one")
    (tmp_path / "f.jsonl").write_text("mine")
    with pytest.raises(SessionCorrupt, match="already exists"):
        await journal.fork("f.jsonl", session_id="f", leaf_id=ids[0])
    assert (tmp_path / "f.jsonl").read_text() == "mine"


@pytest.mark.covers("A6-4", "A6-5", "A6-6", "A6-9")
async def test_the_leaf_and_the_path_to_any_entry_are_known(tmp_path: Path) -> None:
    """An empty transcript has no leaf; each append moves it; a path leads to any entry on any branch."""
    empty = await opened(tmp_path / "empty.jsonl")
    assert (empty.tree.leaf_id, empty.tree.branch() == (), empty.tree.labels.get("x")) == (None, True, None)

    journal, ids = await talked(tmp_path / "s.jsonl", "one", "first", "two", "second")
    assert journal.tree.leaf_id == ids[3]
    left = await journal.rewind(ids[0])
    assert journal.tree.leaf_id == left.id
    assert (journal.tree.customs("nacre.rewind"), journal.tree.customs("other") == ()) == ((left,), True)
    deep = await journal.append(user("deep"))
    await journal.rewind(ids[0])
    other = await journal.append(user("other"))
    assert [said(journal.tree.branch(leaf)) for leaf in (ids[0], ids[3], deep.id, other.id)] == [
        ["one"],
        ["one", "first", "two", "second"],
        ["one", "deep"],
        ["one", "other"],
    ]


@pytest.mark.covers("A7-3")
async def test_a_compaction_counts_on_its_branch_only(tmp_path: Path) -> None:
    """One branch is compacted and shows its summary, the other shows every word."""
    journal, ids = await talked(tmp_path / "s.jsonl", "one", "first", "two", "second")
    await journal.append(Compaction(summary="Long ago.", first_kept_entry_id=ids[2], tokens_before=9))
    assert (shown(journal)[1:], journal.tree.compaction_count) == (["two", "second"], 1)
    await journal.rewind(ids[3])
    assert (shown(journal), journal.tree.compaction_count) == (["one", "first", "two", "second"], 0)


@pytest.mark.covers("A6-12")
async def test_names_are_given_moved_and_taken_away(tmp_path: Path) -> None:
    """The last name given holds, one taken away is gone, and none of it is seen by the model."""
    journal, ids = await talked(tmp_path / "s.jsonl", "one", "first")
    await journal.append(Label(target_id=ids[0], label="start"))
    await journal.append(Label(target_id=ids[0], label="begin"))
    await journal.append(Label(target_id=ids[1], label="end"))
    await journal.append(Label(target_id=ids[1]))

    again = await opened(journal.path)

    assert (again.tree.labels.get(ids[0]), again.tree.labels.get(ids[1])) == ("begin", None)
    assert (again.tree.labeled("begin"), again.tree.labeled("start"), again.tree.labeled("end")) == (
        ids[0],
        None,
        None,
    )
    assert shown(again) == ["one", "first"]


@pytest.mark.covers("A6-12")
async def test_a_fork_drops_names_of_other_branches(tmp_path: Path) -> None:
    """Names of entries that are not in the fork are not in it either; later ones of its own are."""
    journal, ids = await talked(tmp_path / "s.jsonl", "one", "first", "two")
    await journal.append(Label(target_id=ids[2], label="left"))
    await journal.append(Label(target_id=ids[0], label="kept"))
    await journal.fork("f.jsonl", session_id="f", leaf_id=ids[1])
    fork = await opened(tmp_path / "f.jsonl")
    assert (fork.tree.labeled("kept"), fork.tree.labeled("left")) == (ids[0], None)
    assert len(fork.tree.entries) == 3
