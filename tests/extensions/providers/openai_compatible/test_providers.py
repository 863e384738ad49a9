"""Who is asked over plain HTTP, and where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.providers.litellm import LiteLLMModel
from nacre.extensions.providers.openai_compatible.model import OpenAICompatibleModel, dialect_of
from nacre.extensions.providers.openai_compatible.providers import Endpoint, resolve_endpoint
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.models.scripted import Clock
from nacre.runtime.providers.opening import connected_model
from nacre.runtime.settings.config import load_config
from tests.runtime.agents import write_settings

ELSEWHERE = {"baseUrl": "https://models.example.com/v1"}


def way(tmp_path: Path, name: str, **provider: str) -> type[object]:
    """The way to a model with these settings of its provider."""
    write_settings(tmp_path, {"models": {"providers": {name.partition("/")[0]: provider}}})
    config = load_config({"HOME": str(tmp_path)}, state_dir=tmp_path)
    return type(connected_model(config, name, Clock()))


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("openai/gpt-4o", {}),
        ("openai/gpt-5-mini", {}),
        ("openai/nobody-knows", {}),
        ("openai/gpt-5.5", ELSEWHERE),
        ("openrouter/anthropic/claude-sonnet-4", {}),
        ("ollama/llama3", {}),
        ("hosted_vllm/qwen", {}),
        ("lm_studio/qwen", {}),
        ("deepseek/deepseek-chat", {}),
        ("groq/llama-3.3-70b-versatile", {}),
        ("mistral/mistral-large-latest", {}),
        ("gemini/gemini-2.5-pro", {}),
        ("gemini/gemini-2.5-pro", {"baseUrl": "https://models.example.com/v1beta/openai"}),
        ("hive/queen", ELSEWHERE),
        ("anthropic/claude-sonnet-4-5", {**ELSEWHERE, "api": "openai-completions"}),
    ],
)
def test_who_speaks_chat_completions_is_asked_over_plain_http(
    tmp_path: Path, name: str, provider: dict[str, str]
) -> None:
    """By name, or because the settings say where it is, or because they say how."""
    assert way(tmp_path, name, **provider) is OpenAICompatibleModel


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("anthropic/claude-sonnet-4-5", {}),
        ("anthropic/claude-sonnet-4-5", ELSEWHERE),
        ("gemini/gemini-2.5-pro", ELSEWHERE),
        ("azure/my-deployment", ELSEWHERE),
        ("hive/queen", {}),
        ("openai/gpt-5-codex", {}),
        ("openai/gpt-5.5", {}),
        ("openai/responses/gpt-4o", {}),
        ("openai/gpt-4o", {"api": "litellm"}),
        ("openai/gpt-4o", {"api": "openai-responses"}),
    ],
)
def test_all_others_are_asked_through_litellm(tmp_path: Path, name: str, provider: dict[str, str]) -> None:
    """Other protocols, the Responses API, and whom the settings send there."""
    assert way(tmp_path, name, **provider) is LiteLLMModel


def test_a_way_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """A slip of the pen is told at the start."""
    with pytest.raises(ConfigError, match=r"models\.providers\.openai\.api"):
        way(tmp_path, "openai/gpt-4o", api="openai-completion")


def endpoint(name: str, base_url: str | None = None, **environment: str) -> Endpoint:
    """Where a model is asked in this environment."""

    def from_environment(*names: str) -> str | None:
        return next((environment[name] for name in names if name in environment), None)

    lookup: Callable[..., str | None] = from_environment
    return resolve_endpoint(name, base_url=base_url, api_key=None, from_environment=lookup)


@pytest.mark.parametrize(
    ("name", "base_url", "environment", "url"),
    [
        ("openai/x", None, {}, "https://api.openai.com/v1/chat/completions"),
        ("openai/x", None, {"OPENAI_BASE_URL": "http://a/v1/"}, "http://a/v1/chat/completions"),
        ("openai/x", "http://b", {"OPENAI_BASE_URL": "http://a/v1"}, "http://b/chat/completions"),
        ("openai/x", "http://b/v1/chat/completions", {}, "http://b/v1/chat/completions"),
        ("openai/x", "http://b/v1?version=2", {}, "http://b/v1/chat/completions?version=2"),
        ("ollama/x", None, {}, "http://localhost:11434/v1/chat/completions"),
        ("ollama/x", "http://box:11434", {}, "http://box:11434/v1/chat/completions"),
        ("ollama/x", "http://box:11434/v1", {}, "http://box:11434/v1/chat/completions"),
        ("mistral/x", "https://eu.example.com/", {}, "https://eu.example.com/v1/chat/completions"),
        ("gemini/x", None, {}, "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions"),
    ],
)
def test_where_a_model_is_asked(
    name: str, base_url: str | None, environment: Mapping[str, str], url: str
) -> None:
    """The settings' address, else the environment's, else the provider's own."""
    assert endpoint(name, base_url, **environment).url == url


def test_who_needs_a_key() -> None:
    """Providers at their own address do; servers of one's own get one if there is one."""
    assert endpoint("openai/x").needs_key
    assert not endpoint("openai/x", "http://b/v1").needs_key
    assert not endpoint("ollama/x").needs_key
    assert endpoint("openrouter/x/y", OR_API_KEY="b").api_key == "b"
    assert endpoint("openrouter/x/y", OR_API_KEY="b", OPENROUTER_API_KEY="a").api_key == "a"
    assert endpoint("hive/queen", "http://b/v1", HIVE_API_KEY="c").api_key == "c"


@pytest.mark.parametrize(
    ("name", "entry", "expected"),
    [
        ("openai/gpt-4o", {}, {"max_tokens_field": "max_tokens"}),
        ("openai/gpt-5-mini", {}, {"max_tokens_field": "max_completion_tokens"}),
        ("openai/o3", {}, {"max_tokens_field": "max_completion_tokens"}),
        ("hosted_vllm/gpt-5-like", {}, {"max_tokens_field": "max_tokens"}),
        ("openai/gpt-5.5", {}, {"options": (("reasoning_effort", "none"),)}),
        ("gemini/x", {}, {"signs_calls": True, "family": "google"}),
        ("openrouter/anthropic/claude-4", {}, {"takes_cache_marks": True, "family": "anthropic"}),
        ("deepseek/x", {}, {"takes_images": False}),
        ("deepseek/x", {"supports_vision": True}, {"takes_images": True}),
    ],
)
def test_how_a_model_wants_its_requests(
    name: str, entry: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    """The dialect follows from provider and model."""
    dialect = dialect_of(endpoint(name), entry)
    assert {field: getattr(dialect, field) for field in expected} == expected
