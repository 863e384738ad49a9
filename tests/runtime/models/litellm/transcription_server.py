"""A loopback server that writes recordings down as OpenAI does: it repeats the bytes that it was sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from aiohttp import web

from tests.servers.loopback_http import LoopbackHttp


class TranscriptionServer(LoopbackHttp):
    """`answer` replaces the answers: a status and a text. With `holds` it takes recordings and says nothing.

    `forms` are the fields of each request, the recording as `file` and its name as `file_name`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.headers: list[Mapping[str, str]] = []
        self.answer: tuple[int, str] | None = None
        self.location = ""
        self.holds = False

    def routes(self, app: web.Application) -> None:
        """Everything that is posted."""
        app.router.add_post("/{path:.*}", self._write_down)

    async def _write_down(self, request: web.Request) -> web.StreamResponse:
        form: dict[str, str] = {}
        for name, value in (await request.post()).items():
            if isinstance(value, web.FileField):
                with value.file as file:
                    form |= {"file": file.read().decode(), "file_name": value.filename}
            else:
                form[name] = str(value)
        self.forms.append(form)
        self.paths.append(request.path)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.tell()
        if self.holds:
            await asyncio.Event().wait()
        if self.location:
            return web.Response(status=307, headers={"location": self.location})
        status, text = self.answer or (200, json.dumps({"text": form["file"]}))
        return web.Response(status=status, text=text, content_type="application/json")
