"""Which model is asked, what leads to another one, and what the owner hears of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from nacre.runtime.contracts.budget import resolve_budget
from nacre.runtime.contracts.errors import (
    AllModelsFailed,
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
from nacre.runtime.contracts.events import Event, FallbackAnswered
from nacre.runtime.contracts.model import AnswerRestarted, ModelRequest, SystemPrompt
from nacre.runtime.models.cooldown import CooldownFile
from nacre.runtime.models.failover import Candidate, ModelChain
from nacre.runtime.models.scripted import Clock, ScriptedModel, ScriptedStep, fails, says
from nacre.runtime.models.tokenizer import estimate_tokens
from nacre.sessions.contracts.messages import AssistantMessage, message_text, user_message

REQUEST = ModelRequest(system=SystemPrompt(stable=""), messages=(user_message("Hello", timestamp_ms=1),))
DOWN = ModelUnavailable("A is down.")
LIMIT = RateLimited("A is busy.", retry_after_seconds=120)


class Chain:
    """Two scripted models, the first with the second as its fallback, on one state folder."""

    def __init__(
        self,
        folder: Path,
        first: list[ScriptedStep],
        second: list[ScriptedStep],
        *,
        second_window: int = 128_000,
    ) -> None:
        self.clock = Clock()
        self.first = ScriptedModel(*first, name="a/one")
        self.second = ScriptedModel(*second, name="b/two", context_window_tokens=second_window)
        self.file = folder / "model-cooldowns.json"
        self.slept: list[float] = []
        self.events: list[Event] = []
        self.chain = self.restarted()

    def restarted(self) -> ModelChain:
        """The same models in a new process."""
        return ModelChain(
            [self._candidate(self.first), self._candidate(self.second)],
            cooldowns=CooldownFile(self.file, now=self.clock),
            now=self.clock,
            sleep=self._sleep,
            count_tokens=estimate_tokens,
        )

    async def ask(self, request: ModelRequest = REQUEST, chain: ModelChain | None = None) -> str:
        """What is answered, after everything void is taken away."""
        text = ""
        ask = (chain or self.chain).ask(self.events.append)
        async for item in ask(request):
            if isinstance(item, AnswerRestarted):
                text = ""
            elif isinstance(item, AssistantMessage):
                assert message_text(item) == text
            else:
                text += item.text
        return text

    def told(self) -> list[tuple[str, str]]:
        """Who answered in place of the first, and why."""
        return [(e.model_name, e.problem) for e in self.events if isinstance(e, FallbackAnswered)]

    def assert_complete(self) -> None:
        self.first.assert_complete()
        self.second.assert_complete()

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def _candidate(self, model: ScriptedModel) -> Candidate:
        budget = resolve_budget(
            configured_window_tokens=None,
            model_window_tokens=model.context_window_tokens,
            reserve_tokens=16_000,
            reserve_floor_tokens=20_000,
            soft_threshold_tokens=4_000,
            keep_recent_tokens=20_000,
        )
        return Candidate(model=model, budget=budget)


@pytest.mark.parametrize(
    "error",
    [
        LIMIT,
        ModelTimedOut("Too late."),
        ModelAuthError("No key."),
        NoCredit("Empty."),
        BadModelReply("HTTP 400"),
    ],
)
@pytest.mark.covers("A20-1")
async def test_the_next_model_answers_and_the_owner_is_told(tmp_path: Path, error: ModelError) -> None:
    """Whatever another model may do better leads to it at once, without a wait."""
    chain = Chain(tmp_path, [fails(error)], [says("Here.")])
    assert await chain.ask() == "Here."
    [(name, problem)] = chain.told()
    assert name == "b/two"
    assert str(error) in problem
    assert chain.slept == []
    chain.assert_complete()


async def test_a_hiccup_is_waited_for_once_before_another_model_is_asked(tmp_path: Path) -> None:
    """The last model, which nobody follows, is asked four times."""
    chain = Chain(tmp_path, [fails(DOWN)] * 2, [fails(DOWN)] * 4)
    with pytest.raises(AllModelsFailed):
        await chain.ask()
    assert len(chain.slept) == 4
    chain.assert_complete()


@pytest.mark.parametrize("error", [ContextOverflow("Full."), RequestRefused("No."), ModelError("Closed.")])
@pytest.mark.covers("A20-1")
async def test_what_is_not_the_models_affair_asks_no_other(tmp_path: Path, error: ModelError) -> None:
    """A full window is compacted, a refused text is the person's, a closed model is our mistake."""
    chain = Chain(tmp_path, [fails(error)], [])
    with pytest.raises(type(error)) as caught:
        await chain.ask()
    assert caught.value is error
    assert not chain.file.exists()


@pytest.mark.covers("A20-1")
async def test_a_stopped_turn_asks_no_other_model(tmp_path: Path) -> None:
    """Cancelling is the person's wish: nothing is asked, nothing is cooled down."""
    reached = asyncio.Event()

    class Hanging(ScriptedModel):
        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
            reached.set()
            await asyncio.Event().wait()
            yield

    chain = Chain(tmp_path, [], [])
    chain.first = Hanging(name="a/one")
    chain.chain = chain.restarted()
    asking = asyncio.create_task(chain.ask())
    await reached.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert chain.second.requests == []
    assert not chain.file.exists()


@pytest.mark.covers("A20-1")
async def test_a_cooling_model_is_passed_over_until_its_time_is_up(tmp_path: Path) -> None:
    """For the two minutes that it asked for the first is left alone; then it is asked, and forgiven."""
    chain = Chain(tmp_path, [fails(LIMIT), says("A again.")], [says("B."), says("B.")])
    assert await chain.ask() == "B."
    chain.clock.advance(seconds=119)
    assert await chain.ask() == "B."
    assert "not asked for another 1 min" in chain.told()[-1][1]
    chain.clock.advance(seconds=1)
    assert await chain.ask() == "A again."
    assert json.loads(chain.file.read_text())["cooldowns"] == {}
    chain.assert_complete()


async def test_a_cool_down_outlasts_a_restart_but_a_refused_key_does_not(tmp_path: Path) -> None:
    """A limit holds for the next process too; a key may have been replaced meanwhile."""
    chain = Chain(tmp_path, [fails(LIMIT)], [says("B."), says("B.")])
    await chain.ask()
    assert await chain.ask(chain=chain.restarted()) == "B."

    other = Chain(tmp_path / "other", [fails(ModelAuthError("No key.")), says("A.")], [says("B.")])
    await other.ask()
    assert await other.ask(chain=other.restarted()) == "A."
    chain.assert_complete()
    other.assert_complete()


async def test_cool_downs_of_the_first_version_are_read_for_ever(tmp_path: Path) -> None:
    """Byte for byte as an earlier process left them: the first model is passed over until then."""
    chain = Chain(tmp_path, [says("A.")], [says("B.")])
    now_ms = chain.clock.now_ms()
    chain.file.write_text(
        '{"version": 1, "cooldowns": {"a/one": {"failures": 2, "reason": "rate_limit", '
        f'"failedAtMs": {now_ms - 1000}, "untilMs": {now_ms + 299_000}}}}}}}'
    )
    assert await chain.ask() == "B."
    chain.clock.advance(minutes=5)
    assert await chain.ask() == "A."
    chain.assert_complete()


async def test_when_all_are_cooling_the_words_are_still_worth_a_try(tmp_path: Path) -> None:
    """The model that is free soonest is asked first."""
    chain = Chain(
        tmp_path,
        [fails(NoCredit("A is empty.")), fails(NoCredit("A is empty."))],
        [fails(LIMIT), says("B.")],
    )
    with pytest.raises(
        AllModelsFailed, match=r"All models failed \(2\): a/one: A is empty\. \(billing\) \| b/two:"
    ) as failed:
        await chain.ask()
    assert [type(failure) for failure in failed.value.failures] == [NoCredit, type(LIMIT)]
    assert await chain.ask() == "B."
    assert chain.first.unused_steps


async def test_one_model_alone_is_never_cooled_down(tmp_path: Path) -> None:
    """There is nobody else to ask, so its own error is told and it is asked the next time."""
    chain = Chain(tmp_path, [], [])
    alone = ScriptedModel(fails(NoCredit("Empty.")), says("Paid."), name="c/alone")
    single = ModelChain(
        [chain._candidate(alone)],
        cooldowns=CooldownFile(chain.file, now=chain.clock),
        now=chain.clock,
        sleep=chain._sleep,
        count_tokens=estimate_tokens,
    )
    with pytest.raises(NoCredit, match="Empty"):
        await chain.ask(chain=single)
    assert await chain.ask(chain=single) == "Paid."
    assert not chain.file.exists()


@pytest.mark.covers("A11-9")
async def test_an_answer_that_broke_off_is_not_said_twice(tmp_path: Path) -> None:
    """The second model begins anew, and what the first had said is void."""
    late = ModelTimedOut("Silent.")
    chain = Chain(tmp_path, [fails(late, after_text="The hive ")], [says("The hive needs sugar.")])
    assert await chain.ask() == "The hive needs sugar."
    chain.assert_complete()


async def test_a_long_request_is_compacted_before_a_smaller_model_is_asked(tmp_path: Path) -> None:
    """The fallback with the smaller window never sees it: the error says which window must be kept."""
    chain = Chain(tmp_path, [fails(LIMIT)], [says("B.")], second_window=32_000)
    long = ModelRequest(
        system=SystemPrompt(stable=""), messages=(user_message("honey " * 30_000, timestamp_ms=1),)
    )
    with pytest.raises(ContextOverflow, match="window of 32000 tokens") as caught:
        await chain.ask(long)
    assert caught.value.window_tokens == 32_000
    assert chain.second.requests == []
    assert (await chain.chain.current()).model is chain.second
    assert await chain.ask() == "B."


async def test_cool_downs_that_cannot_be_read_or_written_cost_no_answer(tmp_path: Path) -> None:
    """Garbage is set aside; a folder in the file's place leaves them in this process."""
    chain = Chain(tmp_path, [fails(LIMIT)], [says("B."), says("B.")])
    chain.file.write_text("{torn")
    assert await chain.ask() == "B."
    assert json.loads(chain.file.read_text())["cooldowns"].keys() == {"a/one"}
    [aside] = tmp_path.glob("*.corrupt-*")
    assert aside.read_text() == "{torn"

    blocked = Chain(tmp_path / "blocked", [fails(LIMIT)], [says("B."), says("B.")])
    blocked.file.mkdir(parents=True)
    assert await blocked.ask() == "B."
    assert await blocked.ask() == "B."
    blocked.assert_complete()


async def test_a_fallback_is_told_once_in_a_turn(tmp_path: Path) -> None:
    """The steps of one turn ask alike, and the person reads the reason once."""
    chain = Chain(tmp_path, [fails(LIMIT)], [says("one"), says("two")])
    ask = chain.chain.ask(chain.events.append)
    for _ in range(2):
        assert [item async for item in ask(REQUEST)]
    assert [name for name, _ in chain.told()] == ["b/two"]
    chain.assert_complete()
