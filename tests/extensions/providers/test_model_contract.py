"""The models that Nacre ships keep the contract of the model door."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from nacre.extensions.providers.litellm import LiteLLMModel
from nacre.extensions.providers.openai_compatible.model import OpenAICompatibleModel
from nacre.runtime.contracts.errors import RateLimited
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, fails, says
from tests.runtime.models.contract.model_contract import Answer, FailingModelContract
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

NOTES = [("append", {"text": "boat"}), ("append", {"text": "Halcyon"})]


class TestScriptedModel(FailingModelContract):
    """The strict model for bot authors' tests."""

    @asynccontextmanager
    async def opened(self, answers: Sequence[Answer]) -> AsyncIterator[ChatModel]:
        """Scripts the answers."""
        steps = {
            "text": says("I am a script."),
            "calls": calls(*NOTES, text="Noting."),
            "failure": fails(RateLimited("The script says so."), after_text="I was"),
        }
        model = ScriptedModel(*(steps[answer] for answer in answers))
        yield model
        model.assert_complete()


class _OverHttp(FailingModelContract):
    """A model that asks a loopback provider."""

    model: type[LiteLLMModel] | type[OpenAICompatibleModel]

    @asynccontextmanager
    async def opened(self, answers: Sequence[Answer]) -> AsyncIterator[ChatModel]:
        """Scripts the answers on a loopback provider."""
        steps = {
            "text": wire.reply("I am a loopback provider."),
            "calls": wire.tool_calls(*NOTES, text="Noting."),
            "failure": wire.error(429, retry_after=1),
        }
        async with ProviderServer() as server:
            server.add(*(steps[answer] for answer in answers))
            model = self.model(
                "openai/test-model", base_url=server.url, api_key="sk-test", now_ms=Clock().now_ms
            )
            yield model
            await model.aclose()


class TestLiteLLMModel(_OverHttp):
    """The litellm edge."""

    model = LiteLLMModel


class TestOpenAICompatibleModel(_OverHttp):
    """The edge over plain HTTP."""

    model = OpenAICompatibleModel
