"""Code of others at the opening: its result, its failures, and an end when it has none."""

from __future__ import annotations

import threading

import pytest

from nacre.runtime.contracts.foreign_code import ForeignCodeFailed, run_foreign


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_a_result_comes_back() -> None:
    """Also one that is `None`."""
    assert run_foreign(lambda: 5, "five") == 5
    assert run_foreign(lambda: None, "none") is None


def test_what_hangs_or_ends_the_program_is_a_failure() -> None:
    """`KeyboardInterrupt` ends nothing, and a hang ends with its time."""
    with pytest.raises(ForeignCodeFailed, match="KeyboardInterrupt"):
        run_foreign(_interrupt, "interrupt")
    never = threading.Event()
    with pytest.raises(ForeignCodeFailed, match=r"0\.05 seconds"):
        run_foreign(never.wait, "never", seconds=0.05)
    never.set()
