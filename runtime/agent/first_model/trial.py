"""One call of a model, before it is chosen: whether it answers, and what that cost. Edge."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from nacre.prompts import render
from nacre.record import Record
from nacre.runtime.agent.first_model.key_places import Key
from nacre.runtime.agent.opening.open_models import connected_model
from nacre.runtime.contracts.clock import epoch_ms, owner_zone, system_clock
from nacre.runtime.contracts.errors import AgentError
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt
from nacre.runtime.settings.sections.models import ModelsSettings, ProviderSettings
from nacre.sessions.contracts.messages import AssistantMessage, user_message

if TYPE_CHECKING:
    from nacre.runtime.settings.config import Config
    from nacre.sessions.contracts.messages import Usage

MAX_OUTPUT_TOKENS = 1024
"""Enough for a model that thinks before it says a word."""


class Trial(Record):
    """What came of it: `problem` is a sentence, empty when the model answered."""

    model_name: str
    seconds: float = 0.0
    usage: Usage | None = None
    problem: str = ""

    @property
    def told(self) -> str:
        """A sentence for the owner."""
        if self.problem:
            return f"{self.model_name} did not answer: {self.problem}"
        return f"{self.model_name} answered in {self.seconds:.1f} s: {_spent(self.usage)}."


async def tried(config: Config, model_name: str, key: Key | None) -> Trial:
    """Asks a model for one word, with the key in place of the settings' if one is given."""
    now = system_clock(owner_zone(None))
    started = time.monotonic()
    usage = None
    try:
        model = connected_model(_with_key(config, model_name, key), model_name, now)
        try:
            request = ModelRequest(
                system=SystemPrompt(stable=""),
                messages=(user_message(render("session/trial"), timestamp_ms=epoch_ms(now())),),
                max_output_tokens=MAX_OUTPUT_TOKENS,
            )
            async for item in model.stream(request):
                if isinstance(item, AssistantMessage):
                    usage = item.usage
        finally:
            await model.aclose()
    except AgentError as error:
        return Trial(model_name=model_name, problem=str(error))
    return Trial(model_name=model_name, seconds=time.monotonic() - started, usage=usage)


def _with_key(config: Config, model_name: str, key: Key | None) -> Config:
    if key is None or not key.secret:
        return config
    providers = dict(config.settings.models.providers)
    provider = model_name.partition("/")[0]
    providers[provider] = providers.get(provider, ProviderSettings()).model_copy(
        update={"api_key": key.secret}
    )
    models = ModelsSettings(providers=providers)
    return replace(config, settings=config.settings.model_copy(update={"models": models}))


def _spent(usage: Usage | None) -> str:
    if usage is None:
        return "it did not say how many tokens that took"
    tokens = f"{usage.context_tokens} tokens"
    return f"{tokens}, ${usage.cost_usd:.6f}" if usage.cost_usd else f"{tokens}, no price known"
