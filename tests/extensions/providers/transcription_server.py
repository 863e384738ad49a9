"""A loopback server that writes recordings down as OpenAI does: it repeats the bytes that it was sent."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tests.extensions.providers.json_service import JsonService


class TranscriptionServer(JsonService):
    """`forms` are the fields of each request, the recording as `file` and its name as `file_name`.

    `told` is what else it answers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[dict[str, str]] = []
        self.told: dict[str, object] = {}

    async def respond(self, request: web.Request) -> Any:
        """The recording as text."""
        form: dict[str, str] = {}
        for name, value in (await request.post()).items():
            if isinstance(value, web.FileField):
                with value.file as file:
                    form |= {"file": file.read().decode(), "file_name": value.filename}
            else:
                form[name] = str(value)
        self.forms.append(form)
        return {"text": form["file"], **self.told}
