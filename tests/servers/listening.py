"""How a server of the tests ends without leaving a connection behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from socket import socket


async def hear_nobody(sockets: Iterable[socket]) -> None:
    """Takes no more connections, and lets those begin that were taken already.

    A server of asyncio that is closed between the two leaves a connection open that nobody knows: Python 3.11
    fails in `Server._attach`, behind which the connection would have been made.
    """
    loop = asyncio.get_running_loop()
    for listening in sockets:
        loop.remove_reader(listening.fileno())
    for _step in range(5):
        await asyncio.sleep(0)
