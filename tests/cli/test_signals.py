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


def test_ctrl_c_acts_each_time_and_never_ends_the_work() -> None:
    """While it is taken, Ctrl-C calls what it is for, as often as it is pressed; then it is what it was."""
    stops: list[str] = []

    async def work() -> int:
        pressed = asyncio.Event()

        def stop() -> None:
            stops.append("stop")
            pressed.set()

        with on_interrupt(stop):
            for _ in range(3):
                pressed.clear()
                os.kill(os.getpid(), signal.SIGINT)
                await pressed.wait()
        return 0

    before = signal.getsignal(signal.SIGINT)
    assert run_until_signal(work(), interruptible=False) == 0
    assert stops == ["stop"] * 3
    assert signal.getsignal(signal.SIGINT) is before
