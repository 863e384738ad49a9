"""Facts and notes about identities, kept on Markdown pages and recalled together.

A page is read, changed and written as a whole, so facts and notes that were written together are read
together, and a kill or a full disk leaves the old page. The index only ranks notes for a query.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from copy import copy
from datetime import datetime, time
from typing import TypeVar

from nacre.memory.contracts.errors import FactRefused
from nacre.memory.contracts.notes import MAX_NOTE_BYTES
from nacre.memory.contracts.records import Day
from nacre.memory.contracts.workspace import FileBusy, Workspace
from nacre.memory.files.facts import changes
from nacre.memory.files.facts.changes import Known
from nacre.memory.files.facts.lines import checked_key, checked_source, checked_value, same_key
from nacre.memory.files.facts.note_index import NOTHING_FOUND, NoteIndex, NoteScores
from nacre.memory.files.facts.page import Page
from nacre.memory.files.facts.records import Fact, Identities, MemoryChunk, Recalled, note_number
from nacre.memory.text.days.day_limits import day_limits

T = TypeVar("T")

MAX_NOTE_CHARS = 50_000
USUAL_CHUNKS = 6
log = logging.getLogger(__name__)


class FactMemory:
    """The facts and notes about the identities of one agent. Close it when done.

    The holder of this object may do everything; `identities` decides what is recalled together. Every method
    that takes an identity raises `FactRefused` for an invalid one, and the errors of the workspace:
    `OSError`, and `FileBusy` while another process holds the page.
    """

    def __init__(
        self,
        workspace: Workspace,
        open_index: Callable[[], Coroutine[None, None, NoteIndex]],
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

    def through(self, workspace: Workspace) -> FactMemory:
        """The same facts and notes, written through another workspace with the same pages.

        Earlier hand edits are recorded through the present workspace, as hand edits.
        """
        other = copy(self)
        other._written = workspace
        return other

    async def set_fact(
        self, identity: str, key: str, value: object, *, source: str = "", at: datetime | None = None
    ) -> Fact:
        """Records that `key` has the JSON value `value` since `at`, by default now, and returns the fact.

        The old value stays in the history. The same value again changes nothing.

        Raises:
            FactRefused: the key or the value cannot be kept, or `at` is in the future.
        """
        name, now = self.identities.named(identity), self._now()
        key, value, source = checked_key(key), checked_value(value), checked_source(source)
        at = _checked_moment(at, now)
        return await self._changed(
            name,
            lambda page: changes.set_fact(page, name, key, value, source=source, at=at, now=now),
        )

    async def forget_fact(self, identity: str, key: str, *, source: str = "") -> bool:
        """Records that a fact is no longer known; whether it was known. The history keeps it."""
        name, now, source = self.identities.named(identity), self._now(), checked_source(source)
        return await self._changed(name, lambda page: changes.forget_fact(page, key, source=source, now=now))

    async def note(self, identity: str, text: str, *, source: str = "", at: datetime | None = None) -> str:
        """Keeps a text and returns the id under which `recall` returns it. Equal texts are kept once.

        Raises:
            FactRefused: the text is empty or longer than `MAX_NOTE_CHARS`, or `at` is in the future.
        """
        name, now = self.identities.named(identity), self._now()
        text, source = changes.checked_note(text, most_chars=MAX_NOTE_CHARS), checked_source(source)
        moment = _checked_moment(at, now) or now
        noted = await self._changed(
            name, lambda page: changes.add_note(page, name, text, source=source, at=moment)
        )
        self._index.follow()
        return noted.id

    async def forget_note(self, chunk_id: str) -> bool:
        """Deletes a note by its id; whether it was there."""
        identity, _, word = chunk_id.rpartition("/")
        number = note_number(word)
        if number is None:
            return False
        name = self.identities.named(identity)
        return await self._changed(name, lambda page: changes.forget_note(page, number))

    async def known(self, identity: str, *, as_of: Day | None = None) -> Known:
        """Everything on the page of one identity, now or at the end of the day `as_of`."""
        return await self._known(self.identities.named(identity), self._moment(as_of))

    async def history(self, identity: str, key: str = "") -> tuple[Fact, ...]:
        """All facts that were ever known, or those of one key, in the order of time."""
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
        """The facts about an identity and those that it may see, and the `k` notes that fit `query` best.

        With `as_of`, what was known at the end of that day. `alone` ignores the rules of sharing. All facts
        and notes of one identity are of the same moment.

        Raises:
            DayUnknown: `as_of` is not a day.
        """
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
        """Waits until all notes can be found, by meaning too."""
        await self._index.sync()

    async def close(self) -> None:
        """Stops the background work and closes the index. Everything is on disk already."""
        await self._index.close()

    async def _known(self, name: str, moment: datetime | None) -> Known:
        page = await self._page(name)
        if page is None:
            return Known(facts=(), history=(), notes=(), problems=())
        return changes.known(page, name, self.identities.page_of(name), as_of=moment)

    async def _page(self, name: str) -> Page | None:
        """The page of an identity with hand edits recorded; `None` if there is no page."""
        path = self.identities.page_of(name)
        data, now = await self._read(path), self._now()
        if data is None:
            return None
        page = Page(data, identity=name, zone=now.tzinfo)
        changes.take_hand_edits(page, now)
        if page.data() == data or not self._workspace.may_change(path):
            return page
        return await self._written_down(name, page)

    async def _written_down(self, name: str, seen: Page) -> Page:
        """The page with hand edits in its history, or `seen` if it cannot be written."""
        try:
            return await self._replaced(self._workspace, name, lambda page: page)
        except (OSError, FileBusy) as error:
            log.warning("hand edits could not be recorded: %s", error)
            return seen

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
                changes.take_hand_edits(page, now)
            made.append(work(page))
            return page.data()

        await workspace.change(path, change)
        self._on_changed(path)
        return made[-1]

    async def _read(self, path: str) -> bytes | None:
        try:
            found = await self._workspace.read(path, max_bytes=MAX_NOTE_BYTES)
        except FileNotFoundError:
            return None
        if found.is_cut:
            raise FactRefused(f"{path} has {found.size_bytes} bytes, and {MAX_NOTE_BYTES} is the most.")
        return found.data

    def _moment(self, as_of: Day | None) -> datetime | None:
        """The end of a past day; now for today and later days."""
        if as_of is None:
            return None
        now = self._now()
        day = day_limits(after=None, before=None, as_of=as_of, today=now.date()).today
        return min(now, datetime.combine(day, time.max, tzinfo=now.tzinfo))


def _checked_moment(at: datetime | None, now: datetime) -> datetime | None:
    if at is None:
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=now.tzinfo)
    if at > now:
        raise FactRefused(
            f"{at.isoformat(' ', 'seconds')} is in the future. A fact holds from now or an earlier time on."
        )
    return at
