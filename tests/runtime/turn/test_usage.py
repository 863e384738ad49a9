"""What a turn cost: the tokens and dollars of all its model calls, carried by what it ends with."""

from __future__ import annotations

from pathlib import Path

from nacre.runtime.contracts.events import ReplyReady, Silence
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import Usage
from tests.runtime.agents import events_of, opened, said

FIRST = Usage(input_tokens=900, output_tokens=40, cache_write_tokens=100, cost_usd=0.002)
SECOND = Usage(input_tokens=150, output_tokens=60, cache_read_tokens=1_000, cost_usd=0.001)


async def test_a_turns_usage_is_the_sum_of_its_calls(tmp_path: Path) -> None:
    """Each step is paid for, so the reply carries all of them, and the next turn begins at nothing."""
    model = ScriptedModel(
        calls(("read", {"path": "TOOLS.md"}), usage=FIRST),
        says("It says: be kind.", usage=SECOND),
        says("And that is all.", usage=SECOND),
    )
    async with opened(tmp_path, model) as agent:
        *_, ended = await events_of(agent, said("What do the tools say?"))
        *_, next_ended = await events_of(agent, said("Anything else?"))

    assert isinstance(ended, ReplyReady)
    assert ended.reply.usage == Usage(
        input_tokens=1_050,
        output_tokens=100,
        cache_read_tokens=1_000,
        cache_write_tokens=100,
        cost_usd=FIRST.cost_usd + SECOND.cost_usd,
    )
    assert isinstance(next_ended, ReplyReady)
    assert next_ended.reply.usage == SECOND


async def test_silence_has_its_price_too(tmp_path: Path) -> None:
    """A turn that delivers nothing was paid for all the same."""
    async with opened(tmp_path, ScriptedModel(says("NO_REPLY", usage=FIRST))) as agent:
        *_, ended = await events_of(agent, said("Note that."))

    assert isinstance(ended, Silence)
    assert ended.usage == FIRST


async def test_a_provider_that_reports_nothing_is_not_guessed_at(tmp_path: Path) -> None:
    """Without reported tokens there is no usage, and a command has none either."""
    async with opened(tmp_path, ScriptedModel(says("Hello."))) as agent:
        reply, help_text = await agent.respond(said("Hi")), await agent.respond(said("/help"))

    assert reply is not None
    assert reply.usage is None
    assert help_text is not None
    assert help_text.usage is None
