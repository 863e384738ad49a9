"""A loopback server that re-ranks as Cohere, Jina, vLLM and text-embeddings-inference do, by shared words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tests.extensions.providers.json_service import JsonService


class RerankServer(JsonService):
    """Gives each text the share of the question's words that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[dict[str, Any]] = []

    async def respond(self, request: web.Request) -> Any:
        """The texts' scores."""
        asked = await request.json()
        self.requests.append(asked)
        return _answer(asked)


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
