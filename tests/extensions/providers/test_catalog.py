"""Which models a new owner is shown."""

from __future__ import annotations

import asyncio

import pytest

from nacre.extensions.providers.catalog import (
    LOCAL_SERVERS,
    SUGGESTED,
    found_choices,
    key_variables,
    keyed_choices,
    offered_models,
)
from nacre.extensions.providers.completions.price_map import price_map_entry
from nacre.extensions.providers.openai_compatible.providers import PROVIDERS
from tests.servers.provider_server import ProviderServer


@pytest.mark.parametrize("model_name", SUGGESTED.values())
def test_suggested_models_are_known_and_can_call_tools(model_name: str) -> None:
    """litellm's price map has each, except for OpenRouter's, which chooses by itself."""
    entry = price_map_entry(model_name)

    assert key_variables(model_name)
    assert entry.get("supports_function_calling") or model_name.startswith("openrouter/")


def test_a_key_brings_its_model_by_any_of_its_names() -> None:
    """Blank values are no keys; a server of one's own and a cloud's login need none."""
    environment = {"ANTHROPIC_API_KEY": "sk", "GOOGLE_API_KEY": "g", "OPENAI_API_KEY": " "}

    assert [choice.place for choice in keyed_choices(environment)] == [
        "key in ANTHROPIC_API_KEY",
        "key in GOOGLE_API_KEY",
    ]
    assert key_variables("ollama/qwen3") == key_variables("vertex_ai/gemini") == ()


async def test_a_provider_lists_what_talks_the_newest_first() -> None:
    """After the suggested model; what paints, speaks or moderates is left out."""
    async with ProviderServer(models=["gpt-5.1"]) as server:
        dated = [
            ("gpt-4o", 2),
            ("whisper-1", 9),
            ("gpt-image-1", 9),
            ("gpt-6", 5),
            ("gpt-5-mini", 1),
            ("tts-1", 8),
        ]
        server.facts = {"/v1/models": {"data": [{"id": name, "created": at} for name, at in dated]}}
        status, choices = await offered_models("openai", {"OPENAI_BASE_URL": server.url}, "sk")

    assert status == 200
    assert [choice.model_name for choice in choices] == ["openai/gpt-5-mini", "openai/gpt-6", "openai/gpt-4o"]


async def test_without_an_answer_the_known_models_are_listed() -> None:
    """The highest version first, each once: no dated copies, and no bases for fine-tuning."""
    status, choices = await offered_models("openai", {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, "sk")
    names = [choice.model_name.removeprefix("openai/") for choice in choices]

    assert (status, names[0]) == (0, "gpt-5-mini")
    assert names.index("gpt-5.2") < names.index("gpt-4.1") < names.index("gpt-3.5-turbo")
    assert not [name for name in names if "ft:" in name or "audio" in name or name.endswith("2025-04-14")]


async def _greets(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What listens at the port speaks another protocol, and goes."""
    writer.write(b"220 mail.example ESMTP\r\n")
    await writer.drain()
    writer.close()


async def test_only_servers_of_this_machine_are_looked_for() -> None:
    """An address that leads elsewhere is not asked, and what answers otherwise is no server of models."""
    addresses = {PROVIDERS[name].base_url_variables[0]: "http://192.0.2.1/v1" for name in LOCAL_SERVERS}
    async with ProviderServer(models=["qwen3", "bge-m3"]) as server:
        found = await found_choices({**addresses, "OLLAMA_API_BASE": server.url.removesuffix("/v1")})
    async with await asyncio.start_server(_greets, "127.0.0.1") as other:
        port = other.sockets[0].getsockname()[1]
        elsewhere = await found_choices({**addresses, "OLLAMA_API_BASE": f"http://127.0.0.1:{port}"})

    assert [(choice.model_name, choice.place) for choice in found] == [
        ("ollama/qwen3", "Ollama on this machine")
    ]
    assert elsewhere == ()
