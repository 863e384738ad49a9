"""From one member of the ledger to another: who was let in, what is due, what came in and goes out.

What two programs wrote on their own is not mixed: a target is replaced only while it has nothing of its own.
"""

from __future__ import annotations

from nacre.bridges.ledger.contracts.contents import Contents, MovableLedger
from nacre.records.record import Record


class CopiedLedger(Record):
    """What both have after a copy, and sentences about what was not copied."""

    source: Contents
    target: Contents
    problems: tuple[str, ...] = ()


async def copy_ledger(source: MovableLedger, target: MovableLedger) -> CopiedLedger:
    """Copies all of it in one transaction of the target, unless the target went on by itself.

    Raises:
        LedgerUnusable: one of them refused; then the target is as it was.
    """
    found, there = await source.contents(), await target.contents()
    if found.is_empty or found.checksum == there.checksum == there.copied:
        return CopiedLedger(source=found, target=found)
    if not may_replace(found, there):
        problem = (
            "The ledger of the channels was written to in both since they last were the same; the target's "
            "stays. Go on with the one there, or move it away to have this one: docs/postgres.md says how."
        )
        return CopiedLedger(source=found, target=there, problems=(problem,))
    await target.replace(found)
    return CopiedLedger(source=found, target=await target.contents())


def may_replace(source: Contents, target: Contents) -> bool:
    """Whether nothing is lost: the target is empty, as it was brought in, or what the source came from."""
    return target.is_empty or target.checksum in (target.copied, source.copied, source.checksum)


def is_left_behind(here: Contents, *, copied: str) -> bool:
    """Whether a ledger that is not chosen has what neither came from another member, nor went to the chosen
    one; `copied` is the checksum of what was brought there last."""
    return not here.is_empty and here.checksum not in (here.copied, copied)
