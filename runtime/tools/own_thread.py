"""A plain function of somebody else's, run beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TypeVar

R = TypeVar("R")


async def on_its_own_thread(work: Callable[[], R]) -> R:
    """What `work` gives. Work that hangs takes no thread from others and keeps no program from ending."""
    done: Future[R] = Future()
    done.set_running_or_notify_cancel()
    context = copy_context()

    def run() -> None:
        try:
            done.set_result(context.run(work))
        except StopIteration as error:
            # No future takes this one: whoever waits would wait for ever.
            done.set_exception(RuntimeError(f"it raised StopIteration({error})"))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
            done.set_exception(error)

    threading.Thread(target=run, name="tool", daemon=True).start()
    return await asyncio.wrap_future(done)
