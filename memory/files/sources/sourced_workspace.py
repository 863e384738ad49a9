"""A workspace for one writer that stores the source of every line before the line itself.

Everything that sessions write goes through it. It removes keys and passwords (`secrets.py`) and decides which
writes wait for the owner (`proposed_write.py`): words of others on their way into a file that can become a
rule or a fact, and with `memory.writes: "review"` more. It leaves out what the owner rejected before
(`rejections.py`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime

from nacre.memory.contracts.notes import CHATS_FOLDER, MAX_NOTE_BYTES, is_markdown
from nacre.memory.contracts.workspace import Appended, Workspace
from nacre.memory.files.sources.proposed_write import (
    ProposedWrite,
    WaitsForReview,
    added_lines,
    names_of_others,
)
from nacre.memory.files.sources.rejections import Wish, lift, rejected_lines
from nacre.memory.files.sources.secrets import without_new_secrets
from nacre.memory.files.sources.source import PRIVATE, Source, Writer
from nacre.memory.files.sources.sources import SourceOf, Sources, StoredSource

log = logging.getLogger(__name__)

_REVIEWED: frozenset[Writer] = frozenset({"flush", "hook"})
"""What these write waits under `memory.writes: "review"`, as does what a group writes."""
_OPEN_NOTES = re.compile(r"memory/(?!facts\.md$).+", re.IGNORECASE)
_OPEN_IN_OTHER_CHATS = (f"{CHATS_FOLDER}/", "people/")


class SecretRefused(OSError):
    """A text has a key or a password, and `memory.secrets` is `refuse`."""


def one_source(source: Source, now: Callable[[], datetime]) -> Callable[[], Awaitable[SourceOf]]:
    """A `begin` of `SourcedWorkspace`: all lines of a write have this source, with the time of the write."""

    async def begin() -> SourceOf:
        dated = replace(source, at=now().isoformat(timespec="seconds"))
        return lambda _line: dated

    return begin


class SourcedWorkspace:
    """The `Workspace` `workspace`, with the sources of what is written.

    `begin` is called before each write and returns the function that gives the source of a line. A write
    whose sources cannot be stored is not done, and a write that waits for the owner raises `WaitsForReview`,
    about which `waits` is called. `change` calls its function twice, with the same bytes.

    With `is_approved`, the owner has seen and approved the text: nothing waits, its lines count as the
    owner's, and secrets stay in it if `memory.secrets` is `ask`. `is_owners_line` decides, after words of
    others were heard, whether the owner has just said exactly this line, and `is_owners_wish`, after lines
    were found that the owner rejected before, whether the owner has just asked to keep them.
    """

    def __init__(
        self,
        workspace: Workspace,
        sources: Sources,
        begin: Callable[[], Awaitable[SourceOf]],
        *,
        is_approved: bool = False,
        is_owners_line: Callable[[str], Awaitable[bool]] | None = None,
        is_owners_wish: Wish | None = None,
        waits: Callable[[WaitsForReview], None] = lambda _waiting: None,
    ) -> None:
        self._workspace = workspace
        self._sources = sources
        self._begin = begin
        self._is_approved = is_approved
        self._is_owners_line = is_owners_line
        self._is_owners_wish = is_owners_wish
        self._waits = waits
        # whatever does not write lines is the workspace's own
        self.place = workspace.place
        self.folder = workspace.folder
        self.may_change = workspace.may_change
        self.real_name = workspace.real_name
        self.list_folder = workspace.list_folder
        self.fingerprints = workspace.fingerprints
        self.read = workspace.read
        self.read_many = workspace.read_many
        self.make = workspace.make
        self.list_notes = workspace.list_notes
        self.read_notes = workspace.read_notes
        self.now_ns = workspace.now_ns
        self.watch = workspace.watch

    @property
    def is_there(self) -> bool:
        return self._workspace.is_there

    async def append(
        self, name: str, text: str, *, skip_repeats: bool = True, heading: str = "", below: str = ""
    ) -> Appended:
        text = self._without_secrets(name, text)
        rejected: frozenset[str] = frozenset()
        if text.strip():
            source_of = await self._begin()
            rejected = await self._rejected(name, text, text.splitlines(), source_of)
            text = _without(text, rejected)
            if rejected and not any(line.strip(" \t#") for line in text.splitlines() if line[:1] != "#"):
                return Appended(written="", skipped_parts=0, rejected_lines=len(rejected))
            found = await self._sources.found(name, text, source_of)
            write = ProposedWrite(
                path=name,
                text=text,
                source=source_of(""),
                is_append=True,
                skip_repeats=skip_repeats,
                heading=heading,
                below=below,
            )
            await self._admit(write, found)
        appended = await self._workspace.append(
            name, text, skip_repeats=skip_repeats, heading=heading, below=below
        )
        return replace(appended, rejected_lines=len(rejected)) if rejected else appended

    async def change(self, name: str, change: Callable[[bytes | None], bytes | None]) -> None:
        try:
            old = (await self._workspace.read(name, max_bytes=MAX_NOTE_BYTES)).data
        except FileNotFoundError:
            old = None

        rejected: frozenset[str] = frozenset()

        def gated(before: bytes | None) -> bytes | None:
            after = change(before)
            if after is None:
                return None
            texts = [data.decode("utf-8", "surrogateescape") for data in (after, before or b"")]
            text = _without(self._without_secrets(name, *texts), rejected - set(texts[1].splitlines()))
            return text.encode("utf-8", "surrogateescape")

        new, source_of = gated(old), await self._begin()
        if new != old:
            before, text = (
                None if data is None else data.decode("utf-8", "surrogateescape") for data in (old, new)
            )
            known = frozenset((before or "").splitlines())
            lines = [line for line in (text or "").splitlines() if line not in known]
            rejected = await self._rejected(name, text or "", lines, source_of)
            if rejected and source_of("").written_by in ("tool", "code"):
                raise WaitsForReview(name, "", text or "")  # the caller counts on the whole text
            new = gated(old) if rejected else new
            text = None if new is None else new.decode("utf-8", "surrogateescape")
            write = ProposedWrite(path=name, text=text, before=before, source=source_of(""))
            of_text = b"" if new is None else new
            await self._admit(
                write, await self._sources.found(name, of_text.decode("utf-8", "replace"), source_of)
            )
        await self._workspace.change(name, gated)

    async def _rejected(
        self, name: str, text: str, lines: Sequence[str], source_of: SourceOf
    ) -> frozenset[str]:
        """Those of the new `lines` of a note that the owner rejected before. What the owner writes, approves
        or asks for is rejected no longer; a hook quotes what was said."""
        if source_of("").written_by == "hook":
            return frozenset()
        by_owner = [line for line in lines if self._is_approved or source_of(line).is_by_owner]
        if by_owner:
            await lift(self._workspace, name, text, by_owner)
        left = set(lines).difference(by_owner)
        rejected = await rejected_lines(self._sources, name, text, left, is_wish=self._is_owners_wish)
        if rejected:
            log.info("%d lines of %s are left out: the owner rejected them before", len(rejected), name)
        return rejected

    async def _admit(self, write: ProposedWrite, found: Sequence[StoredSource]) -> None:
        """Stores the sources of a write, or raises `WaitsForReview` if the owner has to see it first."""
        if self._is_approved:
            await self._sources.store(found)
            await self._sources.approve(write.path, added_lines(write), write.source)
            return
        review = self._sources.review
        is_gated = review is not None and not _is_open(write)
        because = await self._foreign(write, [each.source for each in found]) if is_gated else ""
        if not because:
            await self._sources.store(found)
        source = write.source
        waits_anyway = source.written_by in _REVIEWED or source.audience != PRIVATE
        if review is not None and (because or (self._sources.reviews_all and waits_anyway)):
            proposal_id = await review.propose(write)
            waiting = WaitsForReview(write.path, proposal_id, write.text or "", because=because)
            self._waits(waiting)
            raise waiting

    async def _foreign(self, write: ProposedWrite, new_sources: Sequence[Source]) -> str:
        """The names of the people besides the owner who contributed to a write; empty if nobody did.

        After words of others were heard, any new line and any removal may be their wish, except for lines
        that the owner has just said. Otherwise only a write that consists of known words of others counts;
        one such line among others is a coincidence, such as the text on every page of facts.
        """
        known = tuple(source for source in new_sources if not source.is_owners_word)
        if write.source.is_owners_word:
            return names_of_others(known) if len(known) == len(new_sources) else ""
        asks = self._is_owners_line
        if asks is not None and _only_adds(write) and all([await asks(line) for line in added_lines(write)]):
            return ""
        return names_of_others((write.source, *known)) or "others"

    def _without_secrets(self, name: str, text: str, before: str = "") -> str:
        """The text that may replace `before` in the note `name`, without secrets."""
        mode = self._sources.secrets
        is_free = mode == "off" or (mode == "ask" and self._is_approved)
        left = text if is_free else without_new_secrets(text, before)
        if left != text and mode == "refuse":
            raise SecretRefused(
                f"This text has a key or a password, which memory.secrets does not allow in {name}. "
                "Write it without."
            )
        return left


def _without(text: str, lines: Collection[str]) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if line.splitlines()[0] not in lines)


def _is_open(write: ProposedWrite) -> bool:
    """Whether a write is done at once although the session has heard words of others.

    This holds for notes that no prompt includes and that only gain lines: daily logs and other notes below
    `memory/`. A chat that is not private may also change its own notes and facts. Any other file can become a
    rule, a fact, a skill or a setting: the files of the prompt, `memory/facts.md`, `bank/`, `skills/`, and
    unknown names.
    """
    if write.source.audience != PRIVATE and write.path.startswith(_OPEN_IN_OTHER_CHATS):
        return True
    return is_markdown(write.path) and bool(_OPEN_NOTES.fullmatch(write.path)) and _only_adds(write)


def _only_adds(write: ProposedWrite) -> bool:
    if write.is_append or write.text is None:
        return write.is_append
    left = iter(write.text.splitlines())
    return all(line in left for line in (write.before or "").splitlines())
