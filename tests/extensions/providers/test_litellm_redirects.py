"""A provider that sends requests on to another server gets no further with litellm's clients either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from nacre.extensions.providers.litellm import LiteLLMModel
from nacre.runtime.contracts.errors import BadModelReply
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt
from nacre.runtime.models.scripted import Clock
from nacre.sessions.contracts.messages import AssistantMessage, message_text, user_message
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

HELLO = ModelRequest(system=SystemPrompt(stable=""), messages=(user_message("Hello", timestamp_ms=1),))


@asynccontextmanager
async def answering(head: str, heard: list[str]) -> AsyncIterator[int]:
    """A server that answers whatever it is asked with this head, and keeps the paths; gives its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        heard.append(asked.decode("latin-1").split(" ")[1])
        writer.write(f"HTTP/1.1 {head}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("status", ["302 Found", "307 Temporary Redirect"])
@pytest.mark.parametrize(
    "name",
    [
        "openai/test-model",
        "anthropic/claude-sonnet-4-5",
        "gemini/gemini-2.5-pro",
        "groq/llama-3.1-8b-instant",
        "ollama_chat/llama3",
        "cohere_chat/command-r",
    ],
)
async def test_neither_conversation_nor_key_goes_to_another_host(name: str, status: str) -> None:
    """Whatever client litellm has for the provider; the sentence names both addresses."""
    here: list[str] = []
    elsewhere: list[str] = []
    async with (
        answering("200 OK", elsewhere) as other,
        answering(f"{status}\r\nlocation: http://localhost:{other}/v1?key=x", here) as port,
    ):
        model = LiteLLMModel(
            name, base_url=f"http://127.0.0.1:{port}", api_key="sk-test", now_ms=Clock().now_ms
        )
        with pytest.raises(BadModelReply) as caught:
            async with aclosing(model):
                assert [item async for item in model.stream(HELLO)]
    assert len(here) == 1
    assert elsewhere == []
    assert f"http://localhost:{other}/v1." in str(caught.value)


async def test_another_path_of_the_same_server_is_asked() -> None:
    """A provider may move its own paths."""
    async with ProviderServer() as server:
        server.add(wire.Step(status=308, headers={"location": "/moved/chat/completions"}), wire.reply("Hi"))
        model = LiteLLMModel(
            "openai/test-model", base_url=server.url, api_key="sk-test", now_ms=Clock().now_ms
        )
        async with aclosing(model):
            message = [item async for item in model.stream(HELLO)][-1]
    assert isinstance(message, AssistantMessage)
    assert message_text(message) == "Hi"
    assert len(server.requests) == 2
