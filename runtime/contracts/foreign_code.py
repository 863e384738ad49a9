"""Runs code of the owner or of an extension at start-up, for a limited time.

A thread cannot be ended from outside. Code that takes too long is left behind on a daemon thread, and its
later effects must not count: pass it objects of its own, and use them only when `run_foreign` returns.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

LOAD_SECONDS = 10.0
"""How long one file or extension may take to load."""

T = TypeVar("T")


class ForeignCodeFailed(Exception):
    """Foreign code raised an exception or took too long; the message says which."""


def run_foreign(function: Callable[[], T], name: str, *, seconds: float = LOAD_SECONDS) -> T:
    """Calls a function on a thread of its own and returns its result.

    `KeyboardInterrupt` and `SystemExit` are failures like others.

    Raises:
        ForeignCodeFailed: it raised an exception, which is the cause, or did not return within `seconds`.
    """
    results: list[T] = []
    failures: list[BaseException] = []
    context = contextvars.copy_context()

    def run() -> None:
        try:
            results.append(context.run(function))
        except BaseException as error:  # noqa: BLE001 - whatever foreign code raises is its own
            failures.append(error)

    thread = threading.Thread(target=run, name=f"loading {name}", daemon=True)
    thread.start()
    thread.join(seconds)
    if failures:
        raise ForeignCodeFailed(f"{type(failures[0]).__name__}: {failures[0]}") from failures[0]
    if not results:
        raise ForeignCodeFailed(f"it did not load within {seconds:.15g} seconds")
    return results[0]
