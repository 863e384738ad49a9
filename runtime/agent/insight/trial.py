"""Whether a model's server listens, and one call of a model: whether it answers, and what that cost. Edge."""

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
"""Enough for a model that thinks before it says a word."""


KeyPlace: TypeAlias = Literal["environment", "file", "keyring"]
"""The environment that Nacre is started in, the file `.env` of the state folder, the system's keyring."""


class Key(Record):
    """A key: the variable it is known by, what it is, and where it is to be kept."""

    variable: str
    secret: str = field(repr=False)
    place: KeyPlace

    @property
    def in_settings(self) -> str:
        """How the settings name it; empty where the provider finds it by itself."""
        return {
            "environment": "",
            "file": f"${{{self.variable}}}",
            "keyring": f"${{keyring:{self.variable}}}",
        }[self.place]


class Trial(Record):
    """What came of it: `problem` is a sentence, empty when the model answered."""

    model_name: str
    seconds: float = 0.0
    usage: Usage | None = None
    problem: str = ""
    is_key_refused: bool = False

    @property
    def told(self) -> str:
        """A sentence for the owner."""
        if self.problem:
            return f"{self.model_name} did not answer: {self.problem}"
        return f"{self.model_name} answered in {self.seconds:.1f} s: {_spent(self.usage)}."


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


async def tried(config: Config, model_name: str, key: Key | None, base_url: str = "") -> Trial:
    """Asks a model for one word, with the key and the address in place of the settings' if they are given."""
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


def _spent(usage: Usage | None) -> str:
    if usage is None:
        return "it did not say how many tokens that took"
    tokens = f"{usage.context_tokens} tokens"
    return f"{tokens}, ${usage.cost_usd:.6f}" if usage.cost_usd else tokens
