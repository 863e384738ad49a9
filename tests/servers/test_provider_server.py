"""The loopback provider itself: strict about its script, and exact about bytes."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer


def post(server: ProviderServer, path: str, body: dict[str, Any], key: str = "k") -> dict[str, Any]:
    """One JSON request; HTTP errors raise."""
    request = urllib.request.Request(
        server.url + path, json.dumps(body).encode(), {"authorization": f"Bearer {key}"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


def test_an_answer_in_one_piece_and_the_bytes_that_asked() -> None:
    """Without `stream` the answer is one object, and the request is kept byte for byte."""
    with ProviderServer() as server:
        server.tool_calls(("read", {"path": "a"}), text="So")
        answer = post(server, "/chat/completions", {"messages": [{"role": "user", "content": "Grüße"}]})
    message = answer["choices"][0]["message"]
    assert message["content"] == "So"
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"path": "a"}
    assert server.requests[0]["messages"][0]["content"] == "Grüße"
    assert b"Gr\\u00fc\\u00dfe" in server.raw[0]


def test_requests_and_steps_must_match() -> None:
    """A request without a step and a step without a request both fail at the end."""

    def too_many_requests() -> None:
        with ProviderServer() as server, pytest.raises(urllib.error.HTTPError):
            post(server, "/chat/completions", {})

    def too_many_steps() -> None:
        with ProviderServer() as server:
            server.reply("x")

    with pytest.raises(AssertionError, match="no scripted step"):
        too_many_requests()
    with pytest.raises(AssertionError, match="not used"):
        too_many_steps()


def test_a_responder_answers_what_no_step_does() -> None:
    """After its steps a server asks its responder, which sees the request."""
    with ProviderServer(responder=lambda request: wire.reply(f"about {request['model']}")) as server:
        server.reply("first")
        texts = [
            post(server, "/chat/completions", {"model": "m"})["choices"][0]["message"]["content"]
            for _ in range(3)
        ]
    assert texts == ["first", "about m", "about m"]


def test_embeddings_put_shared_words_near() -> None:
    """The same text has the same vector, shared words bring texts near, and a failure can be asked for."""
    with ProviderServer() as server:
        server.fail_embeddings(500)
        with pytest.raises(urllib.error.HTTPError):
            post(server, "/embeddings", {"input": ["x"]})
        data = post(server, "/embeddings", {"input": ["red boat", "boat red", "red car", "tax form"]})["data"]
    first, again, near, far = (item["embedding"] for item in data)

    def likeness(one: list[float], other: list[float]) -> float:
        return sum(a * b for a, b in zip(one, other, strict=True))

    assert first == again
    assert likeness(first, first) == pytest.approx(1)
    assert likeness(first, near) > likeness(first, far)


def test_a_wrong_key_is_refused() -> None:
    """With an expected key every other one gets a 401 and uses up no step."""
    with ProviderServer(expected_key="right") as server:
        server.reply("in")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            post(server, "/chat/completions", {}, key="wrong")
        assert post(server, "/chat/completions", {}, key="right")
