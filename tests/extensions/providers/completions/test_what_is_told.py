"""What the owner is told of a failure beyond its kind: what to start, and the provider's own words."""

from __future__ import annotations

import contextlib

import pytest

from nacre.extensions.providers.openai_compatible.model import OpenAICompatibleModel
from nacre.runtime.contracts.errors import BadModelReply, ModelNotRunning
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt
from nacre.runtime.models.failover import stream_with_retries
from nacre.runtime.models.scripted import Clock
from nacre.sessions.contracts.messages import user_message
from tests.servers.provider_server import ProviderServer


async def test_nothing_listens_on_this_machine() -> None:
    """Told with the address and what to start; asking again would not mend it, so nobody does."""
    async with ProviderServer() as server:
        address = server.url
    model = OpenAICompatibleModel("ollama/qwen3", base_url=address, api_key=None, now_ms=Clock().now_ms)
    request = ModelRequest(system=SystemPrompt(stable="s"), messages=(user_message("Hello", timestamp_ms=1),))
    retries: list[str] = []

    async def no_sleep(_seconds: float) -> None:
        raise AssertionError("it was asked again")

    async with contextlib.aclosing(model):
        with pytest.raises(ModelNotRunning, match="ollama serve") as raised:
            async for _ in stream_with_retries(
                model, request, sleep=no_sleep, on_retry=lambda *told: retries.append(str(told))
            ):
                pass

    assert address in str(raised.value)
    assert retries == []


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        (
            '{"error": {"message": "Unsupported value: \'temperature\'", "code": 1}}',
            "Unsupported value: 'temperature'",
        ),
        ('OpenAIException - {"error": "model not found"}', "model not found"),
        ('{"message": "no such route"}', "no such route"),
        ("All connection attempts failed", ""),
        ("{broken", ""),
        ('{"error": {"code": 7}}', ""),
    ],
)
def test_what_the_provider_wrote(detail: str, words: str) -> None:
    """Its own message out of what it sent; nothing where it wrote none."""
    assert BadModelReply("A sentence.", detail=detail).provider_words == words
