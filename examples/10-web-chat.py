"""A web chat with users, groups and history in an app of your own. `--serve` serves it on port 8000."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request

from nacre import Runtime
from nacre.web import chat_router

GROUPS = {"chess": {"ann", "bob"}}


def signed_in(request: Request) -> str | None:
    return request.headers.get("x-user")  # in your app: a session or a token


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None]:
    async with Runtime.open(instructions="Be brief.") as runtime:
        router = chat_router(runtime, user=signed_in, groups=lambda user, name: user in GROUPS.get(name, ()))
        app.mount("/chat", router)
        yield


app = Starlette(lifespan=lifespan)

if __name__ == "__main__":
    if "--serve" in sys.argv:
        uvicorn.run(app, port=8000)
    print("curl -H 'x-user: ann' --json '{\"text\": \"hi\"}' localhost:8000/chat/messages")
