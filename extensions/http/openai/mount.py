"""The mount of OpenAI's protocol, with `/v1/models` and `/v1/embeddings`."""

from __future__ import annotations

import base64
import logging
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nacre.extensions.http.openai.completions import chat_completions, error_json, failure_response
from nacre.extensions.http.openai.conversations import PLAIN, Conversations, requested_model
from nacre.extensions.http.openai.requests import BadRequest, EmbeddingsRequest, body_of
from nacre.extensions.http.openai.responses import create_response
from nacre.memory.contracts.embedder import Embedder, EmbeddingFailed
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.errors import AgentError
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.extensions.service import HttpMount, caller_of
from nacre.sessions.contracts.errors import SessionError

MOST_TEXTS = 2048
"""OpenAI's limit."""
Handler = Callable[[Request], Awaitable[Response]]
log = logging.getLogger(__name__)


async def list_models(conversations: Conversations, request: Request) -> Response:
    """The model IDs of this token: its agent, and that agent's model alone."""
    agent_id = caller_of(request.scope).agent_id
    names = (agent_id, f"{agent_id}/{PLAIN}") if agent_id in conversations.agents else ()
    return JSONResponse({"object": "list", "data": [_model(name) for name in names]})


async def one_model(conversations: Conversations, request: Request) -> Response:
    """One model. Raises `BadRequest`."""
    name = str(request.path_params["model"])
    requested_model(conversations.agents, request, name)
    return JSONResponse(_model(name))


async def create_embeddings(embedders: Mapping[str, Embedder], request: Request) -> Response:
    """Vectors of the agent's embedder. Raises `BadRequest`."""
    body = await body_of(request, EmbeddingsRequest)
    agent_id = caller_of(request.scope).agent_id
    embedder = embedders.get(agent_id)
    if embedder is None:
        raise BadRequest("This agent has no embedder.", "model")
    texts = [body.input] if isinstance(body.input, str) else body.input
    if not 0 < len(texts) <= MOST_TEXTS or not all(texts):
        raise BadRequest(
            f"`input` must be a text or a list of 1 to {MOST_TEXTS} texts, none of them empty.", "input"
        )
    try:
        vectors = await embedder.embed_documents(texts)
    except EmbeddingFailed as error:
        return JSONResponse(error_json(str(error), "server_error"), status_code=502)
    if body.dimensions is not None and any(len(vector) != body.dimensions for vector in vectors):
        raise BadRequest(
            f"The model's vectors have {len(vectors[0])} dimensions; no other length is available.",
            "dimensions",
        )
    as_base64 = body.encoding_format == "base64"
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": _packed(vector) if as_base64 else list(map(float, vector)),
        }
        for index, vector in enumerate(vectors)
    ]
    # Tokens are not counted: nobody is billed by them here.
    usage = {"prompt_tokens": 0, "total_tokens": 0}
    model = embedder.facts.model
    return JSONResponse({"object": "list", "data": data, "model": model, "usage": usage})


def _packed(vector: Any) -> str:
    """The numbers as OpenAI encodes them: 32-bit floats, little-endian, in base64."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "nacre"}


def openai_mount(
    agents: Mapping[str, Agent], embedders: Mapping[str, Embedder], *, now: Clock, new_id: NewId
) -> HttpMount:
    """The mount for these agents, by ID. `embedders` has an entry for each agent with an embedder."""
    conversations = Conversations(agents, now=now, new_id=new_id)
    handlers: Sequence[tuple[str, str, Handler]] = (
        ("POST", "/chat/completions", partial(chat_completions, conversations)),
        ("POST", "/responses", partial(create_response, conversations)),
        ("GET", "/models", partial(list_models, conversations)),
        ("GET", "/models/{model:path}", partial(one_model, conversations)),
        ("POST", "/embeddings", partial(create_embeddings, embedders)),
    )
    routes = [
        Route(path, _with_protocol_errors(handler), methods=[method]) for method, path, handler in handlers
    ]
    return HttpMount(path="/v1", routes=routes)


def _with_protocol_errors(handler: Handler) -> Handler:
    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except BadRequest as error:
            return JSONResponse(error_json(str(error), parameter=error.parameter), status_code=error.status)
        except AgentError as error:
            status, failure = failure_response(error)
            return JSONResponse(failure, status_code=status)
        except SessionError as error:
            log.error("a session cannot be used: %s", error)
            return JSONResponse(error_json(str(error), "server_error"), status_code=503)

    return handle
