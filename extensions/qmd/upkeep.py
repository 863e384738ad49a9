"""Keeps qmd's index up to date: collections, exports, `qmd update` and `qmd embed`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from nacre.extensions.qmd.home import Collection, QmdHome, SessionExports
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
"""The pause before the first update is tried again; it doubles each time."""
PAUSE_SECONDS = 3_600.0
"""The pause after a failed update if the settings have no interval."""
EMBED_WAIT_SECONDS = 60.0
MOST_EMBED_WAIT_SECONDS = 3_600.0
"""After a failed `qmd embed`, the pause is a minute; it doubles each time, up to an hour."""


class Upkeep:
    """The collections of one agent; one update runs at a time.

    `embeds` means that the search mode uses vectors. `embedding` is a lock shared by the agents of a process,
    because each embedding run loads a model.
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
        self.changed = asyncio.Event()
        """Set it when there is something to read."""
        self._turns = asyncio.Lock()
        self._begun = 0
        self._ended_at: float | None = None
        self._may_embed_at = 0.0
        self._embed_wait_seconds = EMBED_WAIT_SECONDS
        self.problem = ""

    @property
    def is_dirty(self) -> bool:
        """Whether an update has yet to read a change."""
        return self.changed.is_set() or self._turns.locked()

    async def start(self) -> None:
        """Starts to update, and waits for the first update if the settings say so."""
        if self._settings.on_boot and self._settings.wait_for_boot_sync:
            await self._quietly(boot=True)
            self._following = asyncio.create_task(self._follow(boot=False), name="qmd-updates")
        else:
            self._following = asyncio.create_task(
                self._follow(boot=self._settings.on_boot), name="qmd-updates"
            )

    async def close(self) -> None:
        """Stops updates and kills a running program."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self._exports is not None:
            await self._exports.source.close()

    async def settled(self, seconds: float) -> None:
        """Waits up to `seconds` for a running update."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._turns:
                pass

    async def update(self, *, force: bool = True, boot: bool = False) -> None:
        """Updates everything and waits for it.

        Without `force`, does nothing within `debounceMs` of the last update. Callers during an update wait
        for the next one, which they share.

        Raises:
            QmdFailed: it failed; `problem` has the same message.
        """
        begun = self._begun
        async with self._turns:
            if self._begun > begun:  # that update started after this call, so it has read the change
                if self.problem:
                    raise QmdFailed(self.problem)
                return
            if not force and self._rest_seconds():
                return
            self._begun += 1
            self.changed.clear()
            try:
                await self._once(boot=boot)
                self.problem = ""
            except (QmdFailed, OSError) as error:
                self.changed.set()
                self.problem = str(error)
                raise QmdFailed(self.problem) from error
            finally:
                self._ended_at = asyncio.get_running_loop().time()

    async def repair(self) -> None:
        """Creates all collections again. Raises `QmdFailed` if qmd cannot create them."""
        async with self._turns:
            await self._create_collections(again=True)

    async def _create_collections(self, *, again: bool = False) -> None:
        seconds = self._settings.command_timeout_ms / 1000
        output = await self._program.run("collection", "list", "--json", seconds=seconds)
        listed = listed_collections(output.or_failed("qmd collection list"))
        state = await asyncio.to_thread(self._home.state)
        stored = dict(state.collections)
        wanted = {each.name: each for each in self._collections if each.root.is_dir()}
        for name in sorted(stored.keys() - wanted.keys()):
            if name in listed:
                await self._program.run("collection", "remove", name, seconds=seconds)
            del stored[name]
        for name, collection in wanted.items():
            marks = (str(collection.root), collection.pattern)
            if name in listed and stored.get(name) == marks and not again:
                continue
            if name in listed:
                await self._program.run("collection", "remove", name, seconds=seconds)
            output = await self._program.run(
                *("collection", "add", marks[0], "--name", name, "--mask", marks[1]), seconds=seconds
            )
            if output.code and "already exists" not in output.err + output.out:
                output.or_failed(f"qmd collection add {name}")
            stored[name] = marks
        if stored != state.collections:
            state = await asyncio.to_thread(self._home.state)
            await asyncio.to_thread(self._home.store, replace(state, collections=stored))

    async def _follow(self, *, boot: bool) -> None:
        if boot:
            await self._quietly(boot=True)
        interval_seconds = duration_seconds(self._settings.interval) or None
        while True:
            if self.problem:  # wait for the interval, whatever is written meanwhile
                await asyncio.sleep(interval_seconds or PAUSE_SECONDS)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(interval_seconds):
                        await self.changed.wait()
            await asyncio.sleep(self._rest_seconds())
            await self._quietly()

    def _rest_seconds(self) -> float:
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
                if number + 1 == tries or not is_busy(error.output):
                    raise
            await asyncio.sleep(RETRY_SECONDS * 2**number)
        state = await asyncio.to_thread(self._home.state)
        at_seconds = self._now().timestamp()
        await asyncio.to_thread(self._home.store, replace(state, updated_at_seconds=at_seconds))
        await self._embed_if_due()

    async def _update_or_repair(self) -> None:
        try:
            await self._create_collections()
            await self._run_update()
        except QmdFailed as error:
            if is_damaged(error.output):
                await asyncio.to_thread(self._home.set_index_aside)
            elif not needs_repair(error.output):
                raise
            log.warning("qmd's collections are created again: %s", error)
            await self._create_collections(again=True)
            await self._run_update()

    async def _run_update(self) -> None:
        output = await self._program.run("update", seconds=self._settings.update_timeout_ms / 1000)
        output.or_failed("qmd update")

    async def _embed_if_due(self) -> None:
        # A search works without vectors, so a failure is only logged.
        interval_seconds = duration_seconds(self._settings.embed_interval)
        loop_seconds = asyncio.get_running_loop().time()
        state = await asyncio.to_thread(self._home.state)
        age_seconds = self._now().timestamp() - state.embedded_at_seconds
        is_due = interval_seconds and age_seconds >= interval_seconds and loop_seconds >= self._may_embed_at
        if not self._embeds or not is_due:
            return
        try:
            async with self._embedding:
                output = await self._program.run("embed", seconds=self._settings.embed_timeout_ms / 1000)
            output.or_failed("qmd embed")
        except QmdFailed as error:
            self._may_embed_at = asyncio.get_running_loop().time() + self._embed_wait_seconds
            log.warning("no vectors from qmd, tried again in %.0f s: %s", self._embed_wait_seconds, error)
            self._embed_wait_seconds = min(MOST_EMBED_WAIT_SECONDS, 2 * self._embed_wait_seconds)
            return
        self._embed_wait_seconds = EMBED_WAIT_SECONDS
        at_seconds = self._now().timestamp()
        await asyncio.to_thread(self._home.store, replace(state, embedded_at_seconds=at_seconds))
