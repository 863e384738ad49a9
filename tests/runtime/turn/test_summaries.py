"""Summaries of history: which models are asked, and in which parts."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.errors import (
    BadModelReply,
    ContextOverflow,
    ModelAuthError,
    ModelError,
    ModelUnavailable,
)
from nacre.runtime.contracts.model import Ask, ChatModel, ModelRequest, TextDelta
from nacre.runtime.models.cooldown import CooldownFile
from nacre.runtime.models.failover import Candidate, ModelChain
from nacre.runtime.models.scripted import Clock, ScriptedModel, ScriptedStep, fails, says
from nacre.runtime.settings.sections.agents import CompactionSettings
from nacre.runtime.turn.summaries import (
    PartialSummaries,
    Summarizer,
    Summary,
    SummaryLimits,
    SummaryModel,
    SummaryTimedOut,
    digests,
    end_of_part,
    pieces_of,
    summary_limits,
    summary_models,
    summary_of,
)
from nacre.sessions.compaction.cut import CompactionPlan
from nacre.sessions.compaction.facts import SummaryFacts
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    message_text,
    serialize_for_summary,
    user_message,
)
from tests.sessions.talk import answer, result, user


def words(text: str) -> int:
    """One token a word, so that a reader can check it."""
    return len(text.split())


def summary(text: str) -> ScriptedStep:
    return says(f"## Goal\n{text}", purpose="compaction")


def plan(
    *said: str,
    prefix: Sequence[str] = (),
    previous: str | None = None,
    messages: Sequence[Message] = (),
    facts: SummaryFacts | None = None,
) -> CompactionPlan:
    history = [user_message(text, timestamp_ms=1) for text in said]
    return CompactionPlan(
        first_kept_entry_id="kept",
        to_summarize=(*history, *messages),
        turn_prefix=tuple(user_message(text, timestamp_ms=2) for text in prefix),
        tokens_before=100,
        previous_summary=previous,
        facts=facts or SummaryFacts(),
    )


def summarizer(
    ask: Ask,
    *,
    part_tokens: int = 100,
    summary_tokens: int = 300,
    timeout_seconds: float = 60.0,
    instructions: str = "",
    known: dict[str, str] | None = None,
    count_tokens: Callable[[str], int] = words,
) -> Summarizer:
    memory = {} if known is None else known

    async def remember(digest: str, text: str) -> None:
        memory[digest] = text

    limits = SummaryLimits(
        part_tokens=part_tokens, summary_tokens=summary_tokens, timeout_seconds=timeout_seconds
    )
    return Summarizer(
        SummaryModel(name="own/model", ask=ask, limits=limits),
        instructions=instructions,
        count_tokens=count_tokens,
        now_ms=lambda: 3,
        partial=PartialSummaries(known=dict(memory), remember=remember),
    )


def prompts(model: ScriptedModel) -> list[str]:
    return [message_text(request.messages[0]) for request in model.requests]


def said(number: int) -> str:
    """Nine words, ten with the label that a transcript gives them."""
    return f"word{number} " * 9


@pytest.mark.covers("A11-1", "A11-2")
async def test_each_part_is_read_with_the_summary_of_those_before() -> None:
    """Two messages fit a part: three requests, in order, each message in exactly one of them."""
    model = ScriptedModel(summary("one"), summary("two"), summary("three"))
    text = await summarizer(model.stream, part_tokens=21).summarize(plan(*map(said, range(5))))
    model.assert_complete()

    first, second, third = prompts(model)
    assert [f"word{number} " in first for number in range(5)] == [True, True, False, False, False]
    assert "word3 " in second
    assert "<previous-summary>\n## Goal\none\n" in second
    assert "## Goal\ntwo" in third
    assert text == "## Goal\nthree"


async def test_counting_is_done_off_the_event_loop() -> None:
    """Counting megabytes takes seconds, in which other sessions go on."""
    threads: set[int] = set()

    def count_tokens(text: str) -> int:
        threads.add(threading.get_ident())
        return len(text) // 4

    model = ScriptedModel(summary("Bees."), summary("Sugar."))
    reader = summarizer(model.stream, part_tokens=1_000, count_tokens=count_tokens)
    text = await reader.summarize(plan("the hive " * 50, prefix=["sugar " * 10]))

    assert "Bees." in text
    assert "Sugar." in text
    assert threads
    assert threading.get_ident() not in threads


async def test_an_attempt_that_breaks_off_goes_on_where_it_was() -> None:
    """The parts that were read are not read again; the instructions belong to what is remembered."""
    known: dict[str, str] = {}
    history = plan(*map(said, range(6)))
    broken = ScriptedModel(summary("one"), summary("two"), fails(ModelUnavailable("gone")))
    with pytest.raises(ModelUnavailable):
        await summarizer(broken.stream, known=known, part_tokens=21).summarize(history)
    assert sorted(known.values()) == ["## Goal\none", "## Goal\ntwo"]

    later = ScriptedModel(summary("three"))
    text = await summarizer(later.stream, known=known, part_tokens=21).summarize(history)
    later.assert_complete()
    assert text == "## Goal\nthree"
    assert "## Goal\ntwo" in prompts(later)[0]

    other = ScriptedModel(summary("a"), summary("b"), summary("c"))
    await summarizer(other.stream, known=known, part_tokens=21, instructions="bees").summarize(history)
    other.assert_complete()


async def test_what_is_remembered_holds_for_a_history_that_grew() -> None:
    """New messages behind the old ones do not make the first parts new; changed ones do."""
    known: dict[str, str] = {}
    broken = ScriptedModel(summary("one"), fails(ModelUnavailable("gone")))
    with pytest.raises(ModelUnavailable):
        await summarizer(broken.stream, known=known, part_tokens=21).summarize(plan(*map(said, range(4))))

    grown = ScriptedModel(summary("two"), summary("three"))
    await summarizer(grown.stream, known=known, part_tokens=21).summarize(plan(*map(said, range(6))))
    grown.assert_complete()

    changed = ScriptedModel(summary("a"), summary("b"))
    await summarizer(changed.stream, known=known, part_tokens=21).summarize(
        plan(said(9), *map(said, range(1, 4)))
    )
    changed.assert_complete()


@pytest.mark.covers("A11-5", "ASK-5")
async def test_a_part_that_the_model_calls_too_long_is_halved() -> None:
    """A model whose own count is larger gets smaller parts of what is left."""
    model = ScriptedModel(fails(ContextOverflow("too long")), summary("one"), summary("two"))
    text = await summarizer(model.stream, part_tokens=60).summarize(plan(*map(said, range(3))))
    model.assert_complete()

    assert ["word2 " in prompt for prompt in prompts(model)] == [True, False, True]
    assert text == "## Goal\ntwo"


@pytest.mark.covers("ASK-5")
async def test_halving_comes_to_an_end() -> None:
    """After two halvings the model's word is final."""
    model = ScriptedModel(*[fails(ContextOverflow("too long"))] * 3)
    with pytest.raises(ContextOverflow):
        await summarizer(model.stream).summarize(plan(said(1)))
    model.assert_complete()


class Stalling:
    """Answers the first requests from a script, and then never."""

    def __init__(self, *steps: ScriptedStep) -> None:
        self.script = ScriptedModel(*steps)
        self.stalled = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        if self.script.unused_steps:
            async for item in self.script.stream(request):
                yield item
            return
        self.stalled += 1
        await asyncio.Event().wait()


@pytest.mark.covers("ASK-6")
async def test_a_part_that_does_not_end_is_given_up_and_the_others_are_kept() -> None:
    """Each part has its own time; what was read before the stall is there for the next attempt."""
    known: dict[str, str] = {}
    model = Stalling(summary("one"))
    reader = summarizer(model.stream, known=known, part_tokens=21, timeout_seconds=0.02)
    with pytest.raises(SummaryTimedOut, match=r"longer than 0\.02 seconds"):
        await reader.summarize(plan(*map(said, range(4))))

    assert model.stalled == 3
    assert "## Goal\none" in known.values()


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (says(""), "The summary was empty."),
        (says("NO_REPLY"), "The summary was empty."),
        (says("## Goal\nBees", stop_reason="length"), "The summary was cut off"),
        (says("I am sorry, I cannot help with that."), "it had none of the headings"),
    ],
)
@pytest.mark.covers("W8-6")
async def test_an_answer_that_is_no_summary_gets_a_second_try(bad: ScriptedStep, told: str) -> None:
    """The model is told what was wrong; a second answer of that kind is a failure, never a summary."""
    model = ScriptedModel(bad, summary("Bees"))
    assert await summarizer(model.stream).summarize(plan(said(1))) == "## Goal\nBees"
    assert told in prompts(model)[1]

    stubborn = ScriptedModel(bad, bad)
    with pytest.raises(BadModelReply, match="A second try was no better"):
        await summarizer(stubborn.stream).summarize(plan(said(1)))
    stubborn.assert_complete()


RUSSIAN = "Пчёлам нужен сахар до первых морозов, поэтому мы договорились купить его в пятницу. " * 3
CHINESE = "我们决定在星期五之前给蜜蜂买糖,因为霜冻快要来了,并且要检查所有的蜂箱是否完好。" * 4
ENGLISH = "## Goal\n" + "The bees need sugar before the frost, and it will be bought on Friday. " * 3


@pytest.mark.parametrize("talk", [RUSSIAN, CHINESE])
@pytest.mark.covers("ASK-19")
async def test_a_summary_in_another_writing_gets_a_second_try(talk: str) -> None:
    """A conversation in Cyrillic or Chinese is not summarized in English without a word about it.

    A summary in English is still better than a second answer that is none.
    """
    model = ScriptedModel(says(ENGLISH), says(f"## Goal\n{talk}"))
    text = await summarizer(model.stream, part_tokens=500).summarize(plan(talk))
    model.assert_complete()
    assert talk.strip() in text

    wanted = ScriptedModel(says(ENGLISH))
    await summarizer(wanted.stream, part_tokens=500, instructions="In English.").summarize(plan(talk))
    wanted.assert_complete()

    for second in (says(ENGLISH), says("I am sorry, I cannot help with that.")):
        stubborn = ScriptedModel(says(ENGLISH), second)
        assert await summarizer(stubborn.stream, part_tokens=500).summarize(plan(talk)) == ENGLISH.strip()


@pytest.mark.covers("W8-8")
async def test_instructions_are_in_every_request() -> None:
    """Parts of the history and the beginning of a cut turn alike: what the owner wants holds everywhere."""
    model = ScriptedModel(summary("one"), summary("two"), says("## Original Request\nSugar"))
    reader = summarizer(model.stream, part_tokens=21, instructions="Write it in Portuguese.")
    await reader.summarize(plan(*map(said, range(4)), prefix=["sugar"]))
    model.assert_complete()
    assert all("Write it in Portuguese." in prompt for prompt in prompts(model))


@pytest.mark.covers("A11-2", "ASK-20")
async def test_a_previous_summary_that_is_too_large_is_distilled() -> None:
    """Another program's summary of any length is read in parts like the history; nothing of it is cut off."""
    model = ScriptedModel(*[summary(str(number)) for number in range(9)])
    previous = "## Goal\n" + "\n".join(f"old{number} " * 8 for number in range(8))
    reader = summarizer(model.stream, part_tokens=21, summary_tokens=8)
    await reader.summarize(plan(said(0), previous=previous))

    read = "\n".join(prompts(model))
    assert [number for number in range(8) if read.count(f"old{number} ") < 8] == []
    assert "<previous-summary>\n## Goal\nold" not in read


async def test_the_beginning_of_a_long_turn_is_read_in_parts() -> None:
    """All of it but the last part goes with the history, so that the joined text keeps its bounds."""
    model = ScriptedModel(summary("one"), summary("two"), says("## Original Request\nlast"))
    text = await summarizer(model.stream, part_tokens=21).summarize(
        plan(prefix=[said(number) for number in range(5)])
    )
    model.assert_complete()

    assert text.startswith("## Goal\ntwo")
    assert "## Original Request\nlast" in text
    assert "word4" in prompts(model)[2]
    assert "word3" in prompts(model)[1]


async def test_facts_stand_below_the_models_words() -> None:
    """What code knows is there whatever the model wrote."""
    model = ScriptedModel(summary("Bees"))
    text = await summarizer(model.stream).summarize(
        plan(said(1), facts=SummaryFacts(tool_failures=("shell: no sugar",), read_files=("hive.md",)))
    )
    assert text == (
        "## Goal\nBees\n\n## Tool Failures\n- shell: no sugar\n\n<read-files>\nhive.md\n</read-files>"
    )


def texts(messages: list[Message], most_tokens: int) -> list[str]:
    return [piece.text for piece in pieces_of(messages, most_tokens=most_tokens, count_tokens=words)]


@pytest.mark.covers("A11-3")
def test_a_call_and_its_results_are_one_piece() -> None:
    """Also when somebody spoke in between, and with other messages around them."""
    messages: list[Message] = [
        user("go"),
        answer("", "c1", "c2"),
        result("c1", "one"),
        user("hm"),
        result("c2", "two"),
        answer("done"),
    ]
    assert [text.count("[") for text in texts(messages, 100)] == [1, 4, 1]


def test_an_extract_reads_everything_at_once_and_counts_nothing() -> None:
    """Where there is no limit, all messages are one piece, in the words of the pieces that a limit makes."""

    def count(text: str) -> int:
        raise AssertionError(text)

    messages: list[Message] = [user("go"), answer("", "c1"), result("c1", "one"), answer("done"), user("")]
    [piece] = pieces_of(messages, most_tokens=sys.maxsize, count_tokens=count)
    assert piece.text == "\n\n".join(texts(messages, 100))
    assert pieces_of([user("")], most_tokens=sys.maxsize, count_tokens=count) == []


@pytest.mark.covers("A11-3")
def test_calls_without_results_hold_nothing_back() -> None:
    """A call that was aborted or never answered does not tie what follows to it."""
    messages: list[Message] = [answer("hm", "c1", stop_reason="aborted"), user("again"), answer("ok")]
    assert len(texts(messages, 100)) == 3
    assert len(texts([result("lost", "x"), user("a")], 100)) == 2


def test_a_group_that_is_too_long_is_taken_apart_at_messages_first() -> None:
    """Only what does not fit a request by itself is cut inside."""
    messages: list[Message] = [answer("", "c1"), result("c1", "w " * 30), user("next")]
    pieces = texts(messages, 20)
    assert pieces[0].startswith("[Assistant tool calls]")
    assert all(words(piece) <= 20 for piece in pieces)
    assert "".join(pieces).count("w ") == 30


MESSAGE = st.tuples(st.sampled_from(["user", "answer", "tools", "late"]), st.integers(1, 40))


@given(talk=st.lists(MESSAGE, max_size=12), most_tokens=st.integers(1, 60), other_tokens=st.integers(1, 60))
@pytest.mark.covers("A11-1")
def test_pieces_keep_every_word_in_order(
    talk: list[tuple[str, int]], most_tokens: int, other_tokens: int
) -> None:
    """Whatever the limit: no word lost or moved, no piece too long, the same name for the whole."""
    messages: list[Message] = []
    for number, (kind, size) in enumerate(talk):
        text = f"#{number} " + "w " * size
        if kind in ("tools", "late"):
            messages.append(answer("", f"c{number}"))
            if kind == "late":
                messages.append(user("wait"))
            messages.append(result(f"c{number}", text))
        else:
            messages.append(user(text) if kind == "user" else answer(text))

    pieces = pieces_of(messages, most_tokens=most_tokens, count_tokens=words)
    assert "".join("".join(piece.text for piece in pieces).split()) == "".join(
        serialize_for_summary(messages).split()
    )
    assert all(piece.tokens <= most_tokens for piece in pieces if len(piece.text.split()) > 1)

    start, parts = 0, 0
    while start < len(pieces):
        end = end_of_part(pieces, start, most_tokens=most_tokens)
        assert end > start
        start, parts = end, parts + 1
    assert parts <= len(pieces)

    others = pieces_of(messages, most_tokens=other_tokens, count_tokens=words)
    assert digests("x", pieces)[-1] == digests("x", others)[-1]
    assert digests("x", pieces)[-1] != digests("y", pieces)[-1]


PLAN = CompactionPlan(
    first_kept_entry_id="kept",
    to_summarize=(user_message("feed the bees", timestamp_ms=1),),
    turn_prefix=(),
    tokens_before=100,
    previous_summary=None,
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


async def test_the_first_model_that_summarizes_is_the_only_one_asked() -> None:
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
    """Garbage, and a conversation that is too long for the summarizer too, would come again."""
    _, model = rung("a/large", *steps)
    offline, extractor = rung("offline/extractive", GOOD)
    summary = await climbed(model, extractor=extractor)
    offline.assert_complete()
    assert summary.is_extract
    assert summary.problem


@pytest.mark.parametrize("error", [ModelAuthError("no key"), ModelUnavailable("gone")])
@pytest.mark.covers("W8-9")
async def test_a_provider_that_is_away_is_no_reason_for_an_extract(error: ModelError) -> None:
    """The history waits for it, whole."""
    _, model = rung("a/large", fails(error))
    offline, extractor = rung("offline/extractive", GOOD)
    with pytest.raises(type(error), match=str(error)):
        await climbed(model, extractor=extractor)
    assert offline.requests == []


async def test_a_history_that_may_wait_is_not_extracted_for_a_slow_model() -> None:
    """A time-out or an overflow of the summarizer is tried again later, from where it stopped."""
    _, model = rung("a/large", *[fails(ContextOverflow("too long"))] * 3)
    with pytest.raises(ContextOverflow):
        await climbed(model, must_shrink=False)


@pytest.mark.covers("W8-9", "ASK-2")
async def test_when_nobody_can_all_reasons_are_told() -> None:
    """The last failure's kind, with the words of every model and of the extractor."""
    _, first = rung("a/small", fails(ModelAuthError("no key")))
    _, second = rung("a/large", GARBAGE, GARBAGE)
    with pytest.raises(BadModelReply, match=r"a/small: no key a/large: .* not a summary.*Nothing to extract"):
        await climbed(first, second)


@pytest.mark.covers("A11-5", "ASK-5")
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
    """One message, labeled and between tags, so that no model goes on with what it reads."""
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
