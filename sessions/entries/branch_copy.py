"""One branch of a transcript as the lines of a new one. Pure: lines in, objects out.

As pi forks a session: a header that names the file it came from, the entries from the root to one of
them with all their keys, and the names that these entries carry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from nacre.sessions.disk.lines import Line
from nacre.sessions.entries.entries import (
    Compaction,
    Entry,
    Label,
    SessionHeader,
    entry_to_json,
    header_to_json,
)
from nacre.sessions.entries.linking import EntryLinker
from nacre.sessions.entries.tree import EntryTree


def branch_copy(
    lines: Iterable[Line], tree: EntryTree, *, source_id: str, leaf_id: str | None, header: SessionHeader
) -> Iterator[dict[str, Any]]:
    """The header, then the branch to `leaf_id`, as it stands in `lines`, then its names.

    `tree` is what was read of the same lines, whose session is `source_id`. Without a leaf only the
    header is left.

    Raises:
        ValueError: there is no entry of that id.
    """
    yield header_to_json(header)
    if leaf_id is None:
        return
    wanted = {entry.id for entry in tree.branch(leaf_id)}
    linker, newest = EntryLinker(source_id), leaf_id
    kept = EntryTree()
    for line in lines:
        if line.value is None or line.value["type"] == "session":
            continue
        entry = linker.read(line.value, offset_bytes=line.start)
        if entry.id not in wanted:
            continue
        raw = {**line.value, "id": entry.id, "parentId": entry.parent_id}
        if isinstance(entry.body, Compaction):
            raw["firstKeptEntryId"] = entry.body.first_kept_entry_id
        if isinstance(entry.body, Label):
            raw["targetId"] = entry.body.target_id
        kept.add(entry)
        yield raw
    for entry in [entry for entry in kept.entries if kept.label(entry.id) != tree.label(entry.id)]:
        label = Entry(
            id=linker.unused_id(partial("label:{}".format, entry.id)),
            parent_id=newest,
            timestamp=header.timestamp,
            body=Label(target_id=entry.id, label=tree.label(entry.id)),
        )
        linker.add(label)
        newest = label.id
        yield entry_to_json(label)
