"""What providers were paid, a file for each day of the owner, shared by all processes and agents. Edge.

The cap of a day stops what nobody waits for first, and replies when it is used up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.errors import SpendingCapReached
from nacre.runtime.models.spending.line import Spent, spent_from_line
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.usage import Usage
from nacre.sessions.disk.durable import append_all, read_plain, reading
from nacre.sessions.disk.locks import locked

BACKGROUND_SHARE = 0.8
"""From this share of the cap on, only what somebody waits for is asked."""
WAITED_FOR = ("turn", "compaction")
"""Purposes that a person waits for: the reply, and the summary without which there may be none."""

log = logging.getLogger(__name__)


class SpendingLedger:
    """Writes down what one agent's calls took.

    `folder` has a file a day; `now` tells the owner's day; `cap_usd` says, each time, what a day may cost.
    """

    def __init__(
        self, folder: Path, *, agent_id: str, now: Clock, cap_usd: Callable[[], float | None]
    ) -> None:
        self._folder = folder
        self._agent_id = agent_id
        self._now = now
        self._cap_usd = cap_usd
        self._seen: tuple[Path, int, float] | None = None

    async def allow(self, purpose: str) -> None:
        """Lets a call through.

        Raises:
            SpendingCapReached: the day's cap is used up, or nearly so and nobody waits for the answer.
        """
        cap_usd = self._cap_usd()
        if cap_usd is None:
            return
        try:
            spent_usd = await asyncio.to_thread(self._spent_today_usd)
        except SessionError as error:
            log.warning("what was spent today cannot be read: %s", error)
            return
        is_waited_for = purpose in WAITED_FOR
        if spent_usd < cap_usd * (1 if is_waited_for else BACKGROUND_SHARE):
            return
        log.warning("%s: %.4f of %.4f dollars are spent today", purpose, spent_usd, cap_usd)
        raise SpendingCapReached(_sentence(spent_usd, cap_usd, is_waited_for=is_waited_for))

    async def spend(self, purpose: str, model: str, usage: Usage, *, at_ms: int) -> None:
        """Writes down a call that ended. What cannot be written is in the log; the answer is worth more."""
        spent = Spent(at_ms=at_ms, agent_id=self._agent_id, model=model, purpose=purpose, usage=usage)
        try:
            await asyncio.to_thread(self._write, spent.to_line())
        except SessionError as error:
            log.warning("the usage of a call was not written down: %s", error)

    def _write(self, line: bytes) -> None:
        """Adds a line, on disk when this returns. One that a kill tore is ended first: it alone is lost."""
        path = self._today()
        with locked(path):
            size_bytes = path.stat().st_size if path.exists() else 0
            append_all(path, (b"\n" if _is_torn(path, size_bytes) else b"") + line, at_bytes=size_bytes)

    def _spent_today_usd(self) -> float:
        """Reads only what was written since the last look."""
        path = self._today()
        seen_bytes, spent_usd = self._seen[1:] if self._seen and self._seen[0] == path else (0, 0.0)
        with suppress(FileNotFoundError), reading(path, start_bytes=seen_bytes) as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                seen_bytes += len(line)
                spent = spent_from_line(line)
                spent_usd += spent.usage.cost_usd if spent is not None else 0.0
        self._seen = (path, seen_bytes, spent_usd)
        return spent_usd

    def _today(self) -> Path:
        return self._folder / f"{self._now().date().isoformat()}.jsonl"


def _is_torn(path: Path, size_bytes: int) -> bool:
    if not size_bytes:
        return False
    with reading(path, start_bytes=size_bytes - 1) as file:
        return file.read(1) != b"\n"


def spending(folder: Path, *, day: str = "*") -> Iterator[Spent]:
    """All calls that were written down, the oldest day first, or those of one day. Raises `SessionError`."""
    for path in sorted(folder.glob(f"{day}.jsonl")) if folder.is_dir() else []:
        found = read_plain(path)
        for line in found[0].splitlines() if found is not None else []:
            if (spent := spent_from_line(line)) is not None:
                yield spent


def _sentence(spent_usd: float, cap_usd: float, *, is_waited_for: bool) -> str:
    told = f"${spent_usd:.2f} of the ${cap_usd:.2f} a day that usage.dailyCapUsd allows are spent."
    if is_waited_for:
        return f"{told} Nothing is asked of a model before tomorrow; raise usage.dailyCapUsd to go on today."
    return f"{told} What is left is kept for replies: names, notes and embeddings are made without a model."
