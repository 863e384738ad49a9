"""How signals end a command or, where it asks for that, do not."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from nacre.cli.signals import on_interrupt, run_until_signal


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_work_after_its_clean_up(number: signal.Signals) -> None:
    """The work is cancelled, cleans up to its end, and the exit code names the signal."""
    steps: list[str] = []

    async def work() -> int:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("closed")
        return 0

    assert run_until_signal(work()) == 128 + number
    assert steps == ["closed"]


def test_work_that_ends_gives_its_own_code() -> None:
    """Without a signal the code is the work's."""

    async def work() -> int:
        return 3

    assert run_until_signal(work()) == 3


def test_a_terminal_that_went_away_is_no_failure_of_its_own() -> None:
    """After SIGHUP writing fails; the exit code still names the signal."""

    async def work() -> int:
        try:
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise OSError(5, "Input/output error") from None
        return 0

    assert run_until_signal(work()) == 128 + signal.SIGHUP


def test_the_first_ctrl_c_stops_the_turn_and_the_second_leaves() -> None:
    """While a turn runs, Ctrl-C calls its stop; if that does not help, one more ends the program."""
    stops: list[str] = []

    async def work() -> int:
        stopped = asyncio.Event()

        def stop() -> None:
            stops.append("stop")
            stopped.set()

        with on_interrupt(stop):
            os.kill(os.getpid(), signal.SIGINT)
            await stopped.wait()
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        return 0

    before = signal.getsignal(signal.SIGINT)
    assert run_until_signal(work(), interruptible=False) == 130
    assert stops == ["stop"]
    assert signal.getsignal(signal.SIGINT) is before
