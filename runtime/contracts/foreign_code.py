"""Run code of the owner or of an extension while the program opens, for a limited time.

A thread cannot be ended from outside. So what takes too long is left behind on a daemon thread, and what it
does later must not count: hand it objects of its own, and take them over only when `run_foreign` returns.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

LOAD_SECONDS = 10.0
"""So long one file or extension may take to load."""

T = TypeVar("T")


class ForeignCodeFailed(Exception):
    """Foreign code raised or took too long; the text says which."""


def run_foreign(function: Callable[[], T], name: str, *, seconds: float = LOAD_SECONDS) -> T:
    """Calls a function on a thread of its own and waits for its result.

    `KeyboardInterrupt` and `SystemExit` of the function are failures like others and end nothing.

    Raises:
        ForeignCodeFailed: it raised, or did not return within `seconds`. The cause is the exception.
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
