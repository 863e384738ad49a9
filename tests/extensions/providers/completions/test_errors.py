"""What a provider's failure becomes: through HTTP where it makes a difference, else from its words."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from nacre.extensions.providers.completions.errors import (
    CallFacts,
    ProviderAnswered,
    classify,
    is_overflow,
    key_variable,
    redacted,
    retry_after_seconds,
)
from nacre.extensions.providers.litellm import LiteLLMModel
from nacre.extensions.providers.openai_compatible.model import OpenAICompatibleModel
from nacre.runtime.contracts.errors import (
    BadModelReply,
    ContextOverflow,
    ModelAuthError,
    ModelError,
    ModelTimedOut,
    ModelUnavailable,
    NoCredit,
    RateLimited,
    RequestRefused,
)
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt
from nacre.runtime.models.scripted import Clock
from nacre.sessions.contracts.messages import user_message
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

KEY = "my-own-secret-key-0123"
CLOCK = Clock()
FACTS = CallFacts(
    model_name="openai/test-model", api_base=None, secrets=(KEY,), now_seconds=CLOCK.now_ms() / 1000
)


WAYS = (LiteLLMModel, OpenAICompatibleModel)


async def failure(
    step: wire.Step, way: type[LiteLLMModel] | type[OpenAICompatibleModel] = OpenAICompatibleModel
) -> ModelError:
    """The error of one request that is answered with this step."""
    request = ModelRequest(system=SystemPrompt(stable="s"), messages=(user_message("Hello", timestamp_ms=1),))
    async with ProviderServer() as server:
        server.add(step)
        model = way("openai/test-model", base_url=server.url, api_key=KEY, now_ms=CLOCK.now_ms)
        async with contextlib.aclosing(model):
            try:
                raise AssertionError([item async for item in model.stream(request)])
            except ModelError as error:
                return error


@pytest.mark.parametrize(
    ("step", "kind", "words"),
    [
        (wire.error(401, f"Incorrect API key provided: {KEY}"), ModelAuthError, "OPENAI_API_KEY"),
        (wire.error(403, "forbidden"), ModelAuthError, "refused"),
        (wire.error(402, "Payment required"), NoCredit, "no credit"),
        (
            wire.error(429, "You exceeded your current quota", code="insufficient_quota"),
            NoCredit,
            "credit",
        ),
        (wire.error(429), RateLimited, "Wait a moment"),
        (wire.error(500), ModelUnavailable, "HTTP 500"),
        (wire.error(503, "Overloaded"), ModelUnavailable, "overloaded"),
        (wire.overflow(), ContextOverflow, "context window"),
        (wire.error(413, "Payload Too Large"), ContextOverflow, "compacted"),
        (wire.error(400, "messages[1].role is odd"), BadModelReply, "malformed"),
        (wire.error(404, "The model does not exist"), BadModelReply, "does not know the model"),
        (wire.error(400, "image dimensions exceed max allowed size: 8000 pixels"), RequestRefused, "smaller"),
        (wire.error(400, "registry.ollama.ai/library/phi3 does not support tools"), RequestRefused, "deny"),
    ],
)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.covers("A17-5")
async def test_http_failures_become_typed_sentences(
    way: type[LiteLLMModel] | type[OpenAICompatibleModel],
    step: wire.Step,
    kind: type[ModelError],
    words: str,
) -> None:
    """Each answer has its kind and a sentence that names the model; the key appears nowhere."""
    error = await failure(step, way)
    assert type(error) is kind
    assert words in str(error)
    assert "openai/test-model" in str(error)
    assert str(error).endswith(".")
    assert KEY not in str(error) + error.detail


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (400, "`tool calling` is not supported with this model"),
        (400, "Function calling is not enabled for this model"),
        (404, "No endpoints found that support tool use. Try disabling a tool."),
        (500, "tools param requires --jinja flag"),
    ],
)
def test_a_model_without_tools_is_told_with_the_setting_that_helps(status: int, text: str) -> None:
    """Each server says it in its own words and under its own status; asking again would not help."""
    error = classify(ProviderAnswered(status, {}, text), FACTS)
    assert type(error) is RequestRefused
    assert """nacre config set agents.defaults.tools.deny '["*"]'""" in str(error)


def test_a_model_that_the_provider_does_not_know_is_told_with_the_nearest_one() -> None:
    """A slip in a name that only the provider can judge; nothing is guessed about a server of the owner's."""
    unknown = type("NotFoundError", (Exception,), {"status_code": 404})("no such model")
    assert "Did you mean openai/gpt-5-mini?" in str(
        classify(unknown, replace(FACTS, model_name="openai/gpt-5-mni"))
    )
    assert "Did you mean" not in str(classify(unknown, replace(FACTS, model_name="desk/gpt-5-mni")))


@pytest.mark.covers("ATT-17")
async def test_a_web_page_is_no_answer() -> None:
    """The sentence says what answered and where to look; litellm does not show what it was."""
    page = wire.Step(body="<html>It works!</html>")
    error = await failure(page)
    assert type(error) is BadModelReply
    assert "answered with a web page" in str(error)
    assert "models.providers.openai.baseUrl" in str(error)
    error = await failure(page, LiteLLMModel)
    assert type(error) is ModelUnavailable
    assert "contains no answer" in str(error)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed",
            "certificate",
            "SSL_CERT",
        ),
        ("[SSL] record layer failure (_ssl.c:1006)", "does not speak https", "http://"),
    ],
)
def test_a_failed_handshake_is_not_the_network(text: str, kind: str, words: str) -> None:
    """Asking again does not help, and nothing was sent; the sentence says what may."""
    error = classify(OSError(text), FACTS)
    assert type(error) is BadModelReply
    assert kind in str(error)
    assert words in str(error)
    assert "network," not in str(error)


@pytest.mark.covers("ATT-17")
def test_a_refused_key_is_looked_for_where_it_came_from() -> None:
    """A key of the settings is changed in the settings; another one in the environment."""
    refused = ProviderAnswered(401, {}, "no")
    in_settings = str(classify(refused, replace(FACTS, key_is_configured=True)))
    assert "models.providers.openai.apiKey in nacre.json5" in in_settings
    assert "models.providers" not in str(classify(refused, FACTS))


async def test_retry_after_is_read_as_seconds_and_as_a_date() -> None:
    """Both forms of the header give the seconds to wait."""
    date = format_datetime(CLOCK().astimezone(UTC) + timedelta(seconds=90), usegmt=True)
    for value, seconds in ((7, 7), ("1.5", 1.5), (date, 90)):
        error = await failure(wire.error(429, retry_after=value))
        assert isinstance(error, RateLimited)
        assert error.retry_after_seconds == seconds


class Refusal(Exception):
    """A provider's failure with these headers."""

    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__()
        self.headers = headers


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After-Ms": "1500", "Retry-After": "9"}, 1.5),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
def test_a_wait_is_exact_and_never_less_than_none(headers: dict[str, str], seconds: float | None) -> None:
    """Milliseconds go before seconds, and a moment that has passed is no wait."""
    assert retry_after_seconds([Refusal(headers)], "", CLOCK().timestamp()) == seconds


async def test_a_wait_in_words_is_read_too() -> None:
    """Without a header the provider's sentence counts, and nonsense in the header does not."""
    for words, seconds in (
        ("Please try again in 20s.", 20),
        ("Please try again in 250ms.", 0.25),
        ("Later.", None),
    ):
        error = await failure(wire.error(429, words, retry_after="soon"))
        assert isinstance(error, RateLimited)
        assert error.retry_after_seconds == seconds


@pytest.mark.parametrize(
    "text",
    [
        "prompt is too long: 213462 tokens > 200000 maximum",
        "input is too long for requested model",
        "Your input exceeds the context window of this model",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
        "Please reduce the length of the messages or completion",
        "This endpoint's maximum context length is 131072 tokens",
        "prompt token count of 128765 exceeds the limit of 128000 tokens",
        "the request exceeds the available context size, try increasing it",
        "tokens to keep from the initial prompt is greater than the context length",
        "invalid params, context window exceeds limit",
        "Your request exceeded model token limit: 262144",
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        "token limit exceeded",
        "request_too_large: Request exceeds the maximum size",
    ],
)
@pytest.mark.covers("A10-12", "A11-12")
def test_each_providers_words_for_overflow(text: str) -> None:
    """Anthropic, Bedrock, OpenAI, Google, xAI, Groq, OpenRouter, Copilot, llama.cpp, LM Studio and others."""
    assert is_overflow(text)
    assert isinstance(classify(RuntimeError(text), FACTS), ContextOverflow)


@pytest.mark.parametrize(
    "text",
    [
        "Rate limit reached: too many tokens in the request per minute",
        "context window too small: the minimum is 16000 tokens",
        "Connection error.",
        "max_tokens must be at least 1",
        "",
    ],
)
@pytest.mark.covers("A10-12", "A11-12")
def test_what_only_looks_like_overflow(text: str) -> None:
    """Token rate limits, small configured windows and other failures do not compact a conversation."""
    assert not is_overflow(text)


@pytest.mark.covers("A11-12")
def test_a_throttled_request_is_not_too_large() -> None:
    """HTTP 429 in words that speak of tokens stays a rate limit, and a refused key stays one."""

    class RateLimitError(Exception):
        status_code = 429

    class AuthenticationError(Exception):
        status_code = 401

    throttled = RateLimitError("Rate limit: 30000 input tokens per minute; reduce the length of the messages")
    assert isinstance(classify(throttled, FACTS), RateLimited)
    assert isinstance(classify(AuthenticationError("maximum context length"), FACTS), ModelAuthError)


def test_causes_are_looked_at() -> None:
    """An exception that wraps the provider's is judged by the provider's."""

    class Timeout(Exception):
        pass

    wrapped = RuntimeError("it broke")
    wrapped.__cause__ = Timeout("timed out")
    error = classify(wrapped, FACTS)
    assert isinstance(error, ModelTimedOut)
    assert "did not answer in time" in str(error)


def test_key_variables() -> None:
    """The variable follows the provider's name, with the exceptions that litellm makes."""
    assert key_variable("openai/gpt-4o") == "OPENAI_API_KEY"
    assert key_variable("gpt-4o") == "OPENAI_API_KEY"
    assert key_variable("claude-sonnet-4-5") == "ANTHROPIC_API_KEY"
    assert key_variable("together_ai/x/y") == "TOGETHERAI_API_KEY"
    assert key_variable("openrouter/anthropic/claude-sonnet-4") == "OPENROUTER_API_KEY"


def test_anything_like_a_key_is_taken_out() -> None:
    """The configured key goes, and so do keys of known shapes that were never configured."""
    text = f"{KEY} sk-ant-api03-abcdefgh Bearer abc.def AIzaSyA1234567890 gsk_12345678 ask-me-anything"
    assert redacted(text, (KEY,)) == "[key] [key] [key] [key] [key] ask-me-anything"


def test_our_own_errors_pass_through() -> None:
    """What is typed already stays the same object."""
    error = BadModelReply("Withheld.")
    assert classify(error, FACTS) is error
    assert datetime.fromtimestamp(FACTS.now_seconds, UTC) == CLOCK()
