"""A server over HTTP whose tools give far too much, as JSON, as an event, or packed."""

from __future__ import annotations

import gzip
import json
from typing import Any

from aiohttp import web

from tests.servers.loopback_http import LoopbackHttp

PIECE = b"x" * 65_536
NAMES = ("json", "event", "packed", "small")


class EndlessHttp(LoopbackHttp):
    """Use it as `with EndlessHttp() as server`. `sent_bytes` is the most that one answer had."""

    def __init__(self) -> None:
        super().__init__()
        self.sent_bytes = 0

    def routes(self, app: web.Application) -> None:
        """One address for all of the protocol."""
        app.router.add_post("/mcp", self._asked)

    async def _asked(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if "id" not in asked:
            return web.Response(status=202)
        match asked["method"]:
            case "initialize":
                version, info = asked["params"]["protocolVersion"], {"name": "endless", "version": "1"}
                return _said(
                    asked, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
                )
            case "tools/list":
                marks = {"inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
                return _said(asked, {"tools": [{"name": name, **marks} for name in NAMES]})
            case "tools/call":
                return await self._called(request, asked, asked["params"]["name"])
        error = {"code": -32601, "message": "Method not found"}
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "error": error})

    async def _called(self, request: web.Request, asked: dict[str, Any], name: str) -> web.StreamResponse:
        if name == "small":
            return _said(asked, {"content": [{"type": "text", "text": "small"}]})
        if name == "packed":
            whole = {"content": [{"type": "text", "text": "x" * 50_000_000}]}
            data = gzip.compress(
                json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": whole}).encode(), 1
            )
            headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
            return web.Response(body=data, headers=headers)
        kind = "application/json" if name == "json" else "text/event-stream"
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(request)
        await response.write(b'data: {"jsonrpc": "2.0", "result": "' if name == "event" else b'{"result": "')
        sent = 0
        try:
            while sent < 400_000_000:
                await response.write(PIECE)
                sent += len(PIECE)
        except ConnectionError:
            pass
        self.sent_bytes = max(self.sent_bytes, sent)
        return response


def _said(asked: dict[str, Any], result: dict[str, Any]) -> web.Response:
    return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "result": result})
