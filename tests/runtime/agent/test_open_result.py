"""Ways to open an agent: with `await`, with `async with`, and by mistake without either."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nacre import Agent, BlockingAgent, Gateway, Runtime
from nacre.runtime.contracts.errors import ConfigError, ModelAuthError
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.models.scripted import ScriptedModel, fails, says
from tests.runtime.agents import said

NOBODY: dict[str, str] = {}


async def test_an_agent_is_opened_with_or_without_await(tmp_path: Path) -> None:
    """`async with Agent.open()` closes the agent at its end, as `async with await Agent.open()` does."""
    async with Agent.open(state_dir=tmp_path, environment=NOBODY, watch=False) as agent:
        assert not agent.is_closed
    async with await Agent.open(state_dir=tmp_path, environment=NOBODY, watch=False) as again:
        assert not again.is_closed
    async with Runtime.open(state_dir=tmp_path, environment=NOBODY, watch=False) as runtime:
        assert [each.id for each in runtime.agents] == ["main"]

    assert agent.is_closed
    assert again.is_closed


def test_it_is_still_a_coroutine(tmp_path: Path) -> None:
    """`asyncio.run` and tasks take it, and so does the blocking agent."""
    opening = Agent.open(state_dir=tmp_path, environment=NOBODY, watch=False)
    assert asyncio.iscoroutine(opening)
    opening.close()
    with BlockingAgent.open(state_dir=tmp_path, environment=NOBODY, watch=False) as blocking:
        assert blocking.model_name.startswith("offline/")


async def test_a_forgotten_await_is_explained(tmp_path: Path) -> None:
    """The sentence says what to write."""
    opening = Agent.open(state_dir=tmp_path, environment=NOBODY, watch=False)
    with pytest.raises(AttributeError, match=r"'ask' was asked of Agent\.open\(\), which is not awaited"):
        opening.ask("hello")  # type: ignore[attr-defined]
    opening.close()


@pytest.mark.parametrize(
    ("opened", "what_to_write"),
    [
        (Agent, r"`async with Agent\.open\(…\) as opened:`, or `with nacre\.BlockingAgent\.open\(…\)`"),
        (Runtime, r"`async with Runtime\.open\(…\) as opened:`\."),
    ],
)
async def test_a_forgotten_async_is_explained(
    opened: type[Agent] | type[Runtime], what_to_write: str, tmp_path: Path
) -> None:
    """A plain `with` says what to write, and leaves no coroutine behind that nobody awaits."""
    opening = opened.open(state_dir=tmp_path, environment=NOBODY, watch=False)
    with pytest.raises(TypeError, match=what_to_write), opening:  # type: ignore[attr-defined]
        pass
    with pytest.raises(RuntimeError, match="already awaited"):
        await opening


async def test_a_gateway_is_opened_alike(tmp_path: Path) -> None:
    """With or without `await`, and with a state folder that is a text."""
    async with Agent.open(state_dir=tmp_path, environment=NOBODY, watch=False) as agent:
        async with Gateway.open(agent, [], state_dir=str(tmp_path)) as gateway:
            assert gateway.statuses == ()
        async with await Gateway.open(agent, [], state_dir=tmp_path) as gateway:
            assert gateway.statuses == ()


async def test_a_list_of_models_is_asked_in_order(tmp_path: Path) -> None:
    """The second model answers when the first one fails."""
    first = ScriptedModel(fails(ModelAuthError("The key is wrong.")), name="scripted/first")
    second = ScriptedModel(says("Hello from the second."), name="scripted/second")
    models: list[ChatModel | str] = [first, second]
    async with Agent.open(state_dir=tmp_path, environment=NOBODY, watch=False, model=models) as agent:
        reply = await agent.respond(said("hello"))

    assert reply is not None
    assert reply.text == "Hello from the second."


@pytest.mark.parametrize("models", [[], [ScriptedModel(), 7]])
async def test_a_list_without_models_is_refused(models: list[ChatModel | str], tmp_path: Path) -> None:
    """At once, with what to write."""
    with pytest.raises(ConfigError, match=r"Agent\.open\(model=\.\.\.\) cannot be used"):
        await Agent.open(state_dir=tmp_path, environment=NOBODY, watch=False, model=models)
