"""Checks whether a model's server listens, and whether the model answers a trial call. Edge."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urlsplit

from nacre.prompts import render
from nacre.record import Record
from nacre.runtime.contracts.clock import epoch_ms, owner_zone, system_clock
from nacre.runtime.contracts.errors import AgentError, ModelAuthError, NoCredit
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt
from nacre.runtime.providers.opening import connected_model
from nacre.runtime.settings.sections.models import ModelsSettings, ProviderSettings
from nacre.sessions.contracts.messages import user_message

if TYPE_CHECKING:
    from nacre.runtime.settings.config import Config
    from nacre.sessions.contracts.messages import Usage

_PROBE_SECONDS = 2.0
MAX_OUTPUT_TOKENS = 1024
"""Enough for a model that reasons before it answers."""

KeyPlace: TypeAlias = Literal["environment", "file", "keyring"]
"""The environment of the process, the file `.env` of the state folder, or the system's keyring."""


class Key(Record):
    """An API key, the name of its variable, and where it is to be stored."""

    variable: str
    secret: str = field(repr=False)
    place: KeyPlace

    @property
    def in_settings(self) -> str:
        """The reference to it in the settings; empty if the provider finds it by itself."""
        return {
            "environment": "",
            "file": f"${{{self.variable}}}",
            "keyring": f"${{keyring:{self.variable}}}",
        }[self.place]


class Trial(Record):
    """The result of a trial call. `problem` is a sentence, empty when the model answered."""

    model_name: str
    seconds: float = 0.0
    usage: Usage | None = None
    problem: str = ""
    is_key_refused: bool = False

    @property
    def sentence(self) -> str:
        """A sentence for the owner."""
        if self.problem:
            return f"{self.model_name} did not answer: {self.problem}"
        cost = "it did not say how many tokens that took"
        if self.usage is not None:
            cost = f"{self.usage.context_tokens} tokens"
            cost += f", ${self.usage.cost_usd:.6f}" if self.usage.cost_usd else ""
        return f"{self.model_name} answered in {self.seconds:.1f} s: {cost}."


async def listens(address: str) -> bool:
    """Whether anything accepts connections at a model's address, within two seconds."""
    parts = urlsplit(address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


async def try_model(config: Config, model_name: str, key: Key | None, base_url: str = "") -> Trial:
    """Asks a model for one word. A key and an address replace those of the settings."""
    from nacre.runtime.models.failover import whole_answer

    now = system_clock(owner_zone(None))
    started = time.monotonic()
    try:
        async with aclosing(
            connected_model(_with(config, model_name, key, base_url), model_name, now)
        ) as model:
            request = ModelRequest(
                system=SystemPrompt(stable=""),
                messages=(user_message(render("session/trial"), timestamp_ms=epoch_ms(now())),),
                max_output_tokens=MAX_OUTPUT_TOKENS,
            )
            usage = (await whole_answer(model, request)).usage
    except AgentError as error:
        is_key_refused = isinstance(error, ModelAuthError) and not isinstance(error, NoCredit)
        return Trial(model_name=model_name, problem=str(error), is_key_refused=is_key_refused)
    return Trial(model_name=model_name, seconds=time.monotonic() - started, usage=usage)


def _with(config: Config, model_name: str, key: Key | None, base_url: str) -> Config:
    changes = {"api_key": key.secret} if key is not None and key.secret else {}
    changes |= {"base_url": base_url} if base_url else {}
    if not changes:
        return config
    providers = dict(config.settings.models.providers)
    provider = model_name.partition("/")[0]
    providers[provider] = providers.get(provider, ProviderSettings()).model_copy(update=changes)
    models = ModelsSettings(providers=providers)
    return replace(config, settings=config.settings.model_copy(update={"models": models}))
