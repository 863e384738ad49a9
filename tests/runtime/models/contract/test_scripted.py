"""The scripted model, the clock and the ids that bot authors use in their tests."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from nacre.runtime.contracts.errors import ModelUnavailable
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt, TextDelta
from nacre.runtime.models.scripted import (
    Clock,
    CountingIds,
    ScriptedModel,
    ScriptViolation,
    calls,
    fails,
    says,
)
from nacre.sessions.contracts.messages import AssistantMessage, ToolCall, Usage, user_message


def asked(text: str = "Hello") -> ModelRequest:
    """A request with one user message."""
    return ModelRequest(system=SystemPrompt(stable="s"), messages=(user_message(text, timestamp_ms=1),))


async def run(
    model: ScriptedModel, request: ModelRequest | None = None
) -> list[TextDelta | AssistantMessage]:
    """Everything that one request yields."""
    return [item async for item in model.stream(request or asked())]


async def test_steps_are_played_in_order_with_usage_and_ids() -> None:
    """Calls, then text, each with the usage of its step; call ids count through the whole script."""
    usage = Usage(input_tokens=10, output_tokens=2)
    model = ScriptedModel(
        calls(("read", {"path": "a"}), ("list", {}), usage=usage), calls(("list", {})), says("Done")
    )
    first, second, third = [(await run(model))[-1] for _ in range(3)]
    assert isinstance(first, AssistantMessage)
    assert isinstance(second, AssistantMessage)
    assert isinstance(third, AssistantMessage)
    assert first.usage == usage
    assert [call.id for call in (*first.tool_calls, *second.tool_calls)] == ["call_1", "call_2", "call_3"]
    assert (first.stop_reason, third.stop_reason) == ("toolUse", "stop")
    model.assert_complete()


async def test_a_request_too_many_is_refused_and_remembered() -> None:
    """A call without a step is a violation, and `assert_complete` repeats it if it was swallowed."""
    model = ScriptedModel()
    with pytest.raises(ScriptViolation, match="not in the script"):
        await run(model)
    with pytest.raises(ScriptViolation, match="'Hello'"):
        model.assert_complete()


async def test_a_step_too_many_is_told() -> None:
    """Steps that nobody asked for fail at the end, by name."""
    model = ScriptedModel(says("one"), calls(("read", {})))
    await run(model)
    with pytest.raises(ScriptViolation, match=r"1 of .* the calls read"):
        model.assert_complete()
    assert len(model.unused_steps) == 1


async def test_purposes_and_checks_are_enforced() -> None:
    """A step for a flush refuses a turn, and a check may refuse by assertion or by `False`."""

    def no_rain(request: ModelRequest) -> None:
        assert "rain" in str(request.messages), "nobody spoke of rain"

    for step in (
        says("x", purpose="flush"),
        says("x", check=no_rain),
        says("x", check=lambda request: False),
    ):
        with pytest.raises(ScriptViolation):
            await run(ScriptedModel(step))
    model = ScriptedModel(says("x", check=no_rain))
    await run(model, asked("Will it rain?"))
    model.assert_complete()


async def test_requests_are_kept_as_they_were() -> None:
    """A later change of something inside a request does not reach the kept copy."""
    arguments = {"path": "a"}
    answer = AssistantMessage(
        content=(ToolCall(id="1", name="read", arguments=arguments),),
        api="",
        provider="",
        model="",
        usage=None,
        stop_reason="toolUse",
        timestamp_ms=1,
    )
    model = ScriptedModel(says("ok"))
    await run(model, ModelRequest(system=SystemPrompt(stable=""), messages=(answer,)))
    arguments["path"] = "b"
    kept = model.requests[0].messages[0]
    assert isinstance(kept, AssistantMessage)
    assert kept.tool_calls[0].arguments == {"path": "a"}


async def test_failures_may_come_after_text() -> None:
    """`fails` streams its text first."""
    items = ScriptedModel(fails(ModelUnavailable("Down."), after_text="Hm")).stream(asked())
    assert await anext(items) == TextDelta(text="Hm")
    with pytest.raises(ModelUnavailable):
        await anext(items)


async def test_a_closed_model_refuses() -> None:
    """After `aclose` every request is a violation."""
    model = ScriptedModel(says("x"))
    await model.aclose()
    with pytest.raises(ScriptViolation, match=r"after aclose\(\)"):
        await run(model)


def test_calls_needs_a_call() -> None:
    """An empty `calls()` is refused where it is written."""
    with pytest.raises(ValueError, match="at least one call"):
        calls()


def test_the_clock_stands_until_it_is_moved() -> None:
    """It shows one time, in a time zone, and moves when told."""
    clock = Clock(datetime(2026, 3, 14, 23, 59, 30, tzinfo=UTC))
    assert clock() == clock()
    before_ms = clock.now_ms()
    clock.advance(minutes=1)
    assert clock().date().day == 15
    assert clock.now_ms() - before_ms == 60_000
    with pytest.raises(ValueError, match="time zone"):
        Clock(datetime(2026, 3, 14))  # noqa: DTZ001 - the missing zone is the point
    with pytest.raises(TypeError, match="not '2026'"):
        Clock("2026")  # type: ignore[arg-type]


def test_an_hour_of_the_clock_is_an_hour_also_when_clocks_change() -> None:
    """The night in which Berlin's clocks go forward: an hour after 01:30 it is 03:30."""
    clock = Clock(datetime(2026, 3, 29, 1, 30, tzinfo=ZoneInfo("Europe/Berlin")))
    before_ms = clock.now_ms()
    clock.advance(hours=1)
    assert clock.now_ms() - before_ms == 3_600_000
    assert clock().strftime("%H:%M %Z") == "03:30 CEST"


def test_ids_count() -> None:
    """Ids come in order, each counter for itself."""
    new_id, other = CountingIds(), CountingIds("s-")
    assert [new_id(), new_id(), other()] == ["00000001", "00000002", "s-00000001"]
