"""What plain HTTP brings with it: redirects, certificates, comments, bodies that are no stream."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.providers.openai_compatible.model import OpenAICompatibleModel
from nacre.runtime.contracts.errors import (
    BadModelReply,
    ContextOverflow,
    ModelAuthError,
    ModelError,
    ModelUnavailable,
    RateLimited,
)
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt
from nacre.runtime.models.scripted import Clock
from nacre.sessions.contracts.messages import AssistantMessage, Thinking, message_text, user_message
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

TLS = Path(__file__).parents[3] / "fixtures" / "tls"
HELLO = ModelRequest(system=SystemPrompt(stable="s"), messages=(user_message("Hello", timestamp_ms=1),))


@pytest.fixture
async def server() -> AsyncIterator[ProviderServer]:
    """A provider whose script must be used up."""
    async with ProviderServer() as server:
        yield server


def opened(base_url: str | None, name: str = "openai/test-model", **options: Any) -> OpenAICompatibleModel:
    """A model at that address."""
    return OpenAICompatibleModel(
        name, **{"base_url": base_url, "api_key": "sk-test", "now_ms": Clock().now_ms} | options
    )


async def answer(model: OpenAICompatibleModel) -> AssistantMessage:
    """The message of one request; the model is closed behind it."""
    async with contextlib.aclosing(model):
        message = [item async for item in model.stream(HELLO)][-1]
    assert isinstance(message, AssistantMessage)
    return message


def events(*chunks: dict[str, Any] | str, before: str = "") -> wire.Step:
    """A body of server-sent events as it stands."""
    texts = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    return wire.Step(body=before + "".join(f"data: {text}\n\n" for text in texts))


def said(text: str, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """A chunk with some text."""
    return {
        "id": "c",
        "choices": [{"index": 0, "delta": {"content": text, **delta}, "finish_reason": finish}],
    }


@pytest.mark.covers("ATT-17")
async def test_the_conversation_is_not_sent_to_another_host(server: ProviderServer) -> None:
    """A redirect to elsewhere is told, and the other server hears nothing."""
    async with ProviderServer() as other:
        for status in (301, 302, 307, 308):
            server.add(wire.Step(status=status, headers={"location": f"{other.url}/chat/completions?key=x"}))
            with pytest.raises(BadModelReply, match="The conversation was not sent there") as caught:
                await answer(opened(server.url))
            assert str(other.port) in str(caught.value)
            assert "key=x" not in str(caught.value)
        assert other.raw == []


async def test_a_redirect_on_the_same_server_is_followed(server: ProviderServer) -> None:
    """Another path of the very same server gets the same body; a circle of them ends."""
    server.add(wire.Step(status=308, headers={"location": "/moved/chat/completions"}), wire.reply("Hi"))
    assert message_text(await answer(opened(server.url))) == "Hi"
    assert server.requests[0] == server.requests[1]
    server.add(*[wire.Step(status=307, headers={"location": "/v1/chat/completions"})] * 4)
    with pytest.raises(BadModelReply, match="sends requests on"):
        await answer(opened(server.url))


@pytest.mark.covers("ATT-17")
async def test_a_certificate_that_cannot_be_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent, and the sentence speaks of the certificate; SSL_CERT_FILE helps, as it says."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"POST"):
            heard.append(head)
        writer.write(b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as listening:
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(BadModelReply, match="certificate that cannot be verified") as caught:
            await answer(opened(f"https://127.0.0.1:{port}/v1"))
        assert "the network" not in str(caught.value)
        assert heard == []
        monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "certificate.pem"))
        with pytest.raises(ModelAuthError):
            await answer(opened(f"https://127.0.0.1:{port}/v1"))
    assert len(heard) == 1


async def test_a_connection_that_the_server_closed_meanwhile_fails_nobody() -> None:
    """The request goes over a new one, once; who closes each time is told."""
    heard = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            for first in (True, False):
                head = await reader.readuntil(b"\r\n\r\n")
                if not head.startswith(b"POST"):
                    break
                heard += 1
                if not first or heard > 3:
                    break  # without a word
                size = next(
                    line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
                )
                await reader.readexactly(int(size.split(b":")[1]))
                body = json.dumps({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})
                writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        async with contextlib.aclosing(opened(url)) as model:
            for _ in range(2):
                answered = [item async for item in model.stream(HELLO)][-1]
                assert isinstance(answered, AssistantMessage)
                assert message_text(answered) == "Hi"
            with pytest.raises(ModelUnavailable):
                [item async for item in model.stream(HELLO)]
    assert heard == 5


async def test_https_where_http_is_spoken() -> None:
    """A handshake with a server that does not know TLS is told as that."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(BadModelReply, match=r"does not speak https.*http://"):
            await answer(opened(f"https://127.0.0.1:{port}/v1"))


async def test_comments_thoughts_and_what_comes_in_one_piece(server: ProviderServer) -> None:
    """Comments mean nothing; reasoning has two names; Mistral's parts are read; Groq's usage is found."""
    last = {**said("", "stop"), "x_groq": {"usage": {"prompt_tokens": 9, "completion_tokens": 3}}}
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "b"}]},
        {"type": "text", "text": "lo"},
    ]
    server.add(
        events(
            said("", reasoning="a"),
            said("Hel"),
            {"choices": [{"delta": {"content": parts}}]},
            last,
            "[DONE]",
            before=": PROCESSING\n\n",
        )
    )
    message = await answer(opened(server.url))
    assert message_text(message) == "Hello"
    assert [block.thinking for block in message.content if isinstance(block, Thinking)] == ["ab"]
    assert message.usage is not None
    assert (message.usage.input_tokens, message.usage.output_tokens) == (9, 3)


async def test_a_stream_that_ends_without_a_finish_reason(server: ProviderServer) -> None:
    """`[DONE]` ends an answer; a stream that just stops, or that has no words, was cut."""
    server.add(events(said("All of it."), "[DONE]"))
    message = await answer(opened(server.url))
    assert (message_text(message), message.stop_reason) == ("All of it.", "stop")
    for step in (events(said("Half an")), events("[DONE]")):
        server.add(step)
        with pytest.raises(ModelUnavailable):
            await answer(opened(server.url))


async def test_a_server_that_does_not_stream(server: ProviderServer) -> None:
    """A whole completion is an answer too."""
    whole = wire.whole(
        wire.tool_calls(("read", {"path": "a"}), ("list", {}), text="Well"), {"messages": []}, 1
    )
    server.add(wire.Step(body=json.dumps(whole, indent=2)))
    message = await answer(opened(server.url))
    assert message_text(message) == "Well"
    assert [call.name for call in message.tool_calls] == ["read", "list"]
    assert message.stop_reason == "toolUse"


@pytest.mark.parametrize(
    ("chunk", "kind"),
    [
        ({"error": {"message": "Rate limit reached", "code": 429}}, RateLimited),
        ({"error": {"message": "slow down", "type": "rate_limit_error"}}, RateLimited),
        ({"error": {"message": "maximum context length is 8192", "code": 400}}, ContextOverflow),
        ({"error": {"message": "Provider disconnected", "code": 502}}, ModelUnavailable),
        ({"error": "out of memory"}, ModelUnavailable),
        ("{not json", ModelUnavailable),
        ("[1]", ModelUnavailable),
        (said("", "error"), ModelUnavailable),
    ],
)
async def test_an_error_in_the_middle_of_an_answer(
    server: ProviderServer, chunk: dict[str, Any] | str, kind: type[ModelError]
) -> None:
    """What comes behind the first words as an error, or as nothing that can be read, is a failure."""
    server.add(events(said("Half an"), chunk))
    with pytest.raises(ModelError) as caught:
        await answer(opened(server.url))
    assert type(caught.value) is kind
    assert str(caught.value).endswith(".")


async def test_an_error_under_a_success(server: ProviderServer) -> None:
    """A body that is an error counts as one, whatever its status."""
    server.add(wire.Step(body='{"error": {"message": "Incorrect API key provided", "code": 401}}'))
    with pytest.raises(ModelAuthError):
        await answer(opened(server.url))


async def test_comments_keep_a_waiting_request_alive() -> None:
    """A provider that says that it is still there may take longer than the stall time-out to begin."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: wait\n\n"
        )
        await writer.drain()
        await asyncio.sleep(0.3)
        step = events(said("Here"), said("", "stop"), "[DONE]")
        writer.write(step.body.encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        message = await answer(opened(url, stall_timeout_seconds=0.1, request_timeout_seconds=5))
    assert message_text(message) == "Here"


async def keep_alive(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    asked: set[object],
    at_once: asyncio.Barrier,
    closed: asyncio.Condition,
) -> None:
    """Serves a connection until it is hung up. Connections with a request under `asked` while they last."""
    body = events(said("Hi", "stop"), "[DONE]").body.encode()
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while (head := await reader.readuntil(b"\r\n\r\n")).startswith(b"POST"):  # else about its window
            asked.add(writer)
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
            await reader.readexactly(int(length.split(b":")[1]))
            await at_once.wait()
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            writer.write(b"%x\r\n%b\r\n" % (len(body), body))
            await writer.drain()
            writer.write(b"0\r\n\r\n")
            await writer.drain()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    async with closed:
        asked.discard(writer)
        closed.notify_all()


@pytest.mark.parametrize(("at_once", "kept"), [(1, 1), (20, 8)])
async def test_connections_stay_open_but_not_many(at_once: int, kept: int) -> None:
    """The end of a stream is read, so that the next request needs no new handshake; after many requests at
    once, the connections that are no longer needed are closed."""
    asked: set[object] = set()
    barrier, closed = asyncio.Barrier(at_once), asyncio.Condition()
    async with await asyncio.start_server(
        lambda reader, writer: keep_alive(reader, writer, asked, barrier, closed), "127.0.0.1", 0
    ) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        async with contextlib.aclosing(opened(url)) as model, asyncio.timeout(20):

            async def ask() -> list[object]:
                return [item async for item in model.stream(HELLO)]

            for _ in range(3):
                assert all(await asyncio.gather(*(ask() for _ in range(at_once))))
            async with closed:
                await closed.wait_for(lambda: len(asked) <= kept)
                assert asked
        async with closed:
            await closed.wait_for(lambda: not asked)


async def test_a_proxy_is_not_asked_for_this_machine(
    server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no way here; for other hosts httpx takes it from the environment."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    server.reply("Hi")
    assert message_text(await answer(opened(server.url))) == "Hi"


async def test_keys_and_headers(server: ProviderServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings' key goes before the environment's; own servers need none; OpenRouter hears who asks."""
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-of-the-environment")
    monkeypatch.setenv("OR_APP_NAME", "Hive")
    for _ in range(3):
        server.reply("Hi")
    await answer(opened(server.url, "openrouter/x/y"))
    await answer(opened(server.url, "openrouter/x/y", api_key=None))
    await answer(opened(server.url, "ollama/llama3", api_key=None))
    first, second, third = (head.lower() for head in server.raw)
    assert b"authorization: bearer sk-test\r\n" in first
    assert b"x-title: hive" in first
    assert b"authorization: bearer sk-of-the-environment\r\n" in second
    assert b"authorization" not in third
    assert [request["model"] for request in server.requests] == ["x/y", "x/y", "llama3"]
    assert [request.get("usage") for request in server.requests] == [{"include": True}] * 2 + [None]


@pytest.mark.parametrize("key", [None, "two\nlines", "sch\xfcssel"])
async def test_a_key_that_is_missing_or_cannot_be_sent(
    monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    """It is told before anything is asked, and never quoted."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelAuthError, match="The key for the model 'openai/gpt-4o'") as caught:
        await answer(opened(None, "openai/gpt-4o", api_key=key))
    assert key is None or key not in str(caught.value)


async def test_a_provider_without_an_address() -> None:
    """Nobody is asked, and the sentence names the setting."""
    with pytest.raises(ModelError, match=r"models\.providers\.hive\.baseUrl"):
        await answer(opened(None, "hive/queen"))
