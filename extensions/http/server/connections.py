"""Connections of the HTTP server: how long one may stay silent, and which one goes when there are too many.

uvicorn's own limit counts every connection, so that whoever opens enough of them and says nothing shuts
everybody out. Here the connection with the least claim is closed for a new one. Edge: uvicorn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from nacre.records.record import Record
from nacre.runtime.extensions.service import CALLER

log = logging.getLogger(__name__)


class ConnectionLimits(Record):
    """Of more than `most`, the oldest idle one is closed, then the oldest whose caller is unknown, else the
    new one. Each has `head_seconds` to send the head of its first request.
    """

    most: int = 500
    head_seconds: float = 10.0


class Connection(H11Protocol):
    """One connection of uvicorn's, which is closed when it stays silent or others need its place."""

    limits = ConnectionLimits()
    _silent: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """As uvicorn does, once there is a place."""
        if len(self.connections) >= self.limits.most:
            leaving = self._with_least_claim()
            if leaving is None:
                log.warning("a connection was refused: %d are being answered", len(self.connections))
                super().connection_made(transport)
                transport.abort()
                return
            leaving.transport.abort()
            self.connections.discard(leaving)
        super().connection_made(transport)
        self._silent = self.loop.call_later(self.limits.head_seconds, self._close_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn does."""
        if self._silent is not None:
            self._silent.cancel()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def has_known_caller(self) -> bool:
        """Whether its present request showed a token or a login."""
        return not self.is_idle and CALLER in self.scope

    def _with_least_claim(self) -> Connection | None:
        ours = cast("Iterable[Connection]", sorted(self.connections, key=_age))
        waiting = [each for each in ours if not each.has_known_caller]
        return next((each for each in waiting if each.is_idle), waiting[0] if waiting else None)

    def _close_silent(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.abort()


def limited_to(limits: ConnectionLimits) -> type[Connection]:
    """The class of a server's connections."""
    return type("LimitedConnection", (Connection,), {"limits": limits})


def _age(connection: Any) -> float:
    silent: asyncio.TimerHandle | None = connection._silent
    return silent.when() if silent is not None else 0.0
