"""`/health`: that the server answers, and nothing else, for whoever watches it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response


async def health(_request: Request) -> Response:
    """Says that the server answers."""
    return JSONResponse({"status": "ok"})
