"""A session's transcript file, `<sessionId>.jsonl`: opened, read and appended to, from asyncio.

Edge. What an append returns is on disk. Entries are never changed or removed; see `journal_file.py`
for what happens to a file that a crash or another program damaged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from nacre.sessions.disk.durable import Sync
from nacre.sessions.disk.lines import timestamp_text
from nacre.sessions.disk.whole_results import ResultFiles
from nacre.sessions.disk.worker import OrderedWorker
from nacre.sessions.entries.adding import check_addable, rewind_body
from nacre.sessions.entries.entries import CustomRecord, Entry, KnownBody, SessionHeader
from nacre.sessions.entries.tree import EntryTree
from nacre.sessions.journal.journal_file import JournalFile
from nacre.sessions.view.branch_views import BranchViews
from nacre.sessions.view.sent_view import SentView
from nacre.sessions.view.transcript import TranscriptItem

T = TypeVar("T")


class Journal:
    """One transcript. Several journals, in one process or many, may share a file.

    Appends of one journal happen in the order of the calls. Cancelling one waits until it is done.
    Every append raises `SessionWriteFailed` when the disk refuses; file and object are unchanged then.
    """

    def __init__(self, file: JournalFile) -> None:
        self._file = file
        self._worker = OrderedWorker()
        self._views = BranchViews()

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        session_id: str,
        cwd: Path,
        now: Callable[[], datetime],
        new_id: Callable[[], str],
        sync: Sync = os.fsync,
    ) -> Journal:
        """Reads a transcript, or begins one with a header when there is none.

        A torn end is set aside and cut off, a file without a header is set aside and its entries taken
        over; `notices` says so. `session_id` and `cwd` serve only for a header that is written now.

        Raises:
            SessionVersionUnknown: a newer program wrote the file.
            SessionCorrupt: `path` is a symbolic link or no plain file.
            SessionWriteFailed: the system refused to read, lock or write.
        """
        header = SessionHeader(id=session_id, timestamp=timestamp_text(now()), cwd=str(cwd))
        journal = cls(JournalFile(path, fresh_header=header, now=now, new_id=new_id, sync=sync))

        def load() -> None:
            journal._file.load()
            # The first look at a long session takes a while, in which other sessions want their turns.
            journal.transcript()
            journal.sent()

        await journal._worker.run(load)
        return journal

    @property
    def path(self) -> Path:
        """Where the transcript lies."""
        return self._file.path

    @property
    def name(self) -> str:
        """What its folder, the index and endings call it."""
        return self.path.name

    @property
    def place(self) -> str:
        """Where it lies, for people."""
        return str(self.path)

    @property
    def results(self) -> ResultFiles:
        """Its tool results that are kept whole."""
        return ResultFiles(self.path)

    @property
    def header(self) -> SessionHeader:
        """The file's first line."""
        return self._file.header

    @property
    def size_bytes(self) -> int:
        """How long the file was when it was last looked at."""
        return self._file.size_bytes

    @property
    def tree(self) -> EntryTree:
        """All entries on every branch, with their names; another object once the file was read anew."""
        return self._file.tree

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences about what was repaired, skipped or set aside since the journal was opened."""
        return self._file.notices

    def branch(self, leaf_id: str | None = None) -> Sequence[Entry]:
        """The entries from the root to the newest one, or to `leaf_id`, as they are now.

        The next entry becomes the newest one's child.

        Raises:
            ValueError: no entry has that id.
        """
        return self.tree.branch(leaf_id)

    def transcript(self) -> tuple[TranscriptItem, ...]:
        """What a model is to see of the branch; the same object as long as that did not change.

        See `transcript_view.py` for what it holds. Call it from one thread at a time.
        """
        return self._views.transcript(self.tree)

    def sent(self) -> SentView:
        """What models are sent of that; brought up to the branch by this call, in one thread at a time."""
        return self._views.sent(self.tree)

    def kept(self, make: Callable[[], T]) -> T:
        """What `make` made for this journal when it was first asked for; kept as long as the journal is.

        For what somebody follows of the entries, and would make anew from all of them otherwise.
        """
        return self._views.kept(make)

    async def refresh(self) -> bool:
        """Reads what others appended since the last look; whether there was anything."""
        return not self._file.is_current() and await self._worker.run(self._file.refresh)

    async def append(self, body: KnownBody) -> Entry:
        """Puts an entry on disk as the newest one's child.

        Raises:
            ValueError: a compaction's summary is blank, or the entry that it keeps first is not on the
                branch; or there is no entry that a label could name.
        """
        check_addable(body, self.tree)
        return await self._worker.run(lambda: self._file.append(body))

    async def append_custom(self, custom_type: str, data: Any) -> Entry:
        """Puts a program's own record on disk, which the model never sees."""
        return await self.append(CustomRecord(custom_type=custom_type, data=data))

    async def rewind(self, leaf_id: str | None, *, summary: str = "") -> Entry:
        """Goes back: the next entry becomes a child of `leaf_id`, or a new root when that is `None`.

        The branch that is left stays in the file. A `summary` of it is shown to the model. One entry is
        written in any case, so that the next opening of the file goes on at the same place.

        Raises:
            ValueError: there is no entry of that id.
        """
        body = rewind_body(self.tree, leaf_id, summary)
        return await self._worker.run(lambda: self._file.append(body, parent_id=leaf_id))

    async def fork(self, name: str, *, session_id: str, leaf_id: str | None) -> None:
        """Writes a new transcript beside this one, with the branch to `leaf_id` and this one as its parent.

        It gets the whole tool results that there are so far.

        Raises:
            ValueError: there is no entry of that id.
            SessionCorrupt: there is a file of that name already.
            SessionWriteFailed: the system refused; what may be left of it is named by no key.
        """
        path = self.path.with_name(name)
        await self._worker.run(lambda: self._file.fork(path, session_id=session_id, leaf_id=leaf_id))
        await self.results.copy_to(path)
