"""Messages that are said into a turn while it runs: `steer` and `steer-backlog`.

In `steer` the ledger knows that a message joined before the turn hears of it. In `steer-backlog` the message
waits for a turn of its own, and a copy of it joins, under an id of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from nacre.bridges.queueing.waiting import same_sender
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.ledger import Ledger
from nacre.runtime.ledger.records import Received

COPY_MARK = "#steered"
"""Stands behind the id of a message's copy."""


class Joining:
    """Those of all turns. `hand_in` says something into a turn, `waiting` is what waits in a session, and
    `put` puts a message there."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        hand_in: Callable[[Received, Inbound], bool],
        waiting: Callable[[str], Sequence[Received]],
        put: Callable[[Received], None],
    ) -> None:
        self._ledger = ledger
        self._hand_in = hand_in
        self._waiting = waiting
        self._put = put
        self._joined: dict[int, list[Received]] = {}

    async def steer(self, received: Received, running: Sequence[Received]) -> None:
        """Says a message into the turn that answers `running`, or puts it behind it."""
        await self._ledger.join(received, running[0].number)
        joined = replace(received, turn=running[0].number, has_joined=True)
        if self._hand_in(joined, received.inbound):
            self._joined.setdefault(joined.turn, []).append(joined)
        else:
            await self.put_back([joined])

    def copy_in(self, received: Received) -> None:
        """Says a copy of a message, which waits itself, into the turn that runs."""
        self._hand_in(received, _copy(received.inbound))

    def ids(self, batch: Sequence[Received]) -> tuple[str, ...]:
        """What may have joined a turn that was begun before."""
        joined = [received.inbound for received in self._candidates(batch)]
        copies = [_copy(received.inbound) for received in self._waiting(batch[0].session_key)]
        return tuple(inbound.inbound_id for inbound in (*joined, *copies))

    def end(
        self, batch: Sequence[Received], heard: Collection[str]
    ) -> tuple[tuple[Received, ...], list[Received]]:
        """What joined a turn that is over, and what did not after all."""
        candidates = self._candidates(batch)
        self._joined.pop(batch[0].number, None)
        joined = [received for received in candidates if received.inbound.inbound_id in heard]
        return tuple(joined), [received for received in candidates if received not in joined]

    async def put_back(self, apart: Sequence[Received]) -> None:
        """Has messages that joined nothing wait for a turn of their own."""
        if apart:
            await self._ledger.part(apart)
        for received in apart:
            self._put(replace(received, turn=0, has_joined=False, was_begun=False, attempts=0))

    def _candidates(self, batch: Sequence[Received]) -> list[Received]:
        joined = [received for received in batch if received.has_joined]
        return [*joined, *self._joined.get(batch[0].number, ())]


def may_join(received: Received, running: Sequence[Received]) -> bool:
    """Whether a message may be said into a turn: to nobody else's, for its rights are those of who asked."""
    return bool(running) and same_sender(received.inbound, running[-1].inbound)


def _copy(inbound: Inbound) -> Inbound:
    return replace(inbound, message_id=f"{inbound.message_id}{COPY_MARK}")
