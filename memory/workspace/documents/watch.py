"""A watch over a workspace in a database: its number of writes, asked for again and again.

The server could tell by itself (LISTEN), for the price of a connection of its own for each agent, which no
pooler between hands on and a restart would drop. One row that is read each second needs neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from nacre.memory.workspace.documents.rows import DocumentRows, Moment

LOOK_SECONDS = 1.0


class RevisionWatch:
    """`NoteWatch` (its methods are described there) that looks each second. It begins with the running loop.

    While the database cannot be reached that is its problem; afterwards it tells what it missed.
    """

    def __init__(self, rows: DocumentRows, changed: Callable[[], None]) -> None:
        self._rows = rows
        self._changed = changed
        self.problem = ""
        self._looking = asyncio.get_running_loop().create_task(self._look())

    async def close(self) -> None:
        self._looking.cancel()
        with suppress(asyncio.CancelledError):
            await self._looking

    async def _look(self) -> None:
        seen: int | None = None
        while True:
            try:
                revision = await self._rows.single(Moment.revision)
            except OSError as error:
                self.problem = f"changes of the workspace are not seen: {error}"
            else:
                self.problem = ""
                if revision != seen:  # the first look counts: it may be later than a change
                    self._changed()
                seen = revision
            await asyncio.sleep(LOOK_SECONDS)
