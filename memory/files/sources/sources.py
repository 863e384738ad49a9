"""The sources of a workspace's lines: stored before a line is written, and found again by its words.

They are in the folder `.sources/` of the workspace, in one JSON Lines file per month that only grows: beside
the notes, so that git, backups and other machines have both, and in a folder to which no chat may write. The
files hold digests of lines, never their words. The format is a contract. A line that cannot be read is
skipped, so that a merge of two devices' files with conflict markers loses nothing.

With its source, a line has digests of what it says of a thing. When the owner gives a thing another value, a
`Mark` says which lines it replaces: the notes stay as they are.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, lru_cache
from itertools import takewhile
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from nacre.memory.contracts.notes import MAX_NOTE_BYTES
from nacre.memory.contracts.records import Address
from nacre.memory.contracts.workspace import FolderEntry, PathOutsideRoot, Workspace
from nacre.memory.files.sources.proposed_write import Reviewing
from nacre.memory.files.sources.source import (
    PRIVATE,
    Audience,
    Source,
    Speaker,
    Writer,
    may_see,
    narrowest,
    stems_of,
)
from nacre.record import Record

SOURCES_FOLDER = ".sources"

SecretsMode: TypeAlias = Literal["redact", "refuse", "ask", "off"]
"""What happens to keys and passwords on their way into a note. `ask` redacts if nobody can be asked."""

SourceOf = Callable[[str], Source]
"""Returns the source of a line that is about to be written."""

_Known: TypeAlias = "Sequence[_Lines]"
"""What is stored: of all months before the last one, and of the last one."""

MarkKind: TypeAlias = Literal["superseded", "kept"]
"""What became of lines: a later line of the owner replaced them, or they hold again."""


class Sources:
    """The stored sources of one workspace. It sees what other processes store in the meantime."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        secrets: SecretsMode = "redact",
        review: Reviewing | None = None,
        reviews_all: bool = False,
    ) -> None:
        """`review` stores the writes that wait for the owner; without it, none wait.

        With `reviews_all`, everything that a flush, a hook or a group writes waits, not only words of others.
        """
        self.workspace = workspace
        self.secrets = secrets
        self.review = review
        self.reviews_all = reviews_all
        self._files: dict[str, tuple[FolderEntry, _Month]] = {}
        self._listed: Sequence[FolderEntry] = ()
        self._known: _Known = ()
        self._older: tuple[Sequence[FolderEntry], _Lines] = [], _lines(())
        self._last: dict[str, Mark] = {}

    async def found(self, path: str, text: str, source_of: SourceOf) -> tuple[StoredSource, ...]:
        """The sources of the lines of `text` that are new in the note `path`; `store` stores them.

        Lines that the note already has keep their source. A line that is known from elsewhere as the words of
        others stays so, whoever writes it again. A heading is the same in many notes, so it belongs to its
        latest writer.
        """
        lines = {key: line for line in text.splitlines() if (key := line_key(line))}
        old = ""
        with suppress(FileNotFoundError):
            old = (await self.workspace.read(path, max_bytes=MAX_NOTE_BYTES)).text
        there = frozenset(map(line_key, old.splitlines()))
        new = {key: line for key, line in lines.items() if key not in there}
        if not new:
            return ()
        known = await self._read()
        of_source: dict[Source, list[str]] = {}
        for key, line in new.items():
            source = source_of(line)
            source = source if _is_heading(line) else _merged_with_earlier(source, known, key)
            of_source.setdefault(source, []).append(key)
        said = values_in(path, f"{_table_at_end(old)}{text}" if text.startswith("|") else text)
        return tuple(
            StoredSource(
                path=path,
                keys=tuple(keys),
                source=source,
                values=tuple(value for key in keys for value in said.get(key, ())),
            )
            for source, keys in of_source.items()
        )

    async def keep(self, path: str, text: str, source_of: SourceOf) -> None:
        """Stores the sources that `found` returns. Raises the same errors as `store`."""
        await self.store(await self.found(path, text, source_of))

    async def keep_written(self, path: str, lines: Sequence[str], source_of: SourceOf) -> None:
        """Stores the sources of lines that the note `path` already has, if they have none yet.

        Raises the same errors as `store`.
        """
        known = await self._read()
        of_source: dict[Source, list[str]] = {}
        for line in lines:
            key = line_key(line)
            if key and _source_of(known, path, key, is_heading=_is_heading(line)) is None:
                of_source.setdefault(source_of(line), []).append(key)
        await self.store(
            [
                StoredSource(path=path, keys=tuple(dict.fromkeys(keys)), source=source)
                for source, keys in of_source.items()
            ]
        )

    async def store(self, stored: Sequence[StoredSource]) -> None:
        """Stores the sources of lines that are about to be written. It does no harm if a line is not written.

        Lines with another value of a thing are marked as superseded, if the owner gave the new value.

        Raises:
            OSError, FileBusy, PathOutsideRoot: the sources cannot be stored; then the text must not be
                written.
        """
        if stored:
            month = max(each.source.at for each in stored)[:7] or "undated"
            name = f"{SOURCES_FOLDER}/{month}.jsonl"
            marks = _replaced(await self._read(), self._all_marks(), stored)
            text = to_lines([*stored, *marks])
            await self.workspace.append(name, text, skip_repeats=False)

    async def superseded(
        self, lines: Sequence[str], *, as_of: date | str | None = None, listeners: Audience = PRIVATE
    ) -> tuple[Mark | None, ...]:
        """For each line, what `stored` knows to have replaced it."""
        stored = await self.stored(as_of, listeners)
        marks = (stored.last.get(line_key(line)) for line in lines)
        return tuple(mark if mark is not None and mark.kind == "superseded" else None for mark in marks)

    async def stored(self, as_of: date | str | None = None, listeners: Audience = PRIVATE) -> Stored:
        """All that is stored, with the marks until the end of the day `as_of`; none for a day in words.

        `listeners` are not told that a line was replaced by one that they may not see.
        """
        known = await self._read()
        if not as_of and listeners == PRIVATE:
            return Stored(known, self._last)
        with suppress(ValueError):
            until = date.fromisoformat(str(as_of or date.max)).isoformat()
            marks = (mark for mark in self._all_marks() if mark.at[:10] <= until)
            return Stored(known, _latest(mark for mark in marks if _may_tell(known, listeners, mark)))
        return Stored(known, {})

    def _all_marks(self) -> tuple[Mark, ...]:
        return tuple(mark for name in sorted(self._files) for mark in self._files[name][1].marks)

    async def approve(self, path: str, lines: Sequence[str], source: Source) -> None:
        """Stores that the owner accepted these lines, which came from `source`.

        From now on, those of them that are words of others count as the owner's.

        Raises:
            OSError, FileBusy, PathOutsideRoot: this cannot be stored.
        """
        known = await self._read()
        keys = tuple(
            dict.fromkeys(
                key
                for line in lines
                if (key := line_key(line)) and (not source.is_owners_word or _is_others(known, key))
            )
        )
        if keys:
            accepted = replace(source, written_by="hand", said_by=("owner",))
            await self.store([StoredSource(path=path, keys=keys, source=accepted)])

    async def of_lines(self, path: str, lines: Sequence[str]) -> tuple[Source | None, ...]:
        """The source of each line of the note `path`; `None` without a stored source, as for lines by hand.

        A line that was moved here keeps its source. If it has several, one that is not the owner's word
        counts.
        """
        return _line_sources(await self._read(), path, lines)

    async def of_notes(
        self, notes: Sequence[tuple[str, Sequence[str]]]
    ) -> tuple[tuple[Source | None, ...], ...]:
        """Like `of_lines`, for several notes, each with its path."""
        known = await self._read()
        return tuple(_line_sources(known, path, lines) for path, lines in notes)

    async def paths_of_others(self) -> frozenset[str]:
        """The notes that ever got a line that is not the owner's word."""
        known = await self._read()
        found = (stored for month in known for stored in month.stored)
        return frozenset(stored.path for stored in found if not stored.source.is_owners_word)

    async def others_keys(self, keys: Sequence[str]) -> bool:
        """Whether a line with one of these keys is known as not the owner's word."""
        known = await self._read()
        return any(_is_others(known, key) for key in keys)

    async def _read(self) -> _Known:
        """The stored sources. Files that have changed are read again."""
        try:
            listed = await self.workspace.list_folder(SOURCES_FOLDER)
        except (OSError, PathOutsideRoot):
            return ()
        if listed == self._listed:
            return self._known
        seen = {f"{SOURCES_FOLDER}/{each.name}": each for each in listed if each.name.endswith(".jsonl")}
        changed = [name for name in seen if name not in self._files or self._files[name][0] != seen[name]]
        read = await self.workspace.read_many(changed, max_bytes=MAX_NOTE_BYTES)
        files = {name: each for name, each in self._files.items() if name in seen and name not in changed}
        for name, found in read.items():
            if not isinstance(found, Exception):
                files[name] = seen[name], await asyncio.to_thread(_month, found.data)
        months = [files[name] for name in sorted(files)]
        entries = [entry for entry, _ in months[:-1]]
        if entries != self._older[0]:  # only the last file grows
            self._older = entries, await asyncio.to_thread(_lines, [month for _, month in months[:-1]])
        self._files, self._known = files, (self._older[1], _lines([month for _, month in months[-1:]]))
        self._last = _latest(self._all_marks())
        self._listed = listed if len(files) == len(seen) else ()
        return self._known


def _may_tell(known: _Known, listeners: Audience, mark: Mark) -> bool:
    source = None if listeners == PRIVATE else _source_of(known, mark.by_path, mark.by_key)
    audience = source.audience if source is not None else PRIVATE
    return mark.kind == "kept" or may_see(listeners, audience)


def _latest(marks: Iterable[Mark]) -> dict[str, Mark]:
    last: dict[str, Mark] = {}
    for mark in marks:
        last.update(dict.fromkeys(mark.keys, mark))
    return last


def _line_sources(known: _Known, path: str, lines: Sequence[str]) -> tuple[Source | None, ...]:
    of_line = cache(lambda line: _source_of(known, path, line_key(line), is_heading=_is_heading(line)))
    return tuple(map(of_line, lines))


@dataclass
class _Told:
    """Who said the lines with one key: in each note and anywhere, the latest.

    `of_others` is the latest source that is not the owner's word. With `is_accepted`, the owner wrote or
    accepted such a line.
    """

    latest: Source
    here: dict[str, Source]
    of_others: Source | None = None
    is_accepted: bool = False


class _Month(NamedTuple):
    """What one file has."""

    stored: Sequence[StoredSource]
    marks: Sequence[Mark]


def _month(data: bytes) -> _Month:
    found = [*from_lines(data)]
    stored = [each for each in found if isinstance(each, StoredSource)]
    return _Month(stored, [each for each in found if isinstance(each, Mark)])


class _Lines(NamedTuple):
    """The stored sources of some months, and by key, because "Good morning" is said on many days.

    The values are by what they are about, and by the session that wrote them.
    """

    stored: Sequence[StoredSource]
    by_key: Mapping[str, _Told]
    by_about: Mapping[object, Sequence[tuple[StoredValue, Audience]]]
    by_session: Mapping[str, Sequence[StoredValue]]


def _lines(months: Iterable[_Month]) -> _Lines:
    all_stored, by_key = tuple(stored for month in months for stored in month.stored), dict[str, _Told]()
    by_about: dict[object, list[tuple[StoredValue, Audience]]] = {}
    by_session: dict[str, list[StoredValue]] = {}
    for stored in all_stored:
        source = stored.source
        for key in stored.keys:
            told = by_key.setdefault(key, _Told(source, {}))
            told.latest = told.here[stored.path] = source
            told.of_others = told.of_others if source.is_owners_word else source
            told.is_accepted |= source.is_by_owner
        for value in stored.values:
            by_about.setdefault(value.about, []).append((value, source.audience))
            if source.written_by != "hook":  # it quotes the session
                by_session.setdefault(source.session_id, []).append(value)
    return _Lines(all_stored, by_key, by_about, by_session)


class Stored(NamedTuple):
    """All that is stored of lines, and by key the latest mark of each."""

    known: _Known
    last: Mapping[str, Mark]

    def is_empty(self) -> bool:
        """Whether nothing is stored, as in a workspace of hand-written notes."""
        return not self.last and not any(lines.stored for lines in self.known)

    def sources(self, path: str, lines: Sequence[str]) -> tuple[Source | None, ...]:
        """See `Sources.of_lines`."""
        return _line_sources(self.known, path, lines)

    def current(self, key: str) -> Mark | None:
        """The mark of the line that holds now in place of a superseded one: `by_key` in the note `by_path`.

        `None` for a line that holds.
        """
        found, passed = None, set[str]()
        while (mark := self.last.get(key)) is not None and mark.kind == "superseded" and key not in passed:
            passed.add(key)
            found, key = mark, mark.by_key
        return found

    def retired(self, source: Source | None, text: str) -> Mark | None:
        """What replaced all values in `text` that a session noted besides this line of its conversation.

        `source` is that of the line; nothing replaces what others said.
        """
        session = source.session_id if source is not None and source.said_by == ("owner",) else ""
        said = (
            [value for lines in self.known for value in lines.by_session.get(session, ())] if session else []
        )
        stems = frozenset(_word_digest(word) for word in stems_of(text)) if said else frozenset()
        marks = [self.current(value.key) for value in said if value.value <= stems and not value.is_denied]
        return None if None in marks else next(iter(marks), None)


def _told(known: _Known, key: str) -> tuple[list[_Told], bool]:
    """Who said a line, the latest month first, and whether the owner wrote or accepted it."""
    found = [told for month in reversed(known) if (told := month.by_key.get(key))]
    return found, bool(found) and any(told.is_accepted for told in found)


def _is_others(known: _Known, key: str) -> bool:
    found, is_accepted = _told(known, key)
    return not is_accepted and any(told.of_others for told in found)


def _is_heading(line: str) -> bool:
    return line.lstrip().startswith("#")


def _source_of(known: _Known, path: str, key: str, *, is_heading: bool = False) -> Source | None:
    """The source of a line in its note, or else elsewhere; a heading's source elsewhere does not count.

    If the owner wrote or accepted the same line, it counts as the owner's.
    """
    found, is_accepted = _told(known, key)
    source = next((told.here[path] for told in found if path in told.here), None)
    if source is None and not is_heading:
        others = (told.of_others for told in found if told.of_others and not is_accepted)
        source = next(others, None) or next((told.latest for told in found), None)
    if source is not None and is_accepted and not source.is_owners_word:
        return replace(source, said_by=("owner",))
    return source


def _merged_with_earlier(source: Source, known: _Known, key: str) -> Source:
    """The new source of a line, merged with its earlier one if that was not the owner's word."""
    before = _source_of(known, "", key)
    if before is None or before.is_owners_word:
        return source
    return replace(
        source,
        said_by=tuple(dict.fromkeys((*source.said_by, *before.said_by))),
        names=tuple(dict.fromkeys((*source.names, *before.names))),
        audience=narrowest((source.audience, before.audience)),
    )


FORMAT_VERSION = 1
_KEY_CHARS = 20
_MARKER = re.compile(r"(?:>\s*)*(?:[-*+]\s+)?")
_WORD = re.compile(r"[^\W_]")

T = TypeVar("T", bound=str)


class StoredSource(Record):
    """A source, the note that its lines were written to, the keys of these lines, and the values in them."""

    path: str
    keys: tuple[str, ...]
    source: Source
    values: tuple[StoredValue, ...] = ()


class StoredValue(Address):
    """The value of one thing in the line `key`, as digests: of what it is about, each word, and its kind.

    Whether it `only_adds` matters while it is new, and is not stored.
    """

    key: str


class Mark(Record):
    """What became of the lines with these `keys`, at an ISO time. The line `by_key` of the note `by_path`
    replaced a `superseded` one."""

    kind: MarkKind
    keys: tuple[str, ...]
    at: str
    by_path: str = ""
    by_key: str = ""


def values_in(path: str, text: str) -> dict[str, tuple[StoredValue, ...]]:
    """The values in the lines of a note, by the keys of the lines. The history of facts has none."""
    # slow imports that a turn without notes does not need
    from nacre.memory.text.claims import addresses, labeled_rows, subject_of
    from nacre.memory.text.markdown_blocks import outline

    lines, found = text.splitlines(), dict[str, tuple[StoredValue, ...]]()
    headings = outline(lines).headings
    paths = dict(zip(headings.lines, headings.paths, strict=True))
    owner = path.split("/")[1] if path.startswith("people/") else ""
    under: tuple[str, ...] = ()
    rows = labeled_rows(lines) if "|" in text else {}
    for number, line in enumerate(lines):
        under = tuple(paths.get(number, under))
        key = line_key(line)
        if key and number not in paths and not (under and under[-1].casefold() == "history"):
            bare = rows.get(number, "") if line.lstrip().startswith("|") else line
            said = addresses(bare, f"{owner} {subject_of(under)}")
            values = tuple(
                StoredValue(
                    key=key,
                    about=_digest(*sorted(each.about)),
                    value=frozenset(map(_word_digest, each.value)),
                    is_denied=each.is_denied,
                    kind=_word_digest(each.kind) if each.kind else "",
                    only_adds=each.only_adds,
                )
                for each in said
            )
            if values:
                found[key] = values
    return found


def _table_at_end(text: str) -> str:
    """The table that a text ends with, of which more rows may be written."""
    rows = list(takewhile(lambda line: line.lstrip().startswith("|"), reversed(text.rstrip().splitlines())))
    return "".join(f"{row}\n" for row in reversed(rows))


def _digest(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()[:_KEY_CHARS]


@lru_cache(maxsize=4096)  # a search compares the words of its hits
def _word_digest(word: str) -> str:
    return _digest(word)[:8]


def _replaced(known: _Known, marks: Sequence[Mark], stored: Sequence[StoredSource]) -> Iterator[Mark]:
    """The marks for lines that new lines of the owner replace, and for those that hold again.

    An import is old, and replaces nothing.
    """
    new = {key for each in stored for key in each.keys}
    claims = [
        (each, value)
        for each in stored
        if each.source.is_owners_word and each.source.written_by != "import"
        for value in each.values
    ]
    wanted = {value.about for _, value in claims}
    there: dict[tuple[object, Audience], list[StoredValue]] = {}
    for about, month in ((about, month) for about in wanted for month in known):
        for value, audience in month.by_about.get(about, ()):
            if value.key not in new:
                there.setdefault((about, audience), []).append(value)
    gone = {key: mark.kind == "superseded" for mark in marks for key in mark.keys}
    for each, value in claims:
        others = there.get((value.about, each.source.audience), ())
        older = {other.key for other in others if value.replaces(other) and not gone.get(other.key)}
        again = {other.key for other in others if other.value == value.value} | {value.key}
        again = {key for key in again if gone.get(key)} if not value.is_denied else set()
        if older:
            yield Mark(
                kind="superseded",
                keys=tuple(sorted(older)),
                at=each.source.at,
                by_path=each.path,
                by_key=value.key,
            )
        if again:
            yield Mark(kind="kept", keys=tuple(sorted(again)), at=each.source.at)


@lru_cache(maxsize=4096)  # the same lines are hits of many questions
def line_key(line: str) -> str:
    """A digest of a line's words, which identifies the line wherever it is.

    Indents, list markers and quotation marks do not count. The key is empty for a line without letters and
    digits.
    """
    words = " ".join(_MARKER.sub("", line.strip(), count=1).split())
    if not _WORD.search(words):
        return ""
    return hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()[:_KEY_CHARS]


def to_lines(stored: Iterable[StoredSource | Mark]) -> str:
    """The JSON lines for these sources and marks."""
    return "".join(json.dumps(_to_json(each), ensure_ascii=False) + "\n" for each in stored)


def from_lines(data: bytes) -> Iterator[StoredSource | Mark]:
    """The sources and marks in JSON lines, in order."""
    for line in data.splitlines():
        try:
            raw = json.loads(line) if line.startswith(b"{") else None
        except (ValueError, RecursionError):
            continue
        if isinstance(raw, dict) and isinstance(raw.get("path"), str):
            yield StoredSource(
                path=raw["path"],
                keys=_texts(raw.get("lines")),
                source=source_from_json(raw),
                values=tuple(_values(raw.get("says"))),
            )
        elif isinstance(raw, dict) and raw.get("mark") in get_args(MarkKind):
            found = raw.get("by")
            by: Mapping[str, Any] = found if isinstance(found, dict) else {}
            yield Mark(
                kind=_known_value(raw["mark"], get_args(MarkKind), "kept"),
                keys=_texts(raw.get("lines")),
                at=_text_value(raw, "at"),
                by_path=_text_value(by, "note"),
                by_key=_text_value(by, "line"),
            )


def _values(said: object) -> Iterator[StoredValue]:
    for each in said if isinstance(said, list) else ():
        match each:
            case [str(key), str(about), str(words), bool(is_denied), *kind] if all(
                isinstance(each, str) for each in kind
            ):
                yield StoredValue(
                    key=key,
                    about=about,
                    value=frozenset(words.split()),
                    is_denied=is_denied,
                    kind="".join(kind),
                )


def without_keys(data: bytes, keys: Collection[str]) -> bytes:
    """JSON lines without these keys. A source without remaining lines is removed; unreadable lines stay."""
    left: list[bytes] = []
    for line in data.splitlines(keepends=True):
        found = next(from_lines(line), None)
        if found is None or not set(found.keys) & set(keys):
            left.append(line)
            continue
        kept = tuple(key for key in found.keys if key not in keys)
        found = replace(found, keys=kept)
        if isinstance(found, StoredSource):
            found = replace(found, values=tuple(value for value in found.values if value.key in kept))
        left += [to_lines([found]).encode()] if kept else []
    return b"".join(left)


def source_json(source: Source) -> dict[str, Any]:
    """A source as JSON; unknown fields are left out."""
    fields: dict[str, Any] = {
        "writtenBy": source.written_by,
        "saidBy": list(source.said_by),
        "names": list(source.names),
        "audience": source.audience,
        "sessionKey": source.session_key,
        "sessionId": source.session_id,
        "entryIds": list(source.entry_ids),
        "chat": source.chat,
        "at": source.at,
    }
    return {name: value for name, value in fields.items() if value}


def _to_json(stored: StoredSource | Mark) -> dict[str, Any]:
    if isinstance(stored, Mark):
        return {  # without a `path`, so that earlier versions skip it
            "version": FORMAT_VERSION,
            "mark": stored.kind,
            "lines": list(stored.keys),
            "at": stored.at,
            "by": {"note": stored.by_path, "line": stored.by_key},
        }
    said = [
        [value.key, value.about, " ".join(sorted(value.value)), value.is_denied, value.kind]
        for value in stored.values
    ]
    return {
        "version": FORMAT_VERSION,
        "path": stored.path,
        **source_json(stored.source),
        "lines": list(stored.keys),
        **({"says": said} if said else {}),
    }


def source_from_json(raw: Mapping[str, Any]) -> Source:
    """The source in JSON, tolerant of errors: unknown values count as nobody's words."""
    said_by: tuple[Speaker, ...] = tuple(
        _known_value(name, get_args(Speaker), "unknown") for name in _texts(raw.get("saidBy"))
    )
    audience = _text_value(raw, "audience")
    return Source(
        written_by=_known_value(raw.get("writtenBy"), get_args(Writer), "import"),
        audience=audience or PRIVATE,
        said_by=said_by or ("unknown",),
        names=_texts(raw.get("names")),
        session_key=_text_value(raw, "sessionKey"),
        session_id=_text_value(raw, "sessionId"),
        entry_ids=_texts(raw.get("entryIds")),
        chat=_text_value(raw, "chat"),
        at=_text_value(raw, "at"),
    )


def _known_value(value: object, values: Sequence[T], otherwise: T) -> T:
    return next((each for each in values if each == value), otherwise)


def _text_value(raw: Mapping[str, Any], name: str) -> str:
    value = raw.get(name)
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
