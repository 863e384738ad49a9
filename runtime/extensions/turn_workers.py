"""Programs that run turns for `nacre serve`, as an extension brings them: `storage.workers` asks for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from nacre.records.record import Record
from nacre.runtime.settings.config import Config


class TurnWorkers(Record):
    """How a program that serves leaves turns to others. Both calls raise `StorageFailed`.

    `hand_over` opens a `TurnRunner` (`nacre.bridges.answering.turns`), closed at the end of its block.
    `figures` measures the work of the config's agent, as gauges: `waiting` and `running` are turns,
    `waiting_seconds` is for how long the oldest that waits has, `oldest_seconds` when the oldest of all was
    asked for, `workers` those that live, `leases` sessions that are held, `leases_run_out` those whose holder
    went silent.
    """

    hand_over: Callable[[Config], AbstractAsyncContextManager[Any]]
    figures: Callable[[Config], Awaitable[Mapping[str, float]]]
