"""A loopback service that answers everything that is posted with JSON, or as a test wishes."""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aiohttp import web

from tests.servers.loopback_http import LoopbackHttp


@contextmanager
def usage_folder(folder: Path | None) -> Iterator[Path]:
    """The folder for what calls cost; one of its own where a test does not look into it."""
    with TemporaryDirectory() as own:
        yield folder or Path(own)


class JsonService(LoopbackHttp):
    """`answer` replaces the answers: a status and a text; `location` sends them elsewhere.

    With `holds` it takes requests and says nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []
        self.headers: list[Mapping[str, str]] = []
        self.answer: tuple[int, str] | None = None
        self.location = ""
        self.holds = False

    @abstractmethod
    async def respond(self, request: web.Request) -> Any:
        """Keeps what was asked, and gives what it is answered."""

    def routes(self, app: web.Application) -> None:
        """Everything that is posted."""
        app.router.add_post("/{path:.*}", self._posted)

    async def _posted(self, request: web.Request) -> web.StreamResponse:
        answer = await self.respond(request)
        self.paths.append(request.path)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.tell()
        if self.holds:
            await asyncio.Event().wait()
        if self.location:
            return web.Response(status=307, headers={"location": self.location})
        status, text = self.answer or (200, json.dumps(answer))
        return web.Response(status=status, text=text, content_type="application/json")
