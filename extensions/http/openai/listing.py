"""`/v1/models` and `/v1/embeddings`."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nacre.extensions.http.openai.answers import error_json
from nacre.extensions.http.openai.asking import PLAIN, Talks, asked_agent
from nacre.extensions.http.openai.wire import BadRequest, EmbeddingsRequest, body_of
from nacre.memory.contracts.embedder import Embedder, EmbeddingFailed
from nacre.runtime.extensions.service import caller_of

MOST_TEXTS = 2048
"""As OpenAI takes at once."""


async def list_models(talks: Talks, request: Request) -> Response:
    """The ids that this token may ask: its agent, and that agent's model alone."""
    agent_id = caller_of(request.scope).agent_id
    names = (agent_id, f"{agent_id}/{PLAIN}") if agent_id in talks.agents else ()
    return JSONResponse({"object": "list", "data": [_model(name) for name in names]})


async def one_model(talks: Talks, request: Request) -> Response:
    """One of them. Raises `BadRequest`."""
    name = str(request.path_params["model"])
    asked_agent(talks.agents, request, name)
    return JSONResponse(_model(name))


async def create_embeddings(embedders: Mapping[str, Embedder], request: Request) -> Response:
    """Vectors by the agent's embedder. Raises `BadRequest`."""
    asked = await body_of(request, EmbeddingsRequest)
    agent_id = caller_of(request.scope).agent_id
    embedder = embedders.get(agent_id)
    if embedder is None:
        raise BadRequest(
            "This agent searches its notes without an embedder, so there is none to ask.", "model"
        )
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    if not 0 < len(texts) <= MOST_TEXTS or not all(texts):
        raise BadRequest(f"`input` is one text, or a list of 1 to {MOST_TEXTS}; none may be empty.", "input")
    try:
        vectors = await embedder.embed_documents(texts)
    except EmbeddingFailed as error:
        return JSONResponse(error_json(str(error), "server_error"), status_code=502)
    if asked.dimensions is not None and any(len(vector) != asked.dimensions for vector in vectors):
        raise BadRequest(f"These vectors have {len(vectors[0])} numbers and no other length.", "dimensions")
    as_text = asked.encoding_format == "base64"
    data = [
        {
            "object": "embedding",
            "index": place,
            "embedding": _packed(vector) if as_text else list(map(float, vector)),
        }
        for place, vector in enumerate(vectors)
    ]
    # Tokens are not counted: whoever embeds here pays nobody by them.
    usage = {"prompt_tokens": 0, "total_tokens": 0}
    model = embedder.facts.model
    return JSONResponse({"object": "list", "data": data, "model": model, "usage": usage})


def _packed(vector: Any) -> str:
    """The numbers as OpenAI packs them: 32 bits each, the low byte first, in base64."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "nacre"}
