"""A transcript in pi's session format v3: its header, its entries, and the tree that they form.

Reading loses nothing: an entry that is not understood becomes a `RawBody` with its original JSON. Files are
only appended to, so unknown keys stay in the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import eq
from typing import Any, TypeAlias, overload

from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    message_from_json,
)
from nacre.sessions.disk.json_text import Line

FORMAT_VERSION = 3

KNOWN_TYPES = ("message", "compaction", "custom", "custom_message", "branch_summary", "label")
FOREIGN_ROLES = ("custom", "bashExecution", "branchSummary", "compactionSummary")
"""pi's own roles that a `message` entry may have; they are read as `RawBody`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionHeader:
    """The first line of a transcript. `timestamp` is ISO 8601; `cwd` is the folder in which the session
    started."""

    id: str
    timestamp: str
    cwd: str
    version: int = FORMAT_VERSION
    parent_session: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Compaction:
    """A summary that replaces everything before `first_kept_entry_id` in the model's view.

    `from_hook` means that another program's extension wrote it, so `details` may have any content.
    """

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: Mapping[str, Any] | None = None
    from_hook: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomRecord:
    """A program's own record, which the model never sees."""

    custom_type: str
    data: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomMessage:
    """Text that a program added to the conversation; the model sees it as a user message."""

    custom_type: str
    content: str
    display: bool = False
    details: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchSummary:
    """A summary of an abandoned branch after `from_id`; `root` means from the beginning.

    `from_hook` has the same meaning as in `Compaction`.
    """

    from_id: str
    summary: str
    details: Mapping[str, Any] | None = None
    from_hook: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """A name that a person gave to the entry `target_id`; without a `label`, it removes the name."""

    target_id: str
    label: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RawBody:
    """An entry of any other type, as stored: settings, names, unknown entries."""

    raw: Mapping[str, Any]


KnownBody: TypeAlias = Message | Compaction | CustomRecord | CustomMessage | BranchSummary | Label
Body: TypeAlias = KnownBody | RawBody
"""The content of an entry. A conversation message is itself the body of its entry."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One line after the header, with its position in the session's tree."""

    id: str
    parent_id: str | None
    timestamp: str
    body: Body

    def custom_data(self, custom_type: str) -> Mapping[str, Any] | None:
        """The data of a program's own record of this type; empty if the data is not an object.

        Returns `None` for any other entry.
        """
        if not isinstance(self.body, CustomRecord) or self.body.custom_type != custom_type:
            return None
        return self.body.data if isinstance(self.body.data, Mapping) else {}


def header_from_json(raw: Mapping[str, Any]) -> SessionHeader | None:
    """Reads a header; `None` if `raw` is not one. A missing version means version 1."""
    version = raw.get("version", 1)
    if raw.get("type") != "session" or not isinstance(raw.get("id"), str) or not raw["id"]:
        return None
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        return None
    parent = raw.get("parentSession")
    return SessionHeader(
        id=raw["id"],
        timestamp=str(raw.get("timestamp") or ""),
        cwd=str(raw.get("cwd") or ""),
        version=version,
        parent_session=parent if isinstance(parent, str) else None,
    )


def header_to_json(header: SessionHeader) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "type": "session",
        "version": header.version,
        "id": header.id,
        "timestamp": header.timestamp,
        "cwd": header.cwd,
    }
    return raw if header.parent_session is None else {**raw, "parentSession": header.parent_session}


def entry_from_json(raw: Mapping[str, Any]) -> Entry:
    """Reads one entry. An unknown type or an unreadable shape gives a `RawBody`.

    Expects a string `id`; `parentId` may be missing.
    """
    parent = raw.get("parentId")
    return placed_entry(
        raw, entry_id=str(raw.get("id") or ""), parent_id=parent if isinstance(parent, str) else None
    )


def placed_entry(raw: Mapping[str, Any], *, entry_id: str, parent_id: str | None) -> Entry:
    """Reads one entry like `entry_from_json`, but with the given id and parent."""
    try:
        body = _known_body(raw) or RawBody(raw=raw)
    except ValueError:
        body = RawBody(raw=raw)
    return Entry(id=entry_id, parent_id=parent_id, timestamp=str(raw.get("timestamp") or ""), body=body)


def entry_to_json(entry: Entry) -> dict[str, Any]:
    if isinstance(entry.body, RawBody):
        return {**entry.body.raw, "id": entry.id, "parentId": entry.parent_id}
    kind, fields = _own_fields(entry.body)
    return {
        "type": kind,
        "id": entry.id,
        "parentId": entry.parent_id,
        "timestamp": entry.timestamp,
        **{key: value for key, value in fields.items() if value is not None},
    }


def is_malformed(entry: Entry) -> bool:
    """Whether an entry of a known type could not be read, so that the model does not see it."""
    if not isinstance(entry.body, RawBody) or entry.body.raw.get("type") not in KNOWN_TYPES:
        return False
    message = entry.body.raw.get("message")
    return not (isinstance(message, dict) and message.get("role") in FOREIGN_ROLES)


def blocks_text(content: object) -> str:
    """The text of content that is a string or a list of blocks. Raises `ValueError` if it is neither."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        kind = "null" if content is None else type(content).__name__
        raise ValueError(f"content is {kind}, not text or blocks")
    blocks = [block for block in content if isinstance(block, dict) and block.get("type") == "text"]
    return "\n".join([str(block.get("text") or "") for block in blocks])


def _known_body(raw: Mapping[str, Any]) -> KnownBody | None:
    """The body of one of `KNOWN_TYPES`. `None` and `ValueError` mean another type or shape."""
    kind, message = raw.get("type"), raw.get("message")
    if kind == "message":
        return message_from_json(message) if isinstance(message, dict) else None
    custom_type, summary = str(raw.get("customType") or ""), raw.get("summary")
    details = raw["details"] if isinstance(raw.get("details"), dict) else None
    match kind:
        case "compaction" if isinstance(summary, str):
            before = raw.get("tokensBefore")
            return Compaction(
                summary=summary,
                first_kept_entry_id=str(raw.get("firstKeptEntryId") or ""),
                tokens_before=before if isinstance(before, int) and not isinstance(before, bool) else 0,
                details=details,
                from_hook=raw.get("fromHook") is True,
            )
        case "custom":
            return CustomRecord(custom_type=custom_type, data=raw.get("data"))
        case "custom_message":
            return CustomMessage(
                custom_type=custom_type,
                content=blocks_text(raw.get("content")),
                display=raw.get("display") is True,
                details=details,
            )
        case "branch_summary" if isinstance(summary, str):
            return BranchSummary(
                from_id=str(raw.get("fromId") or "root"),
                summary=summary,
                details=details,
                from_hook=raw.get("fromHook") is True,
            )
        case "label" if isinstance(raw.get("targetId"), str):
            label = raw.get("label")
            named = isinstance(label, str) and label.strip()
            return Label(target_id=raw["targetId"], label=label if named else None)
    return None


def _own_fields(body: KnownBody) -> tuple[str, dict[str, Any]]:
    """The entry type of this body and the type's own keys; keys with `None` are not stored."""
    match body:
        case UserMessage() | AssistantMessage() | ToolResultMessage():
            return "message", {"message": body.to_json()}
        case Compaction():
            return "compaction", {
                "summary": body.summary,
                "firstKeptEntryId": body.first_kept_entry_id,
                "tokensBefore": body.tokens_before,
                "details": body.details,
                "fromHook": body.from_hook or None,
            }
        case CustomRecord():
            return "custom", {"customType": body.custom_type, "data": body.data}
        case CustomMessage():
            return "custom_message", {
                "customType": body.custom_type,
                "content": body.content,
                "display": body.display,
                "details": body.details,
            }
        case BranchSummary():
            return "branch_summary", {
                "fromId": body.from_id,
                "summary": body.summary,
                "details": body.details,
                "fromHook": body.from_hook or None,
            }
        case Label():
            return "label", {"targetId": body.target_id, "label": body.label}


REWIND_TYPE = "nacre.rewind"
"""The type of the entry that begins a branch without a summary; its data has `leftAt`."""


def check_addable(body: KnownBody, tree: EntryTree) -> None:
    """Checks that an entry can follow the newest one.

    Raises:
        ValueError: a compaction's summary is blank or its first kept entry is not on the branch, or a label's
            target does not exist.
    """
    if isinstance(body, Label):
        tree.branch(body.target_id)
    if isinstance(body, Compaction):
        summary, kept_id = body.summary.strip(), body.first_kept_entry_id
        if not summary or not any(entry.id == kept_id for entry in reversed(tree.branch())):
            raise ValueError(
                f"A compaction needs a summary (it has {len(summary)} characters) and a first kept entry on "
                f"the branch (it is {kept_id!r}). The history is unchanged."
            )


def rewind_body(tree: EntryTree, leaf_id: str | None, summary: str) -> BranchSummary | CustomRecord:
    """The first entry's body of a branch that returns to `leaf_id`, or to the beginning if it is `None`.

    Raises:
        ValueError: no entry has that id.
    """
    tree.branch(leaf_id)
    left = {"leftAt": tree.leaf_id}
    if summary.strip():
        return BranchSummary(from_id=leaf_id or "root", summary=summary, details=left)
    return CustomRecord(custom_type=REWIND_TYPE, data=left)


class EntryRun(Sequence[Entry]):
    """The first `length` entries of a list that only grows at its end.

    Creating one takes constant time, and it does not change while the list grows.
    """

    __slots__ = ("_entries", "_length")

    def __init__(self, grown: list[Entry], length: int) -> None:
        self._entries = grown
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, place: int | slice) -> Entry | tuple[Entry, ...]:
        if isinstance(place, slice):
            return tuple(map(self._entries.__getitem__, range(*place.indices(self._length))))
        if not -self._length <= place < self._length:
            raise IndexError(f"index {place} is out of range for {self._length} entries")
        return self._entries[place if place >= 0 else self._length + place]

    def __iter__(self) -> Iterator[Entry]:
        return islice(self._entries, self._length)

    def __reversed__(self) -> Iterator[Entry]:
        return map(self._entries.__getitem__, range(self._length - 1, -1, -1))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(other) == self._length and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]  # it compares by content

    def __repr__(self) -> str:
        return f"EntryRun({[entry.id for entry in self]})"


class EntryTree:
    """The tree of a session's entries, added in file order. The newest entry is the leaf.

    Adding an entry and reading the branch take constant time as long as each entry continues the previous
    one; switching to another branch walks that branch once.
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._by_id: dict[str, Entry] = {}
        self.labels: dict[str, str] = {}
        """The current names of entries, by entry id."""
        self._customs: dict[str, list[Entry]] = {}
        self._path: list[Entry] = []
        self._compactions = 0

    def __contains__(self, entry_id: object) -> bool:
        return entry_id in self._by_id

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> EntryRun:
        return EntryRun(self._entries, len(self._entries))

    @property
    def leaf_id(self) -> str | None:
        return self._entries[-1].id if self._entries else None

    @property
    def compaction_count(self) -> int:
        self._walk()
        return self._compactions

    def customs(self, custom_type: str) -> EntryRun:
        """The custom entries of one type on all branches, in file order."""
        found = self._customs.get(custom_type, [])
        return EntryRun(found, len(found))

    def labeled(self, label: str) -> str | None:
        """The id of the entry with this name, the last one named if there are several."""
        return next((entry_id for entry_id, name in reversed(self.labels.items()) if name == label), None)

    def add(self, entry: Entry) -> None:
        """Adds an entry with a new id, whose parent was added before or is `None`."""
        if self._path and self._path[-1].id == entry.parent_id:
            self._lengthen(entry)
        self._entries.append(entry)
        self._by_id[entry.id] = entry
        match entry.body:
            case CustomRecord(custom_type=custom_type):
                self._customs.setdefault(custom_type, []).append(entry)
            case Label(target_id=target_id, label=label):
                self.labels.pop(target_id, None)
                if label:
                    self.labels[target_id] = label

    def branch(self, leaf_id: str | None = None) -> EntryRun:
        """The entries from the root to `leaf_id`, or to the newest entry.

        Raises:
            ValueError: no entry has that id.
        """
        if leaf_id is None or leaf_id == self.leaf_id:
            self._walk()
            return EntryRun(self._path, len(self._path))
        path = self._chain(leaf_id)
        return EntryRun(path, len(path))

    def _walk(self) -> None:
        """Walks the branch if it no longer ends at the leaf."""
        if not self._entries or (self._path and self._path[-1] is self._entries[-1]):
            return
        # A new list, because existing runs of the old one must not change.
        self._path, self._compactions = [], 0
        for entry in self._chain(self._entries[-1].id):
            self._lengthen(entry)

    def _lengthen(self, entry: Entry) -> None:
        self._path.append(entry)
        self._compactions += isinstance(entry.body, Compaction)

    def _chain(self, entry_id: str | None) -> list[Entry]:
        path: list[Entry] = []
        while entry_id is not None:
            entry = self._by_id.get(entry_id)
            if entry is None:
                raise ValueError(f"The transcript has no entry {entry_id!r}. Nothing was changed.")
            path.append(entry)
            entry_id = entry.parent_id
        path.reverse()
        return path


@dataclass(frozen=True, kw_only=True)
class StoredTranscript:
    """A transcript as it was read: all entries, and the current branch."""

    header: SessionHeader
    entries: tuple[Entry, ...]
    branch: tuple[Entry, ...]


SESSION_TYPE = "nacre.session"


@dataclass(frozen=True, kw_only=True)
class SessionOwner:
    """The session that a transcript names; `None` is unknown."""

    key: str | None
    chat_kind: str | None
    is_private: bool | None

    def to_record(self) -> CustomRecord:
        data = {"key": self.key, "chatKind": self.chat_kind, "private": self.is_private}
        known = {name: value for name, value in data.items() if value is not None}
        return CustomRecord(custom_type=SESSION_TYPE, data=known)


def session_owner(entry: Entry) -> SessionOwner | None:
    """The session owner stored in an entry; `None` for an entry of another kind."""
    data = entry.custom_data(SESSION_TYPE)
    if data is None:
        return None
    key, kind, private = data.get("key"), data.get("chatKind"), data.get("private")
    return SessionOwner(
        key=key if isinstance(key, str) else None,
        chat_kind=kind if isinstance(kind, str) else None,
        is_private=private if isinstance(private, bool) else None,
    )


def started_in_private(tree: EntryTree) -> bool | None:
    """Whether the owner started the session in private; `None` if unknown."""
    owners = map(session_owner, tree.customs(SESSION_TYPE))
    stored = (owner.is_private for owner in owners if owner is not None)
    return next((is_private for is_private in stored if is_private is not None), None)


def branch_copy(
    lines: Iterable[Line], tree: EntryTree, *, source_id: str, leaf_id: str | None, header: SessionHeader
) -> Iterator[dict[str, Any]]:
    """Yields the header, the branch to `leaf_id` as stored in `lines`, and then its labels.

    `tree` was read from the same lines, whose session is `source_id`. Without a leaf, only the header is
    yielded.

    Raises:
        ValueError: no entry has that id.
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
    for entry in [entry for entry in kept.entries if kept.labels.get(entry.id) != tree.labels.get(entry.id)]:
        label = Entry(
            id=linker.unused_id(partial("label:{}".format, entry.id)),
            parent_id=newest,
            timestamp=header.timestamp,
            body=Label(target_id=entry.id, label=tree.labels.get(entry.id)),
        )
        linker.add(label)
        newest = label.id
        yield entry_to_json(label)


class EntryLinker:
    """Reads entries one by one into `tree`. `notices` are sentences about repairs."""

    def __init__(self, session_id: str) -> None:
        self.tree = EntryTree()
        self.notices: list[str] = []
        self._session_id = session_id
        self._aliases: dict[str, str] = {}
        self._gap = False

    def skip_unreadable(self) -> None:
        """Records a lost line, so that a missing parent of the next entry causes no notice."""
        self._gap = True

    def read(self, raw: Mapping[str, Any], *, offset_bytes: int) -> Entry:
        """Reads one line's entry and links it to the entries before it."""
        stored = raw.get("id")
        leaf_id = self.tree.leaf_id
        follows = leaf_id is not None and raw.get("parentId") == leaf_id and not self._aliases
        parent_id = leaf_id if follows else self._parent(raw)
        entry_id = stored if isinstance(stored, str) and stored else self._derived_id(offset_bytes)
        if entry_id in self.tree:
            self.notices.append(f"Two entries have the id {entry_id!r}; the later one was given a new id.")
            entry_id = self._derived_id(offset_bytes)
        entry = placed_entry(self._renamed(raw), entry_id=entry_id, parent_id=parent_id)
        if is_malformed(entry):
            self.notices.append(
                f"The entry {entry_id!r} of type {raw.get('type')!r} cannot be read, so models do not see it."
            )
        self.add(entry)
        if isinstance(stored, str) and stored != entry_id:
            self._aliases[stored] = entry_id
        return entry

    def add(self, entry: Entry) -> None:
        self.tree.add(entry)
        self._gap = False

    def unused_id(self, new_id: Callable[[], str]) -> str:
        """A new id of eight hexadecimal digits; a longer one after a hundred collisions."""
        for _ in range(100):
            candidate = _digest(new_id(), digest_bytes=4)
            if candidate not in self.tree:
                return candidate
        return _digest(f"{new_id()}:{len(self.tree)}", digest_bytes=16)

    def _parent(self, raw: Mapping[str, Any]) -> str | None:
        if "parentId" not in raw:
            return self.tree.leaf_id
        stored = raw["parentId"]
        if stored is None:
            return None
        known = None
        if isinstance(stored, str):  # of several entries with this id, the latest
            known = self._aliases.get(stored) or (stored if stored in self.tree else None)
        if known is None and not self._gap:
            self.notices.append(
                f"The entry {raw.get('id')!r} has the parent {stored!r}, which does not precede it, "
                "so it was linked to the entry before it."
            )
        return known or self.tree.leaf_id

    def _renamed(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self._aliases:
            return raw
        for name in ("firstKeptEntryId", "targetId"):
            stored = raw.get(name)
            if isinstance(stored, str) and stored in self._aliases:
                raw = {**raw, name: self._aliases[stored]}
        return raw

    def _derived_id(self, offset_bytes: int) -> str:
        return derived_id(self._session_id, offset_bytes, taken=self.tree)


def derived_id(session_id: str, offset_bytes: int, *, taken: Container[str]) -> str:
    """The id for an entry without one: the same at each reading, and longer if it is `taken`."""
    place = f"{session_id}:{offset_bytes}"
    short = _digest(place, digest_bytes=4)
    return short if short not in taken else _digest(place, digest_bytes=16)


def _digest(text: str, *, digest_bytes: int) -> str:
    return hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=digest_bytes).hexdigest()


def migrated(lines: Iterable[Line], header: SessionHeader) -> Iterator[dict[str, Any]]:
    """Yields the readable lines of an old transcript in version 3, header first.

    Ids are derived from each line's position in the old file, so that migrating twice gives the same ids.
    Unknown keys are kept; further header lines are left out.
    """
    ids: list[str | None] = []
    taken: set[str] = set()
    newest: str | None = None
    for line in lines:
        if line.value is None:
            continue
        if line.value["type"] == "session":
            if None not in ids:
                yield {**line.value, "version": FORMAT_VERSION}
            # Version 1 counts header lines too.
            ids.append(None)
            continue
        raw = _renamed(line.value)
        if header.version >= 2:
            yield raw
            continue
        entry_id = raw.get("id")
        if not isinstance(entry_id, str) or not entry_id:
            entry_id = derived_id(header.id, line.start, taken=taken)
        raw |= {"id": entry_id, "parentId": raw.get("parentId", newest)}
        index = raw.pop("firstKeptEntryIndex", None)
        if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(ids):
            raw.setdefault("firstKeptEntryId", ids[index])
        ids.append(entry_id)
        taken.add(entry_id)
        newest = entry_id
        yield raw


def _renamed(raw: Mapping[str, Any]) -> dict[str, Any]:
    message = raw.get("message")
    if isinstance(message, Mapping) and message.get("role") == "hookMessage":
        return {**raw, "message": {**message, "role": "custom"}}
    return dict(raw)
