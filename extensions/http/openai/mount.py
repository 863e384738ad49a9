"""`openai_mount`: the addresses of OpenAI's protocol, for clients that speak it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nacre.extensions.http.openai.answers import error_json, failure_of
from nacre.extensions.http.openai.asking import Talks
from nacre.extensions.http.openai.completions import chat_completions
from nacre.extensions.http.openai.listing import create_embeddings, list_models, one_model
from nacre.extensions.http.openai.responses import create_response
from nacre.extensions.http.openai.wire import BadRequest
from nacre.memory.contracts.embedder import Embedder
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.errors import AgentError
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.extensions.service import HttpMount
from nacre.sessions.contracts.errors import SessionError

Answer = Callable[[Request], Awaitable[Response]]

log = logging.getLogger(__name__)


def openai_mount(
    agents: Mapping[str, Agent], embedders: Mapping[str, Embedder], *, now: Clock, new_id: NewId
) -> HttpMount:
    """The mount to these agents by their ids; `embedders` has those of agents that have one."""
    talks = Talks(agents, now=now, new_id=new_id)
    routes = [
        Route("/chat/completions", _told(partial(chat_completions, talks)), methods=["POST"]),
        Route("/responses", _told(partial(create_response, talks)), methods=["POST"]),
        Route("/models", _told(partial(list_models, talks)), methods=["GET"]),
        Route("/models/{model:path}", _told(partial(one_model, talks)), methods=["GET"]),
        Route("/embeddings", _told(partial(create_embeddings, embedders)), methods=["POST"]),
    ]
    return HttpMount(path="/v1", routes=routes)


def _told(answer: Answer) -> Answer:
    """What cannot be answered is an error in the protocol's shape."""

    async def answered(request: Request) -> Response:
        try:
            return await answer(request)
        except BadRequest as error:
            return JSONResponse(error_json(str(error), parameter=error.parameter), status_code=error.status)
        except AgentError as error:
            status, body = failure_of(error)
            return JSONResponse(body, status_code=status)
        except SessionError as error:
            log.error("a session cannot be used: %s", error)
            return JSONResponse(error_json(str(error), "server_error"), status_code=503)

    return answered
