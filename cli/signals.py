"""Runs a command's coroutine until it is done or a signal ends it. The only file that handles signals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

INTERRUPTED = 128 + signal.SIGINT
_ENDINGS = (signal.SIGTERM, signal.SIGHUP)


def run_until_signal(
    work: Coroutine[Any, Any, int], *, interruptible: bool = True, reads_only: bool = False
) -> int:
    """Runs `work` and returns its exit code, or 128 + n if signal n cancelled it.

    SIGTERM and SIGHUP always end it; SIGINT does unless `interruptible` is off, for work that
    handles Ctrl-C itself. `work` is cancelled, so that its clean-up runs. Work that `reads_only` has nothing
    to clean up: a signal ends the process at once, whatever its threads still read or count.
    """
    endings = (*_ENDINGS, signal.SIGINT) if interruptible else _ENDINGS
    return asyncio.run(_guarded(work, endings, reads_only=reads_only))


async def _guarded(
    work: Coroutine[Any, Any, int], endings: tuple[signal.Signals, ...], *, reads_only: bool
) -> int:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    received: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        if reads_only:
            os._exit(128 + number)
        received.append(number)
        # A second Ctrl-C ends the clean-up, but a SIGHUP after a SIGTERM must not.
        if len(received) == 1 or number is signal.SIGINT:
            task.cancel()

    for number in endings:
        loop.add_signal_handler(number, end, number)
    try:
        return await work
    except asyncio.CancelledError:
        return 128 + received[0] if received else INTERRUPTED
    except OSError:
        # After a SIGHUP, the terminal is gone, so that output fails.
        if not received:
            raise
        return 128 + received[0]


def run_until_asked(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Runs work with an event that is set when SIGTERM, SIGHUP or SIGINT asks it to end.

    A second SIGTERM or SIGINT ends the process at once, as a kill does.
    """

    async def guarded() -> None:
        asked, loop = asyncio.Event(), asyncio.get_running_loop()

        def ask(number: signal.Signals) -> None:
            if asked.is_set() and number is not signal.SIGHUP:
                os._exit(128 + number)
            asked.set()

        for number in (*_ENDINGS, signal.SIGINT):
            loop.add_signal_handler(number, ask, number)
        await work(asked)

    asyncio.run(guarded())


@contextlib.contextmanager
def on_interrupt(act: Callable[[], object]) -> Iterator[None]:
    """In this block, Ctrl-C calls `act` in the event loop instead of ending the program."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, act)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
