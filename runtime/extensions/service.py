"""What an extension runs for `nacre serve`: a server beside the channels, or turns in other programs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from nacre.record import Record
from nacre.runtime.extensions.http_mount import MakeMount
from nacre.runtime.settings.config import Config


class ServiceFailed(Exception):
    """A service cannot start; the text is a sentence for the owner."""


class Serving(Record):
    """The program that a service runs in.

    `agents` are the open agents (`nacre.Agent`), the default one first. `http_mounts` are the routes that
    extensions add to an HTTP server. `figures` measures what is waiting.
    `say` and `warn` print lines. Turns that still run at the end may take `turn_seconds`.
    """

    config: Config
    environment: Mapping[str, str]
    agents: Sequence[Any]
    http_mounts: Sequence[MakeMount]
    has_channels: bool
    figures: Callable[[], Awaitable[Mapping[str, float]]]
    say: Callable[..., None]
    warn: Callable[..., None]
    turn_seconds: float


class Service(Record):
    """`run` serves until the end of its block, and raises `ServiceFailed` when it cannot start.

    `problem` says why the service cannot start with these settings, or nothing; it opens nothing.
    """

    run: Callable[[Serving], AbstractAsyncContextManager[None]]
    problem: Callable[[Config], str]


class TurnWorkers(Record):
    """How a program that serves leaves turns to others. Both calls raise `StorageFailed`.

    `hand_over` opens a `TurnRunner` (`nacre.bridges.answering.runner`), closed at the end of its block.
    `figures` measures the work of the config's agent, as gauges: `waiting` and `running` are turns,
    `waiting_seconds` is for how long the oldest that waits has, `oldest_seconds` when the oldest of all was
    asked for, `workers` those that live, `leases` sessions that are held, `leases_run_out` those whose holder
    went silent.
    """

    hand_over: Callable[[Config], AbstractAsyncContextManager[Any]]
    figures: Callable[[Config], Awaitable[Mapping[str, float]]]
