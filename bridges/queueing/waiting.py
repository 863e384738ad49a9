"""Messages that wait for a turn: which are answered together, and what a model reads of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.records import Received
from nacre.runtime.settings.sections.channels import QueueMode

COLLECTED = "[Queued messages while agent was busy]"
COLLECTING: tuple[QueueMode, ...] = ("collect", "steer", "steer-backlog")
"""Modes in which what waits is answered together."""
SUMMARY_LINE_CHARS = 160
WORDLESS = "(files or forwarded words)"
MOST_ATTEMPTS = 3
"""A message over which the program ended so often is not tried again."""


def next_batch(
    waiting: Sequence[Received], mode: QueueMode, *, cap: int, is_alone: Callable[[Received], bool]
) -> tuple[Received, ...]:
    """The messages that are answered next, as one turn: the oldest, and what goes with it.

    Messages go together in `COLLECTING` modes while they come from the same person in the same place, and so
    do the oldest of too many, which are shown as lines. A command `is_alone`; a turn that was begun
    stays as it was.
    """
    first, together = waiting[0], 1
    if first.was_begun:
        return tuple(received for received in waiting if received.was_begun and received.turn == first.turn)
    if is_alone(first):
        return (first,)
    for received in waiting[1:]:
        if received.was_begun or is_alone(received) or not same_sender(received.inbound, first.inbound):
            break
        together += 1
    most = together if mode in COLLECTING else 1 + max(0, min(together, len(waiting)) - cap)
    return tuple(waiting[:most])


def composed(batch: Sequence[Received], *, cap: int) -> Inbound:
    """A batch as one message, which has the last one's id. Of more than `cap` the oldest are lines."""
    if len(batch) == 1:
        return batch[0].inbound
    dropped, kept = batch[: max(0, len(batch) - cap)], batch[max(0, len(batch) - cap) :]
    blocks = [f"---\nQueued #{number}\n{received.inbound.text}" for number, received in enumerate(kept, 1)]
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
    """What a model reads of messages that were too many."""
    lines = [f"- {_shortened(received.inbound.text) or WORDLESS}" for received in dropped]
    head = f"[Queue overflow] Dropped {len(dropped)} message(s) due to cap."
    return "\n".join([head, "Summary:", *lines])


def same_sender(one: Inbound, other: Inbound) -> bool:
    """Whether two messages are of the same person, with the same rights, in the same place; what nobody said
    is nobody's."""
    return _sender(one) == _sender(other)


def _sender(inbound: Inbound) -> tuple[object, ...]:
    return (
        inbound.channel,
        inbound.account,
        inbound.chat_kind,
        inbound.chat_id,
        inbound.thread_id,
        inbound.sender_id,
        inbound.is_owner,
        inbound.trigger,
    )


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SUMMARY_LINE_CHARS else line[: SUMMARY_LINE_CHARS - 1].rstrip() + "…"
