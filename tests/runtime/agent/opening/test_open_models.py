"""Which models an agent may ask: their order, their windows, and what is refused at the start."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent
from nacre.runtime.agent.opening.open_models import model_names, open_models
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.models.scripted import Clock, ScriptedModel
from nacre.runtime.models.tokenizer import estimate_tokens
from nacre.runtime.providers.opening import connected_model
from nacre.runtime.settings.config import load_config
from tests.runtime.agents import write_settings


async def no_sleep(seconds: float) -> None:
    raise AssertionError(f"slept {seconds}")


def config(state_dir: Path, model: Any, *, environment: dict[str, str] | None = None, **defaults: Any) -> Any:
    """The settings of a state folder with such an `agents.defaults.model`."""
    write_settings(state_dir, {"agents": {"defaults": {"model": model, **defaults}}})
    return load_config({"HOME": str(state_dir), **(environment or {})}, state_dir=state_dir)


def test_a_plain_name_and_a_choice_mean_the_same(tmp_path: Path) -> None:
    """Both forms are OpenClaw's."""
    assert model_names(config(tmp_path, "openai/a")) == ("openai/a",)
    assert model_names(config(tmp_path, {"primary": "openai/a"})) == ("openai/a",)


@pytest.mark.covers("A20-1")
def test_who_is_asked_in_which_order(tmp_path: Path) -> None:
    """The wanted model, the fallbacks, the settings' own; each once; a model for one run alone is alone."""
    choice = {"primary": "openai/a", "fallbacks": ["b/x", " ", "openai/a", "c/y"]}
    run = {"NACRE_MODEL": "d/z"}
    assert model_names(config(tmp_path, choice)) == ("openai/a", "b/x", "c/y")
    assert model_names(config(tmp_path, choice, environment=run)) == ("d/z", "b/x", "openai/a", "c/y")
    assert model_names(config(tmp_path, "openai/a", environment=run)) == ("d/z",)


def test_each_model_has_its_own_window(tmp_path: Path) -> None:
    """The owner's window holds for the first; a fallback with a smaller one keeps that."""
    choice = {"primary": "openai/gpt-4o", "fallbacks": ["openai/gpt-3.5-turbo"]}
    chosen = config(tmp_path, choice, contextTokens=100_000)
    chain = open_models(
        chosen,
        (),
        offline=ScriptedModel(),
        model_named=lambda name: connected_model(chosen, name, Clock()),
        now=Clock(),
        sleep=no_sleep,
        count_tokens=estimate_tokens,
    ).default
    assert chain.first.budget.window_tokens == 100_000
    assert chain.budget_of(16_385).window_tokens == 16_385


def test_a_fallback_that_is_too_small_is_told_at_the_start(tmp_path: Path) -> None:
    """Not in the middle of the night when it is needed."""
    choice = {"primary": "openai/gpt-4o", "fallbacks": ["cloudflare/@cf/meta/llama-2-7b-chat-fp16"]}
    chosen = config(tmp_path, choice)
    with pytest.raises(ConfigError, match=r"fallback model 'cloudflare/.*' cannot be used.*3072"):
        open_models(
            chosen,
            (),
            offline=ScriptedModel(),
            model_named=lambda name: connected_model(chosen, name, Clock()),
            now=Clock(),
            sleep=no_sleep,
            count_tokens=estimate_tokens,
        )


async def test_the_offline_responder_has_a_name(tmp_path: Path) -> None:
    """For one run in place of the settings' model, and as the fallback of a server that nobody started."""
    (tmp_path / "state").mkdir()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening, so that it refuses
        desk = {"baseUrl": f"http://127.0.0.1:{closed.getsockname()[1]}/v1"}
        model = {"primary": "desk/qwen3", "fallbacks": ["offline"]}
        settings = {"agents": {"defaults": {"model": model}}, "models": {"providers": {"desk": desk}}}
        write_settings(tmp_path / "state", settings)
        environment = {"HOME": str(tmp_path)}
        for named, is_offline in ((None, False), ("offline", True), (["desk/qwen3", "offline"], False)):
            async with Agent.open(
                state_dir=tmp_path / "state", model=named, environment=environment, watch=False
            ) as agent:
                reply = await agent.ask("Remember that the boat is called Halcyon.")
                assert (agent.is_offline, reply and "Halcyon" in reply.text) == (is_offline, True)
