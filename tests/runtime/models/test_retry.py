"""Asking again: when, how often, and how long between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from nacre.runtime.contracts.errors import (
    BadModelReply,
    ContextOverflow,
    ModelAuthError,
    ModelError,
    ModelTimedOut,
    ModelUnavailable,
    RateLimited,
)
from nacre.runtime.contracts.model import Answering, AnswerRestarted, ModelRequest, SystemPrompt, TextDelta
from nacre.runtime.models.failover import call_with_retries, held_to_contract, stream_with_retries
from nacre.runtime.models.scripted import ScriptedModel, ScriptedStep, fails, says
from nacre.sessions.contracts.messages import AssistantMessage

REQUEST = ModelRequest(system=SystemPrompt(stable=""), messages=())
DOWN = ModelUnavailable("The model is down.")


class Turn:
    """One request with retries; keeps what was waited for and told."""

    def __init__(self, *steps: ScriptedStep) -> None:
        self.model = ScriptedModel(*steps)
        self.slept: list[float] = []
        self.told: list[tuple[int, float, str]] = []
        self.items: list[Answering] = []

    async def sleep(self, seconds: float) -> None:
        """Notes the wait."""
        self.slept.append(seconds)

    async def run(self, **options: Any) -> None:
        """Asks, and collects what comes."""
        async for item in stream_with_retries(
            self.model,
            REQUEST,
            sleep=self.sleep,
            on_retry=lambda *retry: self.told.append(retry),
            **options,
        ):
            self.items.append(item)


@pytest.mark.covers("A10-13")
async def test_it_waits_twice_as_long_each_time() -> None:
    """Failures that pass are tried again after about 2, 4 and 8 seconds, and each wait is told before it."""
    turn = Turn(fails(DOWN), fails(RateLimited("Slowly.")), fails(DOWN), says("Hello"))
    await turn.run()
    assert isinstance(turn.items[-1], AssistantMessage)
    for seconds, least in zip(turn.slept, (2, 4, 8), strict=True):
        assert least <= seconds <= least * 1.25
    assert turn.told == [
        (1, turn.slept[0], "The model is down."),
        (2, turn.slept[1], "Slowly."),
        (3, turn.slept[2], "The model is down."),
    ]
    turn.model.assert_complete()


@pytest.mark.parametrize(("chance", "waits"), [(0.0, [2, 4, 8]), (0.5, [2.25, 4.5, 9]), (1.0, [2.5, 5, 10])])
@pytest.mark.covers("ATT-18")
async def test_chance_makes_a_wait_up_to_a_quarter_longer(chance: float, waits: list[float]) -> None:
    """The same failure of many clients does not bring them all back at one moment."""
    turn = Turn(fails(DOWN), fails(DOWN), fails(DOWN), says("Hello"))
    await turn.run(chance=lambda: chance)
    assert turn.slept == waits


async def test_no_two_clients_wait_equally_long() -> None:
    """Where nobody hands a chance in, there is one all the same, for calls without a stream as well."""
    turns = [Turn(fails(DOWN), says("Hello")) for _ in range(4)]
    for turn in turns:
        await turn.run()
    called = Turn()
    for _ in range(4):
        answers = iter([DOWN, None])

        async def call(answers: Iterator[ModelError | None] = answers) -> None:
            if error := next(answers):
                raise error

        await call_with_retries(call, sleep=called.sleep)
    waits = [*(turn.slept[0] for turn in turns), *called.slept]
    assert len(set(waits)) == 8
    assert all(2 <= wait <= 2.5 for wait in waits)


@pytest.mark.covers("A10-13")
async def test_it_gives_up_after_the_last_retry() -> None:
    """With retries used up the last failure is raised as it is."""
    turn = Turn(fails(DOWN), fails(DOWN))
    with pytest.raises(ModelUnavailable, match="The model is down"):
        await turn.run(max_retries=1)
    assert len(turn.slept) == 1
    turn.model.assert_complete()


async def test_the_providers_wish_is_kept() -> None:
    """A longer `Retry-After` replaces the delay."""
    turn = Turn(fails(RateLimited("Slowly.", retry_after_seconds=31)), says("Hello"))
    await turn.run()
    assert turn.slept == [31]


async def test_a_wish_for_less_shortens_nothing() -> None:
    """A `Retry-After` shorter than the delay, and one of exactly a minute, which is still waited for."""
    wishes = [fails(RateLimited("Slowly.", retry_after_seconds=seconds)) for seconds in (0.5, 1, 60)]
    turn = Turn(*wishes, says("Hello"))
    await turn.run(chance=lambda: 0.0)
    assert turn.slept == [2, 4, 60]


async def test_a_wish_beyond_a_minute_fails_at_once() -> None:
    """Nobody waits for two minutes in a turn: the error says how long it would be."""
    turn = Turn(fails(RateLimited("Slowly.", retry_after_seconds=120, detail="theirs")))
    with pytest.raises(RateLimited, match=r"Slowly\..*120 seconds") as failure:
        await turn.run()
    assert failure.value.retry_after_seconds == 120
    assert failure.value.detail == "theirs"
    assert turn.slept == []


@pytest.mark.parametrize(
    "error",
    [ContextOverflow("Full."), ModelAuthError("No key."), BadModelReply("What?"), ModelError("Closed.")],
)
async def test_other_failures_are_final(error: ModelError) -> None:
    """What asking again does not mend is raised at once."""
    turn = Turn(fails(error))
    with pytest.raises(type(error)):
        await turn.run()
    assert turn.told == []


async def test_an_answer_that_broke_off_comes_anew() -> None:
    """What was shown of it is void, and that is said before the first piece of the new one."""
    turn = Turn(fails(DOWN, after_text="Once upon"), says("Hello"))
    await turn.run()
    places = [place for place, item in enumerate(turn.items) if isinstance(item, AnswerRestarted)]
    [place] = places
    pieces = [item.text for item in turn.items[place:] if isinstance(item, TextDelta)]
    assert "".join(pieces) == "Hello"
    assert turn.items[place] == AnswerRestarted(problem="The model is down.")
    turn.model.assert_complete()


async def test_a_time_out_is_tried_again_once() -> None:
    """A second time-out is final: each has cost minutes already."""
    late = ModelTimedOut("Too late.")
    turn = Turn(fails(late), fails(late))
    with pytest.raises(ModelTimedOut):
        await turn.run()
    assert len(turn.slept) == 1
    turn.model.assert_complete()


async def test_a_time_out_is_not_tried_again_where_another_model_waits() -> None:
    """The caller says so, and other failures are still tried again."""
    turn = Turn(fails(DOWN), fails(ModelTimedOut("Too late.")))
    with pytest.raises(ModelTimedOut):
        await turn.run(retries_time_outs=False)
    assert len(turn.slept) == 1
    turn.model.assert_complete()


async def test_leaving_early_ends_the_request() -> None:
    """A consumer that closes the iterator closes the model's stream with it."""
    model = ScriptedModel(says("a long answer in pieces"))

    async def never(seconds: float) -> None:
        raise AssertionError(f"slept {seconds}")

    items = stream_with_retries(model, REQUEST, sleep=never, on_retry=lambda *retry: None)
    assert isinstance(await anext(items), TextDelta)
    await items.aclose()
    assert await anext(items, None) is None
    model.assert_complete()


async def test_a_model_that_gives_nothing_is_told_in_words() -> None:
    """What no contract knows is named as what it is, and an empty value by no class of Python's."""

    async def nothing() -> AsyncIterator[Any]:
        yield None

    with pytest.raises(BadModelReply, match=r"^The model 'own/model' answered with nothing\.$"):
        await anext(held_to_contract(nothing(), model_name="own/model"))
