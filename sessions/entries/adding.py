"""What may be added to a transcript, whatever keeps it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.sessions.entries.entries import BranchSummary, Compaction, CustomRecord, Entry, KnownBody, Label
from nacre.sessions.entries.tree import EntryTree

REWIND_TYPE = "nacre.rewind"
"""The custom entry with which a branch begins whose past was not summed up; its data tells `leftAt`."""


def check_addable(body: KnownBody, tree: EntryTree) -> None:
    """Whether an entry fits behind the newest one.

    Raises:
        ValueError: a compaction's summary is blank, or the entry that it keeps first is not on the branch; or
            there is no entry that a label could name.
    """
    if isinstance(body, Compaction):
        _check_compaction(body, tree.branch())
    if isinstance(body, Label):
        tree.branch(body.target_id)


def rewind_body(tree: EntryTree, leaf_id: str | None, summary: str) -> BranchSummary | CustomRecord:
    """With what a branch begins that goes back to `leaf_id`, or to the beginning.

    Raises:
        ValueError: there is no entry of that id.
    """
    tree.branch(leaf_id)
    left = {"leftAt": tree.leaf_id}
    if summary.strip():
        return BranchSummary(from_id=leaf_id or "root", summary=summary, details=left)
    return CustomRecord(custom_type=REWIND_TYPE, data=left)


def _check_compaction(compaction: Compaction, branch: Sequence[Entry]) -> None:
    is_kept = any(entry.id == compaction.first_kept_entry_id for entry in reversed(branch))
    if not compaction.summary.strip() or not is_kept:
        raise ValueError(
            f"A compaction needs a summary, which had {len(compaction.summary.strip())} characters, and a "
            f"kept entry of the branch, which was {compaction.first_kept_entry_id!r}; "
            "the history was left as it is."
        )
