"""A loopback server that re-ranks as Cohere, Jina, vLLM and text-embeddings-inference do, by shared words."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tests.servers.loopback_http import LoopbackHttp


class RerankServer(LoopbackHttp):
    """Gives each text the share of the question's words that it has.

    `answer` replaces the next answers: a status and a text. With `holds` it takes requests and says nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.headers: list[Mapping[str, str]] = []
        self.answer: tuple[int, str] | None = None
        self.location = ""
        self.holds = False

    def routes(self, app: web.Application) -> None:
        """Everything that is posted."""
        app.router.add_post("/{path:.*}", self._rerank)

    async def _rerank(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        self.requests.append(asked)
        self.paths.append(request.path)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.tell()
        if self.holds:
            await asyncio.Event().wait()
        if self.location:
            return web.Response(status=307, headers={"location": self.location})
        if self.answer is not None:
            status, text = self.answer
            return web.Response(status=status, text=text, content_type="application/json")
        return web.Response(text=json.dumps(_answer(asked)), content_type="application/json")


def _answer(asked: Mapping[str, Any]) -> Any:
    texts = asked.get("documents") or asked["texts"]
    scores = [(at, _share(asked["query"], text)) for at, text in enumerate(texts)]
    scores.sort(key=lambda score: -score[1])
    if "texts" in asked:  # as text-embeddings-inference says it
        return [{"index": at, "score": score} for at, score in scores]
    results = [{"index": at, "relevance_score": score} for at, score in scores]
    return {"id": "r-1", "model": asked["model"], "results": results, "usage": {"total_tokens": 10}}


def _share(question: str, text: str) -> float:
    words = set(re.findall(r"\w+", question.lower()))
    return len(words & set(re.findall(r"\w+", text.lower()))) / len(words)
