"""Consolidation while the agent is idle: one proposal a day from the logs of the days that are over.

Whether there is anything to do is decided without a model: nothing is asked on a day without new lines. The
proposal is the one of `nacre memory tidy`, with lines for pages about one thing (`topics.py`), and of
`nacre memory reflect` if there is a bank. It waits in the review queue, or is written as one commit. A file
in the agent's folder says which days are done: `FORMAT_VERSION`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from nacre.closing import stop_tasks
from nacre.extensions.curation.note_changes import write_in_one_commit
from nacre.locks import try_lock
from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot, Workspace
from nacre.memory.files.proposals import NoteChange, ProposalFailed, ReviewQueue
from nacre.memory.files.sources.proposed_write import ProposedWrite
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.workspace.history.commits import HistoryBusy
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.errors import AgentError
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.extensions.host import ExtensionHost, OpeningAgent
from nacre.runtime.providers.opening import connected_model
from nacre.runtime.settings.config import Config
from nacre.runtime.storage.storage import review_queue, storage_of
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.disk.durable import read_plain, replace_file

FORMAT_VERSION = 1
DONE_FILE = "consolidated.json"
IDLE_SECONDS = 1_800.0
"""How long nobody may have written before the notes are consolidated."""
CHECK_SECONDS = 300.0
FIRST_DAYS = 7
"""How many days the first run reads; `nacre memory tidy` reads older logs."""
MOST_CALLS = 1
"""The most requests a day, apart from one correction."""

log = logging.getLogger(__name__)


class Done(Record):
    """The last day whose log was read, and the last day on which a model was asked or a proposal made."""

    until: date | None = None
    tried: date | None = None


def register(host: ExtensionHost) -> None:
    """Consolidates the notes of each agent that opens, unless `memory.consolidate` is `off`."""
    host.on_open(partial(_begin, host))


def _begin(host: ExtensionHost, opening: OpeningAgent) -> None:
    config = opening.config
    if config.settings.memory.consolidate == "off" or not config.model_name:
        return
    consolidation = Consolidation(config, opening.now, on_note=opening.on_note)
    host.hook("before_turn", consolidation.seen)
    host.hook("after_turn", consolidation.seen)
    opening.closing.push_async_callback(consolidation.close)


class Consolidation:
    """Consolidates the notes of one agent. `open_model` connects the model that is named in the settings."""

    def __init__(
        self,
        config: Config,
        now: Clock,
        *,
        on_note: Callable[[str], None] = lambda _path: None,
        open_model: Callable[[Config, str, Clock], ChatModel] = connected_model,
    ) -> None:
        self._config = config
        self._now = now
        self._on_note = on_note
        self._open_model = open_model
        self._last_turn = now()
        self._task: asyncio.Task[None] | None = None

    async def seen(self, _event: object) -> None:
        """Notes that a turn began or ended. The first one starts what waits until the agent is idle."""
        self._last_turn = self._now()
        if self._task is None:
            self._task = asyncio.create_task(self.run(asyncio.sleep), name="consolidation")

    async def close(self) -> None:
        await stop_tasks(self._task)

    async def run(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Runs what is due until it is cancelled."""
        while True:
            await sleep(CHECK_SECONDS)
            try:
                await self.run_due()
            except Exception:
                log.exception("the notes could not be consolidated")

    async def run_due(self) -> tuple[str, ...]:
        """Consolidates if the agent is idle and the log of a day is closed; the notes with a change."""
        config, now = self._config, self._now()
        if epoch_ms(now) - epoch_ms(self._last_turn) < IDLE_SECONDS * 1000:
            return ()
        if storage_of(config).workspace().folder is None:
            return ()  # a database has no history to undo a change with
        config.folders.agent_dir.mkdir(parents=True, exist_ok=True)
        unlock = try_lock(config.folders.agent_dir / f"{DONE_FILE}.lock")
        if unlock is None:
            return ()
        try:
            return await self._consolidated(now)
        except (
            ProposalFailed,
            HistoryBusy,
            FileBusy,
            PathOutsideRoot,
            AgentError,
            SessionError,
            OSError,
        ) as error:
            log.warning("the notes were not consolidated: %s", error)
            return ()
        finally:
            unlock()

    async def _consolidated(self, now: datetime) -> tuple[str, ...]:
        config, today = self._config, now.date()
        done, yesterday = await asyncio.to_thread(read_done, self._done_file), today - timedelta(days=1)
        if done.tried == today or (done.until or date.min) >= yesterday:
            return ()
        workspace, queue = storage_of(config).workspace(), review_queue(config)
        if any(each.write.source.written_by == "reflection" for each in await queue.waiting()):
            return ()  # the owner has not answered the last one
        first = done.until + timedelta(days=1) if done.until else today - timedelta(days=FIRST_DAYS)
        await self._keep(Done(until=done.until, tried=today))  # a failure costs one attempt a day
        changes = await self._changes(workspace, after=first, before=yesterday)
        if changes:
            at = now.isoformat(timespec="seconds")
            if config.settings.memory.consolidate == "apply":
                await write_in_one_commit(config, workspace, changes, at=at)
            else:
                changes = await _proposed(queue, changes, at=at)
        await self._keep(Done(until=yesterday, tried=today))
        names = tuple(change.path for change in changes)
        for name in names if config.settings.memory.consolidate == "apply" else ():
            self._on_note(name)
        return names

    async def _changes(self, workspace: Workspace, *, after: date, before: date) -> tuple[NoteChange, ...]:
        """What the logs of these days change in the notes; a model is asked only about new lines."""
        from nacre.extensions.curation.edits import redacted, tidied
        from nacre.extensions.curation.model_edits import new_places
        from nacre.extensions.curation.notes import read_tidy_notes, without_rejected, without_repeats
        from nacre.extensions.curation.reflection import propose_bank
        from nacre.extensions.curation.topics import read_topics, topic_notes

        notes = await read_tidy_notes(workspace, after=after, before=before)
        text = notes.curated or ""
        edits = list(without_repeats(notes.path, text, notes.curated_places(text)))
        if new_places(notes):
            from nacre.extensions.curation.model_edits import edits_by_model

            notes = replace(notes, pages=await read_topics(workspace))
            answer = await edits_by_model(
                self._config, notes, self._now, most_calls=MOST_CALLS, open_model=self._open_model
            )
            edits += answer.edits
        wanted = await without_rejected(workspace, notes.path, edits)
        note = redacted(tidied(notes.path, notes.curated, wanted))
        topics = map(redacted, topic_notes(wanted, notes.pages or {}, note.after))
        bank = await propose_bank(workspace) if self._config.settings.memory.bank.enabled else None
        pages = (*bank.changes, bank.taken) if bank is not None and bank.changes else ()
        return (*((note,) if note.diff else ()), *topics, *pages)

    @property
    def _done_file(self) -> Path:
        return self._config.folders.agent_dir / DONE_FILE

    async def _keep(self, done: Done) -> None:
        raw = {
            "version": FORMAT_VERSION,
            "until": done.until.isoformat() if done.until else "",
            "tried": done.tried.isoformat() if done.tried else "",
        }
        await asyncio.to_thread(replace_file, self._done_file, json.dumps(raw).encode() + b"\n")


def read_done(file: Path) -> Done:
    """The days that are done; none if the file is missing or cannot be read."""
    try:
        found = read_plain(file) if file.exists() else None
        raw: Any = json.loads(found[0] if found else b"null")
        if not isinstance(raw, Mapping) or raw.get("version") != FORMAT_VERSION:
            return Done()
        days = (str(raw.get(name) or "") for name in ("until", "tried"))
        until, tried = (date.fromisoformat(day) if day else None for day in days)
    except (ValueError, RecursionError):
        return Done()
    return Done(until=until, tried=tried)


async def _proposed(queue: ReviewQueue, changes: Sequence[NoteChange], *, at: str) -> tuple[NoteChange, ...]:
    """Puts the changes of Markdown notes into the review queue; those that now wait."""
    source = Source(written_by="reflection", audience=PRIVATE, said_by=("owner", "assistant"), at=at)
    waiting: list[NoteChange] = []
    for change in changes:
        write = ProposedWrite(path=change.path, text=change.after, before=change.before, source=source)
        if change.path.endswith(".md") and await queue.propose(write):
            waiting.append(change)
    return tuple(waiting)
