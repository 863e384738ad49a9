"""Decides which messages are answered together or join a running turn, and what the model reads of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from operator import attrgetter

from nacre.runtime.commands.wording import shortened
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.ledger import Ledger
from nacre.runtime.ledger.records import Received
from nacre.runtime.settings.sections.channels import QueueMode

COLLECTED = "[Queued messages while agent was busy]"
COLLECTING: tuple[QueueMode, ...] = ("collect", "steer", "steer-backlog")
"""The modes in which all waiting messages are answered together."""
SUMMARY_LINE_CHARS = 160
NO_TEXT = "(files or forwarded text)"
MAX_ATTEMPTS = 3
"""A message is given up after the program has ended this often while answering it."""

_SENDER = attrgetter(
    *("channel", "account", "chat_kind", "chat_id", "thread_id", "sender_id", "is_owner", "trigger")
)
COPY_SUFFIX = "#steered"
"""The suffix of the id of a message's copy."""


def next_batch(
    waiting: Sequence[Received], mode: QueueMode, *, cap: int, is_alone: Callable[[Received], bool]
) -> tuple[Received, ...]:
    """The messages to answer in the next turn: the oldest one and those that belong to it.

    In `COLLECTING` modes, messages of one sender in one place belong together. In the other modes, only
    messages above `cap` do, and the model reads them as short lines. A command is a batch alone (`is_alone`).
    The messages of a turn that has begun stay together.
    """
    first, count = waiting[0], 1
    if first.was_begun:
        return tuple(received for received in waiting if received.was_begun and received.turn == first.turn)
    if is_alone(first):
        return (first,)
    for received in waiting[1:]:
        if received.was_begun or is_alone(received) or not same_sender(received.inbound, first.inbound):
            break
        count += 1
    return tuple(waiting[: count if mode in COLLECTING else 1 + max(0, count - cap)])


def combined(batch: Sequence[Received], *, cap: int) -> Inbound:
    """A batch as one message with the id of the last one. The oldest messages above `cap` are shortened to
    lines.
    """
    if len(batch) == 1:
        return batch[0].inbound
    dropped, kept = batch[: max(0, len(batch) - cap)], batch[max(0, len(batch) - cap) :]
    texts = [received.inbound.text or NO_TEXT for received in kept]
    blocks = [f"---\nQueued #{number}\n{text}" for number, text in enumerate(texts, 1)]
    if dropped:
        blocks.insert(0, overflow_text(dropped))
    if len(kept) == 1:
        blocks[-1] = kept[0].inbound.text
    else:
        blocks.insert(0, COLLECTED)
    several = len(kept) > 1
    return replace(
        batch[-1].inbound,
        text="\n\n".join(blocks),
        attachments=tuple(file for received in kept for file in received.inbound.attachments),
        quoted=tuple(
            replace(quote, label=f"Queued #{number} {quote.label}".rstrip()) if several else quote
            for number, received in enumerate(kept, 1)
            for quote in received.inbound.quoted
        ),
        is_mentioned=any(received.inbound.is_mentioned for received in batch),
    )


def overflow_text(dropped: Sequence[Received]) -> str:
    """What the model reads of messages above the cap."""
    lines = [f"- {shortened(received.inbound.text, SUMMARY_LINE_CHARS) or NO_TEXT}" for received in dropped]
    head = f"[Queue overflow] Dropped {len(dropped)} message(s) due to cap."
    return "\n".join([head, "Summary:", *lines])


def same_sender(one: Inbound, other: Inbound) -> bool:
    """Whether two messages have the same sender, rights, place and trigger."""
    return bool(_SENDER(one) == _SENDER(other))


class Steering:
    """Messages that join a running turn, in the modes `steer` and `steer-backlog`.

    In `steer`, the ledger records that a message joins before the turn reads it. In `steer-backlog`, the
    message waits for its own turn, and a copy with its own id joins the running one.

    `join` adds a message to a turn, `waiting` returns a session's waiting messages, and `put` appends one to
    them.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        join: Callable[[Received, Inbound], bool],
        waiting: Callable[[str], Sequence[Received]],
        put: Callable[[Received], None],
    ) -> None:
        self._ledger = ledger
        self._join = join
        self._waiting = waiting
        self._put = put
        self._joined: dict[int, list[Received]] = {}

    async def steer(self, received: Received, running: Sequence[Received]) -> None:
        """Adds a message to the turn that answers `running`, or queues it after that turn."""
        await self._ledger.join(received, running[0].number)
        joined = replace(received, turn=running[0].number, has_joined=True)
        if self._join(joined, received.inbound):
            self._joined.setdefault(joined.turn, []).append(joined)
        else:
            await self.put_back([joined])

    def steer_copy(self, received: Received) -> None:
        """Adds a copy of a waiting message to the running turn."""
        self._join(received, _copy(received.inbound))

    def candidate_ids(self, batch: Sequence[Received]) -> tuple[str, ...]:
        """The ids of the messages that may have joined a turn before the program ended."""
        joined = [received.inbound for received in self._candidates(batch)]
        copies = [_copy(received.inbound) for received in self._waiting(batch[0].session_key)]
        return tuple(inbound.inbound_id for inbound in (*joined, *copies))

    async def end(self, batch: Sequence[Received], read_ids: Collection[str]) -> tuple[Received, ...]:
        """The messages that a finished turn has read, part of it until `forget`. The others are queued."""
        candidates = self._candidates(batch)
        joined = [received for received in candidates if received.inbound.inbound_id in read_ids]
        await self.put_back([received for received in candidates if received not in joined])
        self._joined[batch[0].number] = [received for received in joined if received not in batch]
        return tuple(joined)

    def forget(self, batch: Sequence[Received]) -> None:
        """Forgets what has joined a turn that is finished in the ledger, too."""
        self._joined.pop(batch[0].number, None)

    async def put_back(self, messages: Sequence[Received]) -> None:
        """Queues messages that joined no turn."""
        if messages:
            await self._ledger.part(messages)
        for received in messages:
            self._put(replace(received, turn=0, has_joined=False, was_begun=False, attempts=0, begins=False))

    def _candidates(self, batch: Sequence[Received]) -> list[Received]:
        joined = [received for received in batch if received.has_joined]
        return [*joined, *self._joined.get(batch[0].number, ())]


def may_join(received: Received, running: Sequence[Received]) -> bool:
    """Whether a message may join a turn: only if its sender, and so its rights, are the same."""
    return bool(running) and same_sender(received.inbound, running[-1].inbound)


def _copy(inbound: Inbound) -> Inbound:
    return replace(inbound, message_id=f"{inbound.message_id}{COPY_SUFFIX}")
