"""A workspace for one writer that stores the source of every line before the line itself.

Everything that sessions write goes through it. It removes keys and passwords (`secrets.py`) and makes writes
wait for the owner (`proposed_write.py`): words of others on their way into a file that can become a rule or a
fact, and with `memory.writes: "review"` more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from nacre.memory.contracts.notes import MAX_NOTE_BYTES
from nacre.memory.contracts.workspace import (
    Appended,
    Workspace,
)
from nacre.memory.files.sources.proposed_write import (
    ProposedWrite,
    WaitsForReview,
    added_lines,
    is_open,
    is_reviewed,
    names_of_others,
    removes_lines,
)
from nacre.memory.files.sources.secrets import without_new_secrets
from nacre.memory.files.sources.source import Source
from nacre.memory.files.sources.sources import SourceOf, Sources, StoredSource


class SecretRefused(OSError):
    """A text has a key or a password, and `memory.secrets` is `refuse`."""


class SourcedWorkspace:
    """The `Workspace` `workspace`, with the sources of what is written.

    `begin` is called before each write and returns the function that gives the source of a line. A write
    whose sources cannot be stored is not done, and a write that waits for the owner raises `WaitsForReview`,
    about which `waits` is called. `change` calls its function twice, with the same bytes.

    With `is_approved`, the owner has seen and approved the text: nothing waits, its lines count as the
    owner's, and secrets stay in it if `memory.secrets` is `ask`. `is_owners_line` decides, after words of
    others were heard, whether the owner has just said exactly this line.
    """

    def __init__(
        self,
        workspace: Workspace,
        sources: Sources,
        begin: Callable[[], Awaitable[SourceOf]],
        *,
        is_approved: bool = False,
        is_owners_line: Callable[[str], Awaitable[bool]] | None = None,
        waits: Callable[[WaitsForReview], None] = lambda _waiting: None,
    ) -> None:
        self._workspace = workspace
        self._sources = sources
        self._begin = begin
        self._is_approved = is_approved
        self._is_owners_line = is_owners_line
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
        if text.strip():
            source_of = await self._begin()
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
        return await self._workspace.append(
            name, text, skip_repeats=skip_repeats, heading=heading, below=below
        )

    async def change(self, name: str, change: Callable[[bytes | None], bytes | None]) -> None:
        try:
            old = (await self._workspace.read(name, max_bytes=MAX_NOTE_BYTES)).data
        except FileNotFoundError:
            old = None

        def gated(before: bytes | None) -> bytes | None:
            after = change(before)
            if after is None:
                return None
            texts = (data.decode("utf-8", "surrogateescape") for data in (after, before or b""))
            return self._without_secrets(name, *texts).encode("utf-8", "surrogateescape")

        new, source_of = gated(old), await self._begin()
        if new != old:
            before, text = (
                None if data is None else data.decode("utf-8", "surrogateescape") for data in (old, new)
            )
            write = ProposedWrite(path=name, text=text, before=before, source=source_of(""))
            of_text = b"" if new is None else new
            await self._admit(
                write, await self._sources.found(name, of_text.decode("utf-8", "replace"), source_of)
            )
        await self._workspace.change(name, gated)

    async def _admit(self, write: ProposedWrite, found: Sequence[StoredSource]) -> None:
        """Stores the sources of a write, or raises `WaitsForReview` if the owner has to see it first."""
        if self._is_approved:
            await self._sources.store(found)
            await self._sources.approve(write.path, added_lines(write), write.source)
            return
        review = self._sources.review
        is_gated = review is not None and not is_open(write)
        because = await self._foreign(write, [each.source for each in found]) if is_gated else ""
        if not because:
            await self._sources.store(found)
        if review is not None and (because or (self._sources.reviews_all and is_reviewed(write.source))):
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
        may_pass = asks is not None and write.text is not None and not removes_lines(write)
        if asks is not None and may_pass and all([await asks(line) for line in added_lines(write)]):
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
