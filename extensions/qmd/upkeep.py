"""Keeps qmd's index in line with the files: collections, exports, `qmd update` and `qmd embed`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from nacre.extensions.qmd.exports import SessionExports
from nacre.extensions.qmd.home import Collection, QmdHome
from nacre.extensions.qmd.program import (
    Program,
    QmdFailed,
    is_busy,
    is_damaged,
    listed_collections,
    needs_repair,
)
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.settings.sections.memory import QmdUpdate
from nacre.runtime.settings.sections.section import duration_seconds

log = logging.getLogger(__name__)

BOOT_TRIES = 3
RETRY_SECONDS = 0.5
"""How long the first update waits before it tries again; twice as long each time."""
PAUSE_SECONDS = 3_600.0
"""After a failed update the next one comes with the interval, or after this time where there is none."""
EMBED_WAIT_SECONDS = 60.0
MOST_EMBED_WAIT_SECONDS = 3_600.0
"""After a failed `qmd embed` it is not tried for a minute, then twice as long each time up to an hour."""


class Upkeep:
    """The collections of one agent, updated one at a time.

    `embeds` says whether the search mode uses vectors; `embedding` is held by the agents of a process in
    turn, since each of them loads a model for it.
    """

    def __init__(
        self,
        program: Program,
        home: QmdHome,
        settings: QmdUpdate,
        *,
        collections: Sequence[Collection],
        exports: SessionExports | None,
        embeds: bool,
        embedding: asyncio.Lock,
        now: Clock,
    ) -> None:
        self._program = program
        self._home = home
        self._settings = settings
        self._collections = collections
        self._exports = exports
        self._embeds = embeds
        self._embedding = embedding
        self._now = now
        self._following: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._turns = asyncio.Lock()
        self._begun = 0
        self._ended_at: float | None = None
        self._may_embed_at = 0.0
        self._embed_wait_seconds = EMBED_WAIT_SECONDS
        self.problem = ""

    @property
    def is_dirty(self) -> bool:
        """Whether something changed that no update has read yet."""
        return self._changed.is_set() or self._turns.locked()

    async def start(self) -> None:
        """Begins to update; waits for the first one where the settings say so."""
        if self._settings.on_boot and self._settings.wait_for_boot_sync:
            await self._quietly(boot=True)
            self._following = asyncio.create_task(self._follow(boot=False), name="qmd-updates")
        else:
            self._following = asyncio.create_task(
                self._follow(boot=self._settings.on_boot), name="qmd-updates"
            )

    async def close(self) -> None:
        """Ends what is running; the program is killed."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self._exports is not None:
            await self._exports.close()

    def changed(self) -> None:
        """Says that there is something to read."""
        self._changed.set()

    async def settled(self, seconds: float) -> None:
        """Waits for an update that is running, but not for longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._turns:
                pass

    async def update(self, *, force: bool = True, boot: bool = False) -> None:
        """Brings everything in line and waits for it.

        Without `force` nothing is done within `debounceMs` of the last time.
        Whoever asks while one runs waits for the next, which begins behind it and is shared by all who wait.

        Raises:
            QmdFailed: it did not work; `problem` says so too.
        """
        begun = self._begun
        async with self._turns:
            if self._begun > begun:  # it began after this call, so it has read what this call is about
                if self.problem:
                    raise QmdFailed(self.problem)
                return
            if not force and self._rest_seconds():
                return
            self._begun += 1
            self._changed.clear()
            try:
                await self._once(boot=boot)
                self.problem = ""
            except (QmdFailed, OSError) as error:
                self._changed.set()
                self.problem = str(error)
                raise QmdFailed(self.problem) from error
            finally:
                self._ended_at = asyncio.get_running_loop().time()

    async def mend(self) -> None:
        """Makes all collections anew.

        Raises:
            QmdFailed: qmd does not make them.
        """
        async with self._turns:
            await self._make_collections(anew=True)

    async def _make_collections(self, *, anew: bool = False) -> None:
        """Makes the collections that are wanted and missing, and makes those again that have changed."""
        seconds = self._settings.command_timeout_ms / 1000
        said = await self._program.run("collection", "list", "--json", seconds=seconds)
        listed = listed_collections(said.or_failed("qmd collection list"))
        state = await asyncio.to_thread(self._home.state)
        noted = dict(state.collections)
        wanted = {each.name: each for each in self._collections if each.root.is_dir()}
        for name in sorted(noted.keys() - wanted.keys()):
            if name in listed:
                await self._program.run("collection", "remove", name, seconds=seconds)
            del noted[name]
        for name, collection in wanted.items():
            marks = (str(collection.root), collection.pattern)
            if name in listed and noted.get(name) == marks and not anew:
                continue
            if name in listed:
                await self._program.run("collection", "remove", name, seconds=seconds)
            said = await self._program.run(
                *("collection", "add", marks[0], "--name", name, "--mask", marks[1]), seconds=seconds
            )
            if said.code and "already exists" not in said.err + said.out:
                said.or_failed(f"qmd collection add {name}")
            noted[name] = marks
        if noted != state.collections:
            state = await asyncio.to_thread(self._home.state)
            await asyncio.to_thread(self._home.note, replace(state, collections=noted))

    async def _follow(self, *, boot: bool) -> None:
        if boot:
            await self._quietly(boot=True)
        interval_seconds = duration_seconds(self._settings.interval) or None
        while True:
            if self.problem:  # tried again with the interval, however much is written meanwhile
                await asyncio.sleep(interval_seconds or PAUSE_SECONDS)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(interval_seconds):
                        await self._changed.wait()
            await asyncio.sleep(self._rest_seconds())
            await self._quietly()

    def _rest_seconds(self) -> float:
        """How long the last update is to be the last."""
        if self._ended_at is None:
            return 0.0
        due = self._ended_at + self._settings.debounce_ms / 1000
        return max(0.0, due - asyncio.get_running_loop().time())

    async def _quietly(self, *, boot: bool = False) -> None:
        try:
            await self.update(force=boot, boot=boot)
        except QmdFailed as error:
            log.warning("qmd was not updated: %s", error)

    async def _once(self, *, boot: bool) -> None:
        if self._exports is not None:
            await self._exports.write()
        tries = BOOT_TRIES if boot else 1
        for number in range(tries):
            try:
                await self._update_or_repair()
                break
            except QmdFailed as error:
                if number + 1 == tries or not is_busy(error.said):
                    raise
            await asyncio.sleep(RETRY_SECONDS * 2**number)
        state = await asyncio.to_thread(self._home.state)
        at_seconds = self._now().timestamp()
        await asyncio.to_thread(self._home.note, replace(state, updated_at_seconds=at_seconds))
        await self._embed_if_due()

    async def _update_or_repair(self) -> None:
        try:
            await self._make_collections()
            await self._run_update()
        except QmdFailed as error:
            if is_damaged(error.said):
                await asyncio.to_thread(self._home.set_index_aside)
            elif not needs_repair(error.said):
                raise
            log.warning("qmd's collections are made anew: %s", error)
            await self._make_collections(anew=True)
            await self._run_update()

    async def _run_update(self) -> None:
        said = await self._program.run("update", seconds=self._settings.update_timeout_ms / 1000)
        said.or_failed("qmd update")

    async def _embed_if_due(self) -> None:
        """Makes vectors where the search uses them; that they are missing does not stop a search."""
        interval_seconds = duration_seconds(self._settings.embed_interval)
        loop_seconds = asyncio.get_running_loop().time()
        state = await asyncio.to_thread(self._home.state)
        age_seconds = self._now().timestamp() - state.embedded_at_seconds
        is_due = interval_seconds and age_seconds >= interval_seconds and loop_seconds >= self._may_embed_at
        if not self._embeds or not is_due:
            return
        try:
            async with self._embedding:
                said = await self._program.run("embed", seconds=self._settings.embed_timeout_ms / 1000)
            said.or_failed("qmd embed")
        except QmdFailed as error:
            self._may_embed_at = asyncio.get_running_loop().time() + self._embed_wait_seconds
            log.warning("no vectors from qmd, tried again in %.0f s: %s", self._embed_wait_seconds, error)
            self._embed_wait_seconds = min(MOST_EMBED_WAIT_SECONDS, 2 * self._embed_wait_seconds)
            return
        self._embed_wait_seconds = EMBED_WAIT_SECONDS
        at_seconds = self._now().timestamp()
        await asyncio.to_thread(self._home.note, replace(state, embedded_at_seconds=at_seconds))
