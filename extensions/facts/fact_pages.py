"""Facts and notes about identities, kept on Markdown pages and recalled together.

A page is read, changed and written as a whole, so facts and notes that were written together are read
together, and a kill or a full disk leaves the old page. The page holds all that is known; the index only
ranks notes for a query.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence, Set
from copy import copy
from dataclasses import replace
from datetime import datetime, time
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

from nacre.extensions.facts.identities import Identities
from nacre.extensions.facts.note_index import NOTHING_FOUND, NoteScores
from nacre.extensions.facts.page import (
    NUMBERS,
    FactLine,
    Page,
    PlacedNote,
    Tail,
    checked_key,
    checked_source,
    checked_value,
    history_line,
    known_line,
    note_number,
    note_word,
    same_key,
)
from nacre.memory.contracts.errors import FactRefused
from nacre.memory.contracts.facts import (
    USUAL_CHUNKS,
    Fact,
    FactMemory,
    JsonValue,
    Known,
    MemoryChunk,
    Note,
    Recalled,
)
from nacre.memory.contracts.notes import MAX_NOTE_BYTES
from nacre.memory.contracts.records import Day
from nacre.memory.contracts.workspace import FileBusy, Workspace
from nacre.memory.text.chunker import storable
from nacre.memory.text.days.day_limits import day_limits

if TYPE_CHECKING:
    from nacre.memory.engine import MemoryEngine

T = TypeVar("T")

MAX_NOTE_CHARS = 50_000
BY_HAND = "by hand"
"""The source of facts and notes that somebody wrote into the page."""

NOTES_SINCE_SECONDS = 1_704_067_200
"""2024-01-01. Notes are numbered by the seconds since then, which suffices for 34 years."""

log = logging.getLogger(__name__)


class FactPages(FactMemory):
    """The facts and notes of one agent, in a workspace. `identities` decides what is recalled together.

    `on_changed` is called with the name of each page that was written. The index is opened when it is needed.
    """

    def __init__(
        self,
        workspace: Workspace,
        open_index: Callable[[], Coroutine[None, None, MemoryEngine]],
        *,
        identities: Identities,
        now: Callable[[], datetime],
        on_changed: Callable[[str], None] = lambda _page: None,
    ) -> None:
        self._workspace = workspace
        self._written = workspace
        self._index = NoteScores(open_index)
        self.identities = identities
        self._now = now
        self._on_changed = on_changed

    def through(self, workspace: Workspace) -> FactPages:
        """The same facts and notes, written through another workspace with the same pages.

        Earlier hand edits are recorded through the present workspace, as hand edits.
        """
        other = copy(self)
        other._written = workspace
        return other

    async def set_fact(
        self, identity: str, key: str, value: object, *, source: str = "", at: datetime | None = None
    ) -> Fact:
        name, now = self.identities.named(identity), self._now()
        key, value, source = checked_key(key), checked_value(value), checked_source(source)
        at = _checked_moment(at, now)
        return await self._changed(
            name,
            lambda page: set_fact(page, name, key, value, source=source, at=at, now=now),
        )

    async def forget_fact(self, identity: str, key: str, *, source: str = "") -> bool:
        name, now, source = self.identities.named(identity), self._now(), checked_source(source)
        return await self._changed(name, lambda page: forget_fact(page, key, source=source, now=now))

    async def note(self, identity: str, text: str, *, source: str = "", at: datetime | None = None) -> str:
        name, now = self.identities.named(identity), self._now()
        text, source = checked_note(text), checked_source(source)
        moment = _checked_moment(at, now) or now
        noted = await self._changed(name, lambda page: add_note(page, name, text, source=source, at=moment))
        self._index.follow()
        return noted.id

    async def forget_note(self, chunk_id: str) -> bool:
        identity, _, word = chunk_id.rpartition("/")
        number = note_number(word)
        if number is None:
            return False
        name = self.identities.named(identity)
        return await self._changed(name, lambda page: forget_note(page, number))

    async def known(self, identity: str, *, as_of: Day | None = None) -> Known:
        return await self._known(self.identities.named(identity), self._moment(as_of))

    async def history(self, identity: str, key: str = "") -> tuple[Fact, ...]:
        found = (await self.known(identity)).history
        return tuple(fact for fact in found if not key or same_key(fact.key) == same_key(key))

    async def recall(
        self,
        identity: str,
        query: str,
        *,
        k: int = USUAL_CHUNKS,
        as_of: Day | None = None,
        min_score: float = 0.0,
        alone: bool = False,
    ) -> Recalled:
        names = (self.identities.named(identity),) if alone else self.identities.seen_by(identity)
        moment = self._moment(as_of)
        found = NOTHING_FOUND
        if k > 0 and query.strip():
            # notes written by hand have ids now, so that the index can name them
            seen = {self.identities.page_of(name): await self._page(name) for name in names}
            pages = {path: page.data() for path, page in seen.items() if page is not None}
            before = moment.date() if moment is not None else None
            found = await self._index.scores(query, pages, k=k, min_score=min_score, before=before)
        there = {name: await self._known(name, moment) for name in names}
        chunks = [
            MemoryChunk(note=note, score=score)
            for name, known in there.items()
            for note in known.notes
            if (score := found.score(self.identities.page_of(name), note.number)) is not None
        ]
        chunks.sort(key=lambda chunk: chunk.score, reverse=True)
        return Recalled(
            identity_facts=tuple(fact for known in there.values() for fact in known.facts),
            memory_chunks=tuple(chunks[: max(0, k)]),
            problems=tuple(problem for known in there.values() for problem in known.problems),
            degraded=found.degraded,
        )

    async def sync(self) -> None:
        await self._index.sync()

    async def close(self) -> None:
        await self._index.close()

    async def _known(self, name: str, moment: datetime | None) -> Known:
        page = await self._page(name)
        if page is None:
            return Known()
        return known_on(page, name, self.identities.page_of(name), as_of=moment)

    async def _page(self, name: str) -> Page | None:
        """The page of an identity with hand edits recorded; `None` if there is no page."""
        path = self.identities.page_of(name)
        try:
            found = await self._workspace.read(path, max_bytes=MAX_NOTE_BYTES)
        except FileNotFoundError:
            return None
        if found.is_cut:
            raise FactRefused(f"{path} has {found.size_bytes} bytes, and {MAX_NOTE_BYTES} is the most.")
        now = self._now()
        page = Page(found.data, identity=name, zone=now.tzinfo)
        take_hand_edits(page, now)
        if page.data() == found.data or not self._workspace.may_change(path):
            return page
        try:
            return await self._replaced(self._workspace, name, lambda page: page)
        except (OSError, FileBusy) as error:
            log.warning("hand edits could not be recorded: %s", error)
            return page

    async def _changed(self, name: str, work: Callable[[Page], T]) -> T:
        if self._written is not self._workspace:
            await self._page(name)
        return await self._replaced(self._written, name, work)

    async def _replaced(self, workspace: Workspace, name: str, work: Callable[[Page], T]) -> T:
        """Records hand edits, calls `work` with the page, and writes the page whole or not at all."""
        path, now = self.identities.page_of(name), self._now()
        made: list[T] = []

        def change(old: bytes | None) -> bytes:
            page = Page(old, identity=name, zone=now.tzinfo)
            if old is not None:
                take_hand_edits(page, now)
            made.append(work(page))
            return page.data()

        await workspace.change(path, change)
        self._on_changed(path)
        return made[-1]

    def _moment(self, as_of: Day | None) -> datetime | None:
        """The end of a past day; now for today and later days."""
        if as_of is None:
            return None
        now = self._now()
        day = day_limits(after=None, before=None, as_of=as_of, today=now.date()).today
        return min(now, datetime.combine(day, time.max, tzinfo=now.tzinfo))


def fact_json(fact: Fact) -> dict[str, Any]:
    """A fact with the seeds' keys and an ISO 8601 time."""
    row = {
        "identity_id": fact.identity,
        "key": fact.key,
        "value": fact.value,
        "source": fact.source,
        "created_at": fact.at.isoformat(timespec="seconds"),
    }
    return {**row, "forgotten": True} if fact.is_forgotten else row


def chunk_json(chunk: MemoryChunk) -> dict[str, Any]:
    """A recalled note with the seeds' keys."""
    note = chunk.note
    return {
        "id": note.id,
        "identity": note.identity,
        "text": note.text,
        "source": note.source,
        "created_at": note.at.isoformat(timespec="seconds"),
        "score": round(chunk.score, 4),
    }


def known_on(page: Page, identity: str, path: str, *, as_of: datetime | None = None) -> Known:
    """What a page says after `take_hand_edits`; with `as_of`, what was known at that time."""
    history = [fact for placed in page.history() if (fact := _fact(placed.fact, identity)) is not None]
    history.sort(key=lambda fact: fact.at)
    notes = [note for placed in page.notes() if (note := _note(placed, identity)) is not None]
    if as_of is not None:
        history = [fact for fact in history if fact.at <= as_of]
        notes = [note for note in notes if note.at <= as_of]
    last = {same_key(fact.key): fact for fact in history}
    return Known(
        facts=tuple(fact for fact in last.values() if not fact.is_forgotten),
        history=tuple(history),
        notes=tuple(notes),
        problems=tuple(
            f"{path}#L{line.at_line + 1} is not a fact and stays as it is: {line.text[:80]!r}. "
            "A fact is a line such as `- city: Porto`."
            for line in page.unread()
        ),
    )


def take_hand_edits(page: Page, now: datetime) -> None:
    """Records hand edits of facts in the history, and gives ids to notes written by hand."""
    had_facts = page.has("Facts")
    last = _last(page)
    new: list[FactLine] = []
    shown: list[str] = []
    said: dict[str, list[FactLine]] = {}
    for placed in page.facts():
        said.setdefault(same_key(placed.fact.key), []).append(placed.fact)
    unread = sorted(same_key(line.text.lstrip("-*+~ ")) for line in page.unread() if line.section == "Facts")
    for key, lines in said.items():
        before = last.get(key)
        changed = _without_repeats([line for line in lines if not _is_known(before, line.value)])
        new.extend(replace(line, tail=_when_by_hand(line, before, now)) for line in changed)
        if changed or len(lines) > 1 or any(line.tail is None for line in lines):
            shown.append(key)
    for key, before in last.items():
        if key in said or before.is_forgotten:
            continue
        if not had_facts:
            shown.append(key)
        elif not _is_prefix_of_any(key, unread):
            new.append(_forgotten(before, now, BY_HAND))
    _record(page, new)
    _show(page, shown)
    _number_notes(page, now)


def set_fact(
    page: Page, identity: str, key: str, value: JsonValue, *, source: str, at: datetime | None, now: datetime
) -> Fact:
    """Records a fact and returns it as it is on the page. A value that is already known changes nothing.

    With an `at` before the known value, the fact becomes part of the history.
    """
    before = _last(page).get(same_key(key))
    if before is not None and before.tail is not None:
        is_old = at is not None and at < before.tail.at
        if _is_known(before, value) and not is_old and (there := _fact(before, identity)) is not None:
            return there
        at = at if at is not None else max(now, before.tail.at)
    at = (at or now).replace(microsecond=0)
    key = before.key if before is not None else key
    tail = Tail(at=at, source=source)
    _record(page, [FactLine(key=key, value=value, is_forgotten=False, tail=tail)])
    _show(page, [same_key(key)])
    return Fact(identity=identity, key=key, value=value, source=source, at=at)


def forget_fact(page: Page, key: str, *, source: str, now: datetime) -> bool:
    """Removes a fact from the known ones; whether it was known. The history keeps it."""
    before = _last(page).get(same_key(key))
    if before is None or before.is_forgotten:
        return False
    _record(page, [_forgotten(before, now, source)])
    _show(page, [same_key(key)])
    return True


def add_note(page: Page, identity: str, text: str, *, source: str, at: datetime) -> Note:
    """Adds a note at the end of the page, or returns the note with the same words."""
    notes = page.notes()
    for placed in notes:
        if placed.text == text and (there := _note(placed, identity)) is not None:
            return there
    taken = {placed.number for placed in notes if placed.number is not None}
    number, at = next(_free_numbers(taken, at)), at.replace(microsecond=0)
    page.add_note(text, number, at, source)
    return Note(
        identity=identity, id=_note_id(identity, number), number=number, text=text, source=source, at=at
    )


def forget_note(page: Page, number: int) -> bool:
    """Removes a note from the page; whether it was there."""
    for placed in page.notes():
        if placed.number == number:
            page.remove_note(placed)
            return True
    return False


def checked_note(text: str) -> str:
    """A note's text in the form in which the page keeps it.

    Raises:
        FactRefused: the text is empty or too long.
    """
    text = storable(text.replace("\r\n", "\n").replace("\r", "\n")).strip()
    if not text or len(text) > MAX_NOTE_CHARS:
        raise FactRefused(f"A note has 1 to {MAX_NOTE_CHARS} characters, and this text has {len(text)}.")
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _last(page: Page) -> dict[str, FactLine]:
    said = sorted((placed.fact for placed in page.history()), key=lambda fact: _tail(fact).at)
    return {same_key(fact.key): fact for fact in said}


def _tail(fact: FactLine) -> Tail:
    assert fact.tail is not None
    return fact.tail


def _is_known(before: FactLine | None, value: JsonValue) -> bool:
    return before is not None and not before.is_forgotten and _same(before.value, value)


def _same(one: JsonValue, other: JsonValue) -> bool:
    """Whether two values are equal. In JSON, `true` is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _without_repeats(lines: Sequence[FactLine]) -> list[FactLine]:
    """The lines without those that repeat the value before them."""
    return [line for at, line in enumerate(lines) if not at or not _same(line.value, lines[at - 1].value)]


def _is_prefix_of_any(key: str, texts: Sequence[str]) -> bool:
    at = bisect_left(texts, key)
    return at < len(texts) and texts[at].startswith(key)


def _when_by_hand(line: FactLine, before: FactLine | None, now: datetime) -> Tail:
    """The time and source that somebody wrote after a fact, unless they are those of the old value."""
    at, source = now, BY_HAND
    if line.tail is not None:
        was = before.tail if before is not None else None
        if was is None or (line.tail.at.date(), line.tail.source) != (was.at.date(), was.source):
            at, source = min(line.tail.at, now), line.tail.source or BY_HAND
    if before is not None and before.tail is not None:
        at = max(at, before.tail.at)
    return Tail(at=at.replace(microsecond=0), source=source)


def _forgotten(before: FactLine, now: datetime, source: str) -> FactLine:
    tail = Tail(at=max(now, _tail(before).at), source=source)
    return FactLine(key=before.key, value=None, is_forgotten=True, tail=tail)


def _record(page: Page, new: Iterable[FactLine]) -> None:
    placed = page.history()
    latest = list(accumulate((_tail(each.fact).at for each in placed), max))
    before: dict[int, list[str]] = {}
    at_end: list[str] = []
    for fact in sorted(new, key=lambda fact: _tail(fact).at):
        at, source = _tail(fact).at, _tail(fact).source
        later = bisect_right(latest, at)
        lines = before.setdefault(placed[later].at_line, []) if later < len(placed) else at_end
        lines.append(history_line(fact.key, fact.value, at, source, is_forgotten=fact.is_forgotten))
    if before:
        page.edit({}, before)
    if at_end:
        page.add("History", *at_end)


def _show(page: Page, keys: Sequence[str]) -> None:
    """Shows the last value of each key in one line among the facts, at the place of its first line."""
    if not keys:
        return
    last = _last(page)
    places: dict[str, list[int]] = {}
    for placed in page.facts():
        places.setdefault(same_key(placed.fact.key), []).append(placed.at_line)
    changed: dict[int, str | None] = {}
    new: list[str] = []
    for key in keys:
        fact, there = last.get(key), places.get(key, ())
        line: str | None = None
        if fact is not None and not fact.is_forgotten and fact.tail is not None:
            line = known_line(fact.key, fact.value, fact.tail.at, fact.tail.source)
        changed.update(zip(there, (line, *(None for _ in there[1:])), strict=False))
        if line is not None and not there:
            new.append(line)
    page.edit(changed, {})
    if new:
        page.add("Facts", *new)


def _number_notes(page: Page, now: datetime) -> None:
    """Gives a number to each note that has none, or the same one as a note above it."""
    notes = page.notes()
    free = _free_numbers({note.number for note in notes if note.number is not None}, now)
    seen: set[int] = set()
    for note in notes:
        number = note.number
        if number is None or number in seen or note.tail is None:
            if number is None or number in seen:
                number = next(free)
            page.mark_note(note, number, now.replace(microsecond=0), BY_HAND)
        seen.add(number)


def _free_numbers(taken: Set[int], at: datetime) -> Iterator[int]:
    """The seconds until `at`, or the numbers above the largest one, so that later notes have larger
    numbers."""
    first = max(0, int(at.timestamp()) - NOTES_SINCE_SECONDS, *(number + 1 for number in taken))
    yield from range(first, NUMBERS)
    yield from (number for number in range(min(first, NUMBERS)) if number not in taken)


def _fact(line: FactLine, identity: str) -> Fact | None:
    if line.tail is None:
        return None
    return Fact(
        identity=identity,
        key=line.key,
        value=line.value,
        source=line.tail.source,
        at=line.tail.at,
        is_forgotten=line.is_forgotten,
    )


def _note(placed: PlacedNote, identity: str) -> Note | None:
    if placed.number is None or placed.tail is None:
        return None
    return Note(
        identity=identity,
        id=_note_id(identity, placed.number),
        number=placed.number,
        text=placed.text,
        source=placed.tail.source,
        at=placed.tail.at,
    )


def _note_id(identity: str, number: int) -> str:
    return f"{identity}/{note_word(number)}"


def _checked_moment(at: datetime | None, now: datetime) -> datetime | None:
    if at is None:
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=now.tzinfo)
    if at > now:
        raise FactRefused(
            f"{at.isoformat(' ', 'seconds')} is in the future. A fact holds from now or an earlier time on."
        )
    return at
