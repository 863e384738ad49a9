"""One line of a transcript file, in pi's session format v3: its header and its entries, read and written.

A contract: bytes on disk. Reading loses nothing: whatever is not understood is a `RawBody` with its
JSON as it was. Files are only ever appended to, so keys that are unknown here stay in the file.
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
"""Roles of pi's own that a `message` entry may carry; they are read as `RawBody`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionHeader:
    """The first line: which session this is. `timestamp` is ISO 8601, `cwd` where it was begun."""

    id: str
    timestamp: str
    cwd: str
    version: int = FORMAT_VERSION
    parent_session: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Compaction:
    """A summary that stands, in the model's view, for everything before `first_kept_entry_id`.

    `from_hook` says that an extension of another program wrote it, so `details` may mean anything.
    """

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: Mapping[str, Any] | None = None
    from_hook: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomRecord:
    """A program's own record; never in the model's view."""

    custom_type: str
    data: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomMessage:
    """Text that a program put into the conversation; the model sees it as a user message."""

    custom_type: str
    content: str
    display: bool = False
    details: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchSummary:
    """What happened behind `from_id` on a branch that was left there; `root` is the very beginning.

    `from_hook` as in `Compaction`.
    """

    from_id: str
    summary: str
    details: Mapping[str, Any] | None = None
    from_hook: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """A name that a person gave to the entry `target_id`; without a `label` it takes the name away."""

    target_id: str
    label: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RawBody:
    """An entry of any other type, as it stands in the file: settings, names, unknown things."""

    raw: Mapping[str, Any]


KnownBody: TypeAlias = Message | Compaction | CustomRecord | CustomMessage | BranchSummary | Label
Body: TypeAlias = KnownBody | RawBody
"""What an entry says. A message of the conversation is its entry's body itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One line behind the header: its place in the session's tree, when it was written, what it says."""

    id: str
    parent_id: str | None
    timestamp: str
    body: Body

    def custom_data(self, custom_type: str) -> Mapping[str, Any] | None:
        """What a program's own record of this type holds, nothing if that is no object.

        `None` when the entry is something else.
        """
        if not isinstance(self.body, CustomRecord) or self.body.custom_type != custom_type:
            return None
        return self.body.data if isinstance(self.body.data, Mapping) else {}


def header_from_json(raw: Mapping[str, Any]) -> SessionHeader | None:
    """Reads a header; `None` when `raw` is none. A missing version is version 1."""
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
    """The header as pi stores it."""
    raw: dict[str, Any] = {
        "type": "session",
        "version": header.version,
        "id": header.id,
        "timestamp": header.timestamp,
        "cwd": header.cwd,
    }
    return raw if header.parent_session is None else {**raw, "parentSession": header.parent_session}


def entry_from_json(raw: Mapping[str, Any]) -> Entry:
    """Reads one entry; one of an unknown type or with an unreadable shape has a `RawBody`.

    Expects a string `id`; `parentId` may be missing.
    """
    parent = raw.get("parentId")
    return placed_entry(
        raw, entry_id=str(raw.get("id") or ""), parent_id=parent if isinstance(parent, str) else None
    )


def placed_entry(raw: Mapping[str, Any], *, entry_id: str, parent_id: str | None) -> Entry:
    """Reads one entry like `entry_from_json`, with the id and parent that its place in the file gives it."""
    try:
        body = _known_body(raw) or RawBody(raw=raw)
    except ValueError:
        body = RawBody(raw=raw)
    return Entry(id=entry_id, parent_id=parent_id, timestamp=str(raw.get("timestamp") or ""), body=body)


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """The entry as pi stores it."""
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


def is_misshapen(entry: Entry) -> bool:
    """Whether an entry of a known type could not be read as such, so that the model does not see it."""
    if not isinstance(entry.body, RawBody) or entry.body.raw.get("type") not in KNOWN_TYPES:
        return False
    message = entry.body.raw.get("message")
    return not (isinstance(message, dict) and message.get("role") in FOREIGN_ROLES)


def blocks_text(content: object) -> str:
    """The text of a content that is a string or a list of blocks.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        kind = "null" if content is None else type(content).__name__
        raise ValueError(f"content is {kind}, not text or blocks")
    blocks = (block for block in content if isinstance(block, dict) and block.get("type") == "text")
    return "\n".join(str(block.get("text") or "") for block in blocks)


def _known_body(raw: Mapping[str, Any]) -> KnownBody | None:
    """The body of one of `KNOWN_TYPES`; `None` and `ValueError` are of another type or shape."""
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
    """The type of an entry with this body, and the keys that the type has; `None` is left out."""
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


class EntryRun(Sequence[Entry]):
    """The first `length` entries of a list that only ever grows at its end.

    Taking one costs the same however long the list is, and it stays what it was while the list grows.
    Equal to any sequence of equal entries.
    """

    __slots__ = ("_grown", "_length")

    def __init__(self, grown: list[Entry], length: int) -> None:
        self._grown = grown
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, place: int | slice) -> Entry | tuple[Entry, ...]:
        if isinstance(place, slice):
            return tuple(map(self._grown.__getitem__, range(*place.indices(self._length))))
        if not -self._length <= place < self._length:
            raise IndexError(f"there are {self._length} entries, so none at {place}")
        return self._grown[place if place >= 0 else self._length + place]

    def __iter__(self) -> Iterator[Entry]:
        return islice(self._grown, self._length)

    def __reversed__(self) -> Iterator[Entry]:
        return map(self._grown.__getitem__, range(self._length - 1, -1, -1))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(other) == self._length and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]  # what compares by content is no key

    def __repr__(self) -> str:
        return f"EntryRun({[entry.id for entry in self]})"


class EntryTree:
    """Takes entries in file order. The newest one is the leaf, whose child the next one will be.

    Adding an entry and looking at the branch cost the same however many entries there are, as long as
    the entry goes on where the one before it ended; only another branch is walked once.
    """

    def __init__(self) -> None:
        self._grown: list[Entry] = []
        self._by_id: dict[str, Entry] = {}
        self._labels: dict[str, str] = {}
        self._customs: dict[str, list[Entry]] = {}
        self._path: list[Entry] = []
        self._compactions = 0

    def __contains__(self, entry_id: object) -> bool:
        return entry_id in self._by_id

    def __len__(self) -> int:
        return len(self._grown)

    @property
    def entries(self) -> EntryRun:
        """All entries in file order."""
        return EntryRun(self._grown, len(self._grown))

    @property
    def leaf_id(self) -> str | None:
        """The id of the newest entry."""
        return self._grown[-1].id if self._grown else None

    @property
    def compaction_count(self) -> int:
        """How many compactions the branch has."""
        self._walk()
        return self._compactions

    def customs(self, custom_type: str) -> EntryRun:
        """The custom entries of one type in file order, on all branches."""
        found = self._customs.get(custom_type, [])
        return EntryRun(found, len(found))

    def label(self, entry_id: str) -> str | None:
        """The name that was last given to an entry, if it was not taken away again."""
        return self._labels.get(entry_id)

    def labelled(self, label: str) -> str | None:
        """The id of the entry that carries a name; of several the one that got it last."""
        return next((entry_id for entry_id, name in reversed(self._labels.items()) if name == label), None)

    def add(self, entry: Entry) -> None:
        """Takes the newest entry. Its id is new and its parent was added before, or is `None`."""
        if self._path and self._path[-1].id == entry.parent_id:
            self._lengthen(entry)
        self._grown.append(entry)
        self._by_id[entry.id] = entry
        match entry.body:
            case CustomRecord(custom_type=custom_type):
                self._customs.setdefault(custom_type, []).append(entry)
            case Label(target_id=target_id, label=label):
                self._labels.pop(target_id, None)
                if label:
                    self._labels[target_id] = label

    def branch(self, leaf_id: str | None = None) -> EntryRun:
        """The entries from the root to an entry, the leaf unless given.

        Raises:
            ValueError: there is no entry of that id.
        """
        if leaf_id is None or leaf_id == self.leaf_id:
            self._walk()
            return EntryRun(self._path, len(self._path))
        path = self._chain(leaf_id)
        return EntryRun(path, len(path))

    def _walk(self) -> None:
        """Walks the branch if its end is not the leaf any more."""
        if not self._grown or (self._path and self._path[-1] is self._grown[-1]):
            return
        # A new list: runs of the old one must stay what they were.
        self._path, self._compactions = [], 0
        for entry in self._chain(self._grown[-1].id):
            self._lengthen(entry)

    def _lengthen(self, entry: Entry) -> None:
        self._path.append(entry)
        self._compactions += isinstance(entry.body, Compaction)

    def _chain(self, entry_id: str | None) -> list[Entry]:
        path: list[Entry] = []
        while entry_id is not None:
            entry = self._by_id.get(entry_id)
            if entry is None:
                raise ValueError(f"The transcript has no entry {entry_id!r}; nothing was changed.")
            path.append(entry)
            entry_id = entry.parent_id
        path.reverse()
        return path


@dataclass(frozen=True, kw_only=True)
class StoredTranscript:
    """A transcript as it was when it was read: all entries, and the present branch."""

    header: SessionHeader
    entries: tuple[Entry, ...]
    branch: tuple[Entry, ...]


SESSION_TYPE = "nacre.session"


@dataclass(frozen=True, kw_only=True)
class SessionOwner:
    """What a transcript says of its session; `None` is what it does not say in a readable way."""

    key: str | None
    chat_kind: str | None
    is_private: bool | None

    def to_record(self) -> CustomRecord:
        """The body of the entry that tells it."""
        data = {"key": self.key, "chatKind": self.chat_kind, "private": self.is_private}
        known = {name: value for name, value in data.items() if value is not None}
        return CustomRecord(custom_type=SESSION_TYPE, data=known)


def session_owner(entry: Entry) -> SessionOwner | None:
    """What an entry tells of its session's owner; `None` when it is an entry of another kind."""
    data = entry.custom_data(SESSION_TYPE)
    if data is None:
        return None
    key, kind, private = data.get("key"), data.get("chatKind"), data.get("private")
    return SessionOwner(
        key=key if isinstance(key, str) else None,
        chat_kind=kind if isinstance(kind, str) else None,
        is_private=private if isinstance(private, bool) else None,
    )


def begun_private(tree: EntryTree) -> bool | None:
    """Whether a session was begun by its owner in private; `None` when it does not say."""
    owners = map(session_owner, tree.customs(SESSION_TYPE))
    told = (owner.is_private for owner in owners if owner is not None)
    return next((is_private for is_private in told if is_private is not None), None)


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


class EntryLinker:
    """Reads entries one after the other into `tree`. What was mended stands in `notices`."""

    def __init__(self, session_id: str) -> None:
        self.tree = EntryTree()
        self.notices: list[str] = []
        self._session_id = session_id
        self._aliases: dict[str, str] = {}
        self._gap = False

    def skip_unreadable(self) -> None:
        """Notes that a line was lost here, so that the next entry may miss its parent without a notice."""
        self._gap = True

    def read(self, raw: Mapping[str, Any], *, offset_bytes: int) -> Entry:
        """The entry of one line, linked to those before it."""
        stored = raw.get("id")
        parent_id = self._parent(raw)
        entry_id = stored if isinstance(stored, str) and stored else self._derived_id(offset_bytes)
        if entry_id in self.tree:
            self.notices.append(f"Two entries have the id {entry_id!r}; the later one was given another.")
            entry_id = self._derived_id(offset_bytes)
        entry = placed_entry(self._renamed(raw), entry_id=entry_id, parent_id=parent_id)
        if is_misshapen(entry):
            self.notices.append(
                f"The entry {entry_id!r} of type {raw.get('type')!r} cannot be read, so no model sees it."
            )
        self.add(entry)
        if isinstance(stored, str) and stored != entry_id:
            self._aliases[stored] = entry_id
        return entry

    def add(self, entry: Entry) -> None:
        """Takes an entry that is sound already as the newest one."""
        self.tree.add(entry)
        self._gap = False

    def unused_id(self, new_id: Callable[[], str]) -> str:
        """An id of eight hex digits that no entry has; after a hundred collisions a longer one."""
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
        known = self._known(stored) if isinstance(stored, str) else None
        if known is None and not self._gap:
            self.notices.append(
                f"The entry {raw.get('id')!r} names the parent {stored!r}, which does not stand before it, "
                "so it was linked to the entry before it."
            )
        return known or self.tree.leaf_id

    def _known(self, stored_id: str) -> str | None:
        """The entry that a stored id means: of several with one id the latest."""
        return self._aliases.get(stored_id) or (stored_id if stored_id in self.tree else None)

    def _renamed(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """A compaction and a label speak of entries by their stored ids."""
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
    """The id of an entry whose line has none: the same at each reading, a longer one if it is `taken`."""
    place = f"{session_id}:{offset_bytes}"
    short = _digest(place, digest_bytes=4)
    return short if short not in taken else _digest(place, digest_bytes=16)


def _digest(text: str, *, digest_bytes: int) -> str:
    return hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=digest_bytes).hexdigest()
