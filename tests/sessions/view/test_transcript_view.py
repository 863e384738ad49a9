"""The view that grows with a session is the one that would be computed anew."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nacre.sessions.contracts.messages import Message
from nacre.sessions.entries.entries import Body, Compaction, CustomRecord, Entry, EntryTree
from nacre.sessions.view.transcript import TranscriptView, build_transcript
from tests.sessions.talk import STAMP, answer, result, user

MESSAGES: list[Message] = [
    user("a question"),
    answer("an answer"),
    answer("", "c0", "c1"),
    answer("", "c0"),
    answer("half", "c1", stop_reason="aborted"),
    result("c0"),
    result("c1", "failed", is_error=True),
    result("never called"),
]
# What the next entry is, how far behind the newest its parent stands, and how far back a summary keeps.
STEP = st.tuples(
    st.sampled_from([*MESSAGES, "compaction", "record"]),
    st.sampled_from([0, 0, 0, 0, 1, 3, 9]),
    st.integers(0, 5),
)


def grown(tree: EntryTree, kind: Message | str, back: int, kept: int) -> Entry:
    """Adds an entry behind the one that stands `back` entries before the newest."""
    parents = tree.entries
    parent = parents[-1 - back].id if back < len(parents) else None
    branch = tree.branch(parent) if parent else ()
    if kind == "compaction":
        first = branch[-1 - kept].id if kept < len(branch) else "nowhere"
        body: Body = Compaction(summary="S", first_kept_entry_id=first, tokens_before=1)
    elif isinstance(kind, str):
        body = CustomRecord(custom_type="x")
    else:
        body = kind
    entry = Entry(id=f"e{len(parents)}", parent_id=parent, timestamp=STAMP, body=body)
    tree.add(entry)
    return entry


def walked(tree: EntryTree) -> list[Entry]:
    """The branch, walked from the newest entry to its root."""
    by_id = {entry.id: entry for entry in tree.entries}
    path = []
    entry_id = tree.leaf_id
    while entry_id is not None:
        path.append(by_id[entry_id])
        entry_id = path[-1].parent_id
    return path[::-1]


@given(steps=st.lists(STEP, max_size=40), looks=st.lists(st.booleans(), min_size=40, max_size=40))
@pytest.mark.covers("A6-5", "A6-6")
def test_a_view_that_grows_is_the_one_computed_anew(
    steps: list[tuple[Message | str, int, int]], looks: list[bool]
) -> None:
    """However a tree grows, and whenever one looks, branch and view are what a full walk gives."""
    tree, view = EntryTree(), TranscriptView()
    for step, look in zip(steps, looks, strict=False):
        grown(tree, *step)
        if look:
            branch = walked(tree)
            assert tree.branch() == branch
            assert tree.compaction_count == sum(isinstance(entry.body, Compaction) for entry in branch)
            assert view.follow(tree.branch()) == build_transcript(branch)


@pytest.mark.covers("A18-3")
def test_an_unchanged_view_is_the_same_object() -> None:
    """A record that says nothing to the model leaves the transcript the very object that it was."""
    tree, view = EntryTree(), TranscriptView()
    grown(tree, user("hi"), 0, 0)
    before = view.follow(tree.branch())
    grown(tree, "record", 0, 0)
    assert view.follow(tree.branch()) is before
    grown(tree, result("never called"), 0, 0)
    assert view.follow(tree.branch()) is before
    grown(tree, answer("yo"), 0, 0)
    assert len(view.follow(tree.branch())) == 2


@pytest.mark.covers("A18-1")
def test_a_result_that_comes_late_takes_its_place() -> None:
    """A result behind other words replaces the error result that stood in for it."""
    tree, view = EntryTree(), TranscriptView()
    for message in (answer("", "c1"), user("and?")):
        grown(tree, message, 0, 0)
    assert view.follow(tree.branch())[1].message != result("c1")
    grown(tree, result("c1"), 0, 0)
    shown = [item.message for item in view.follow(tree.branch())]
    assert shown == [answer("", "c1"), result("c1"), user("and?")]


def test_a_branch_stays_what_it_was_while_the_session_grows() -> None:
    """Who holds a branch is not surprised by later entries, on it or elsewhere."""
    tree = EntryTree()
    for number in range(3):
        grown(tree, user(str(number)), 0, 0)
    held, ids = tree.branch(), ["e0", "e1", "e2"]
    grown(tree, user("later"), 0, 0)
    grown(tree, user("elsewhere"), 2, 0)
    assert [entry.id for entry in tree.branch()] == ["e0", "e1", "e4"]
    assert [entry.id for entry in held] == ids == [entry.id for entry in reversed(held)][::-1]
    assert (held[-1].id, held[1:2], held == tuple(held)) == ("e2", (held[1],), True)
    assert held != tree.branch()
