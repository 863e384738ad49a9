"""Which model summarises: in order, and an extract only where asking again would end the same way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.errors import (
    BadModelReply,
    ContextOverflow,
    ModelAuthError,
    ModelError,
    ModelUnavailable,
)
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.models.cooldown import CooldownFile
from nacre.runtime.models.failover import Candidate, ModelChain
from nacre.runtime.models.scripted import Clock, ScriptedModel, ScriptedStep, fails, says
from nacre.runtime.settings.sections.agents import CompactionSettings
from nacre.runtime.turn.window.summaries.ladder import (
    Summary,
    SummaryModel,
    summary_limits,
    summary_models,
    summary_of,
)
from nacre.runtime.turn.window.summaries.summariser import PartialSummaries, SummaryLimits
from nacre.sessions.compaction.cut import CompactionPlan
from nacre.sessions.contracts.messages import message_text, user_message

PLAN = CompactionPlan(
    first_kept_entry_id="kept",
    to_summarise=(user_message("feed the bees", timestamp_ms=1),),
    turn_prefix=(),
    tokens_before=100,
    previous_summary=None,
    kept_tokens=1,
)
GOOD = says("## Goal\nBees", purpose="compaction")
GARBAGE = says("Certainly!", purpose="compaction")


def rung(name: str, *steps: ScriptedStep) -> tuple[ScriptedModel, SummaryModel]:
    model = ScriptedModel(*steps, name=name)
    limits = SummaryLimits(part_tokens=1_000, summary_tokens=300, timeout_seconds=60)
    return model, SummaryModel(name=name, ask=model.stream, limits=limits)


async def climbed(
    *models: SummaryModel, extractor: SummaryModel | None = None, must_shrink: bool = True
) -> Summary:
    async def forget(_digest: str, _text: str) -> None:
        raise AssertionError("one part needs no partial summary")

    return await summary_of(
        PLAN,
        models=models,
        extractor=extractor or rung("offline/extractive", fails(BadModelReply("Nothing to extract.")))[1],
        must_shrink=must_shrink,
        instructions="",
        count_tokens=lambda text: len(text.split()),
        now_ms=lambda: 1,
        partial=PartialSummaries(known={}, remember=forget),
    )


async def test_the_first_model_that_summarises_is_the_only_one_asked() -> None:
    """A summary without a problem, from the model for compactions."""
    small, first = rung("a/small", GOOD)
    large, second = rung("a/large")
    summary = await climbed(first, second)
    small.assert_complete()
    assert large.requests == []
    assert summary == Summary(text="## Goal\nBees", model_name="a/small", is_extract=False)


@pytest.mark.parametrize(
    "failing",
    [
        [fails(ModelAuthError("no key"))],
        [fails(ModelUnavailable("gone"))],
        [fails(ContextOverflow("too long"))] * 3,
        [GARBAGE, GARBAGE],
    ],
)
async def test_the_sessions_model_follows_when_the_first_fails(failing: list[ScriptedStep]) -> None:
    """Whatever is wrong with the chosen model, the one that answers is asked too, with the reason kept."""
    small, first = rung("a/small", *failing)
    large, second = rung("a/large", GOOD)
    summary = await climbed(first, second)
    small.assert_complete()
    large.assert_complete()
    assert (summary.model_name, summary.is_extract) == ("a/large", False)
    assert summary.problem.startswith("a/small: ")


@pytest.mark.parametrize("steps", [[GARBAGE, GARBAGE], [fails(ContextOverflow("too long"))] * 3])
async def test_an_extract_follows_answers_that_cannot_be_used(steps: list[ScriptedStep]) -> None:
    """Garbage, and a conversation that is too long for the summariser too, would come again."""
    _, model = rung("a/large", *steps)
    offline, extractor = rung("offline/extractive", GOOD)
    summary = await climbed(model, extractor=extractor)
    offline.assert_complete()
    assert summary.is_extract
    assert summary.problem


@pytest.mark.parametrize("error", [ModelAuthError("no key"), ModelUnavailable("gone")])
async def test_a_provider_that_is_away_is_no_reason_for_an_extract(error: ModelError) -> None:
    """The history waits for it, whole."""
    _, model = rung("a/large", fails(error))
    offline, extractor = rung("offline/extractive", GOOD)
    with pytest.raises(type(error), match=str(error)):
        await climbed(model, extractor=extractor)
    assert offline.requests == []


async def test_a_history_that_may_wait_is_not_extracted_for_a_slow_model() -> None:
    """A time-out or an overflow of the summariser is tried again later, from where it stopped."""
    _, model = rung("a/large", *[fails(ContextOverflow("too long"))] * 3)
    with pytest.raises(ContextOverflow):
        await climbed(model, must_shrink=False)


async def test_when_nobody_can_all_reasons_are_told() -> None:
    """The last failure's kind, with the words of every model and of the extractor."""
    _, first = rung("a/small", fails(ModelAuthError("no key")))
    _, second = rung("a/large", GARBAGE, GARBAGE)
    with pytest.raises(BadModelReply, match=r"a/small: no key a/large: .* no summary.*Nothing to extract"):
        await climbed(first, second)


def test_a_model_is_given_what_its_own_window_holds() -> None:
    """Prompt, summary before, part and answer fit together; the owner's bound on a summary holds."""
    budget = ContextBudget(
        window_tokens=200_000,
        window_source="model",
        reserve_tokens=20_000,
        soft_threshold_tokens=4_000,
        keep_recent_tokens=20_000,
    )
    for window_tokens in (16_000, 32_000, 1_000_000):
        limits = summary_limits(budget, CompactionSettings(), window_tokens=window_tokens)
        assert limits.part_tokens + 2 * limits.summary_tokens < window_tokens * 0.9
    chosen = CompactionSettings(max_summary_tokens=900, timeout_seconds=7)
    assert summary_limits(budget, chosen, window_tokens=None) == SummaryLimits(
        part_tokens=(200_000 - 1_800) * 4 // 5, summary_tokens=900, timeout_seconds=7
    )


async def test_the_request_is_a_text_to_read_and_not_a_conversation() -> None:
    """One message, labelled and between tags, so that no model goes on with what it reads."""
    model, first = rung("a/small", GOOD)
    await climbed(first)
    [request] = model.requests
    assert (len(request.messages), request.tools) == (1, ())
    assert "<conversation>\n[User]: feed the bees\n</conversation>" in message_text(request.messages[0])
    assert "do not continue it" in request.system.stable


def test_a_model_of_its_own_for_summaries_is_asked_first_and_none_twice(tmp_path: Path) -> None:
    """The conversation's model follows; where both are one, it is asked once."""
    budget = ContextBudget(
        window_tokens=200_000,
        window_source="model",
        reserve_tokens=20_000,
        soft_threshold_tokens=4_000,
        keep_recent_tokens=20_000,
    )
    usual, other, same = (ScriptedModel(name=name) for name in ("a/large", "b/small", "a/large"))
    chain = ModelChain(
        [Candidate(model=usual, budget=budget)],
        cooldowns=CooldownFile(tmp_path / "cooldowns.json", now=Clock()),
        now=Clock(),
        sleep=asyncio.sleep,
        count_tokens=len,
    )

    def asked(own: ChatModel | None) -> list[str]:
        settings = CompactionSettings()
        offline = ScriptedModel(name="offline/extractive")
        rungs = summary_models(chain, own, offline, budget, settings, lambda _event: None)
        return [rung.name for rung in rungs]

    assert asked(other) == ["b/small", "a/large"]
    assert asked(same) == asked(None) == ["a/large"]
