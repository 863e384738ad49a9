"""A history is read through a model part by part; whatever the model does, nothing false comes out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from nacre.runtime.contracts.errors import BadModelReply, ContextOverflow, ModelUnavailable
from nacre.runtime.contracts.model import Ask, ModelRequest, TextDelta
from nacre.runtime.models.scripted import ScriptedModel, ScriptedStep, fails, says
from nacre.runtime.turn.window.summaries.summariser import (
    PartialSummaries,
    Summariser,
    SummaryLimits,
    SummaryTimedOut,
)
from nacre.sessions.compaction.cut import CompactionPlan
from nacre.sessions.compaction.facts import SummaryFacts
from nacre.sessions.contracts.messages import AssistantMessage, Message, message_text, user_message


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
        to_summarise=(*history, *messages),
        turn_prefix=tuple(user_message(text, timestamp_ms=2) for text in prefix),
        tokens_before=100,
        previous_summary=previous,
        kept_tokens=1,
        facts=facts or SummaryFacts(),
    )


def summariser(
    ask: Ask,
    *,
    part_tokens: int = 100,
    summary_tokens: int = 300,
    timeout_seconds: float = 60.0,
    instructions: str = "",
    known: dict[str, str] | None = None,
    count_tokens: Callable[[str], int] = words,
) -> Summariser:
    memory = {} if known is None else known

    async def remember(digest: str, text: str) -> None:
        memory[digest] = text

    return Summariser(
        ask=ask,
        limits=SummaryLimits(
            part_tokens=part_tokens, summary_tokens=summary_tokens, timeout_seconds=timeout_seconds
        ),
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


async def test_each_part_is_read_with_the_summary_of_those_before() -> None:
    """Two messages fit a part: three requests, in order, each message in exactly one of them."""
    model = ScriptedModel(summary("one"), summary("two"), summary("three"))
    text = await summariser(model.stream, part_tokens=21).summarise(plan(*map(said, range(5))))
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
    reader = summariser(model.stream, part_tokens=1_000, count_tokens=count_tokens)
    text = await reader.summarise(plan("the hive " * 50, prefix=["sugar " * 10]))

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
        await summariser(broken.stream, known=known, part_tokens=21).summarise(history)
    assert sorted(known.values()) == ["## Goal\none", "## Goal\ntwo"]

    later = ScriptedModel(summary("three"))
    text = await summariser(later.stream, known=known, part_tokens=21).summarise(history)
    later.assert_complete()
    assert text == "## Goal\nthree"
    assert "## Goal\ntwo" in prompts(later)[0]

    other = ScriptedModel(summary("a"), summary("b"), summary("c"))
    await summariser(other.stream, known=known, part_tokens=21, instructions="bees").summarise(history)
    other.assert_complete()


async def test_what_is_remembered_holds_for_a_history_that_grew() -> None:
    """New messages behind the old ones do not make the first parts new; changed ones do."""
    known: dict[str, str] = {}
    broken = ScriptedModel(summary("one"), fails(ModelUnavailable("gone")))
    with pytest.raises(ModelUnavailable):
        await summariser(broken.stream, known=known, part_tokens=21).summarise(plan(*map(said, range(4))))

    grown = ScriptedModel(summary("two"), summary("three"))
    await summariser(grown.stream, known=known, part_tokens=21).summarise(plan(*map(said, range(6))))
    grown.assert_complete()

    changed = ScriptedModel(summary("a"), summary("b"))
    await summariser(changed.stream, known=known, part_tokens=21).summarise(
        plan(said(9), *map(said, range(1, 4)))
    )
    changed.assert_complete()


async def test_a_part_that_the_model_calls_too_long_is_halved() -> None:
    """A model whose own count is larger gets smaller parts of what is left."""
    model = ScriptedModel(fails(ContextOverflow("too long")), summary("one"), summary("two"))
    text = await summariser(model.stream, part_tokens=60).summarise(plan(*map(said, range(3))))
    model.assert_complete()

    assert ["word2 " in prompt for prompt in prompts(model)] == [True, False, True]
    assert text == "## Goal\ntwo"


async def test_halving_comes_to_an_end() -> None:
    """After two halvings the model's word is final."""
    model = ScriptedModel(*[fails(ContextOverflow("too long"))] * 3)
    with pytest.raises(ContextOverflow):
        await summariser(model.stream).summarise(plan(said(1)))
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


async def test_a_part_that_does_not_end_is_given_up_and_the_others_are_kept() -> None:
    """Each part has its own time; what was read before the stall is there for the next attempt."""
    known: dict[str, str] = {}
    model = Stalling(summary("one"))
    reader = summariser(model.stream, known=known, part_tokens=21, timeout_seconds=0.02)
    with pytest.raises(SummaryTimedOut, match=r"longer than 0\.02 seconds"):
        await reader.summarise(plan(*map(said, range(4))))

    assert model.stalled == 3
    assert "## Goal\none" in known.values()


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (says(""), "The summary was empty."),
        (says("NO_REPLY"), "The summary was empty."),
        (says("## Goal\nBees", stop_reason="length"), "The summary was cut off at 300 tokens."),
        (says("I am sorry, I cannot help with that."), "it had none of the headings"),
    ],
)
async def test_an_answer_that_is_no_summary_gets_a_second_try(bad: ScriptedStep, told: str) -> None:
    """The model is told what was wrong; a second answer of that kind is a failure, never a summary."""
    model = ScriptedModel(bad, summary("Bees"))
    assert await summariser(model.stream).summarise(plan(said(1))) == "## Goal\nBees"
    assert told in prompts(model)[1]

    stubborn = ScriptedModel(bad, bad)
    with pytest.raises(BadModelReply, match="A second try was no better"):
        await summariser(stubborn.stream).summarise(plan(said(1)))
    stubborn.assert_complete()


RUSSIAN = "Пчёлам нужен сахар до первых морозов, поэтому мы договорились купить его в пятницу. " * 3
CHINESE = "我们决定在星期五之前给蜜蜂买糖,因为霜冻快要来了,并且要检查所有的蜂箱是否完好。" * 4
ENGLISH = "## Goal\n" + "The bees need sugar before the frost, and it will be bought on Friday. " * 3


@pytest.mark.parametrize("talk", [RUSSIAN, CHINESE])
async def test_a_summary_in_another_writing_gets_a_second_try(talk: str) -> None:
    """A conversation in Cyrillic or Chinese is not summarised in English without a word about it."""
    model = ScriptedModel(says(ENGLISH), says(f"## Goal\n{talk}"))
    text = await summariser(model.stream, part_tokens=500).summarise(plan(talk))
    model.assert_complete()
    assert talk.strip() in text

    wanted = ScriptedModel(says(ENGLISH))
    await summariser(wanted.stream, part_tokens=500, instructions="In English.").summarise(plan(talk))
    wanted.assert_complete()

    stubborn = ScriptedModel(says(ENGLISH), says(ENGLISH))
    assert await summariser(stubborn.stream, part_tokens=500).summarise(plan(talk)) == ENGLISH.strip()


async def test_instructions_are_in_every_request() -> None:
    """Parts of the history and the beginning of a cut turn alike: what the owner wants holds everywhere."""
    model = ScriptedModel(summary("one"), summary("two"), says("## Original Request\nSugar"))
    reader = summariser(model.stream, part_tokens=21, instructions="Write it in Portuguese.")
    await reader.summarise(plan(*map(said, range(4)), prefix=["sugar"]))
    model.assert_complete()
    assert all("Write it in Portuguese." in prompt for prompt in prompts(model))


async def test_a_previous_summary_that_is_too_large_is_distilled() -> None:
    """Another program's summary of any length is read in parts like the history; nothing of it is cut off."""
    model = ScriptedModel(*[summary(str(number)) for number in range(9)])
    previous = "## Goal\n" + "\n".join(f"old{number} " * 8 for number in range(8))
    reader = summariser(model.stream, part_tokens=21, summary_tokens=8)
    await reader.summarise(plan(said(0), previous=previous))

    read = "\n".join(prompts(model))
    assert [number for number in range(8) if read.count(f"old{number} ") < 8] == []
    assert "<previous-summary>\n## Goal\nold" not in read


async def test_the_beginning_of_a_long_turn_is_read_in_parts() -> None:
    """All of it but the last part goes with the history, so that the joined text keeps its bounds."""
    model = ScriptedModel(summary("one"), summary("two"), says("## Original Request\nlast"))
    text = await summariser(model.stream, part_tokens=21).summarise(
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
    text = await summariser(model.stream).summarise(
        plan(said(1), facts=SummaryFacts(tool_failures=("shell: no sugar",), read_files=("hive.md",)))
    )
    assert text == (
        "## Goal\nBees\n\n## Tool Failures\n- shell: no sugar\n\n<read-files>\nhive.md\n</read-files>"
    )
