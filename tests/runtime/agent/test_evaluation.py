"""Cases, scorers and recorded conversations, as an author's tests use them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from nacre import Agent, Inbound, ModelError, tool
from nacre.runtime.agent.evaluation import OpenAgent
from nacre.sessions.contracts.errors import SessionNotFound
from nacre.sessions.contracts.messages import Usage, message_text
from nacre.testing import (
    Case,
    CaseRun,
    ProviderServer,
    Score,
    ScriptedModel,
    ScriptViolation,
    called,
    calls,
    evaluate,
    fails,
    found,
    judged,
    read_cases,
    read_recording,
    run_case,
    says,
)
from tests.runtime.agents import opened, transcript_file

COST = Usage(input_tokens=7, output_tokens=2)


@tool
def depth(harbor: str) -> str:
    """How deep a harbor is."""
    return f"{harbor}: four metres"


@tool(name="depth")
def shallow(harbor: str) -> str:
    """How deep a harbor is."""
    return f"{harbor}: two metres"


CASES = (
    Case(name="horta", asks=("How deep is Horta?", "And in feet?"), expected=["13", "feet"]),
    Case(name="lajes", asks=("How deep is Lajes?",), expected="four"),
)


def agents(folder: Path, *models: Callable[[], ScriptedModel]) -> OpenAgent:
    """Opens an agent with the next model."""
    numbers = itertools.count()

    def open_agent() -> object:
        number = next(numbers)
        return Agent.open(
            state_dir=folder / str(number),
            model=models[number](),
            tools=[depth],
            environment={},
            watch=False,
        )

    return open_agent  # type: ignore[return-value]


async def test_each_case_has_an_agent_of_its_own_and_a_score_of_each_scorer(tmp_path: Path) -> None:
    """Replies, tools, usage and means; a lower mean fails with the table."""
    opening = agents(
        tmp_path,
        lambda: ScriptedModel(
            calls(("depth", {"harbor": "Horta"}), usage=COST), says("Four."), says("13 FEET.", usage=COST)
        ),
        lambda: ScriptedModel(says("I do not know.")),
    )
    evaluation = await evaluate(CASES, opening, found, called("depth"), at_once=1)
    horta, lajes = evaluation.runs
    assert (horta.replies, horta.usage.input_tokens) == (("Four.", "13 FEET."), 14)
    assert [each.tool_name for each in horta.tools] == ["depth"]
    assert (evaluation.mean("found"), evaluation.mean("called")) == (0.5, 0.5)
    evaluation.assert_at_least(found=0.5)
    with pytest.raises(AssertionError, match=r"found is 0.50 and not 0.90") as told:
        evaluation.assert_at_least(found=0.9)
    assert "lajes                    0.00  0.00   not in the reply: four; not called: depth" in str(
        told.value
    )
    assert lajes.reply == "I do not know."


async def test_a_turn_that_fails_ends_its_case_with_zero(tmp_path: Path) -> None:
    """The error stands in the run, and the others go on."""
    opening = agents(tmp_path, lambda: ScriptedModel(fails(ModelError("It is broken."))))
    evaluation = await evaluate(CASES[:1], opening, found)
    assert (evaluation.runs[0].replies, evaluation.mean("found")) == ((), 0)
    assert "It is broken." in str(evaluation)
    with pytest.raises(ValueError, match="scorers with different names"):
        await evaluate(CASES, opening, found, found)


@pytest.mark.parametrize(
    ("answer", "value", "why"),
    [
        ("Yes. It is polite.", 1, ""),
        ("no, it is rude", 0, "it is rude"),
        ("0.25 hardly", 0.25, "hardly"),
        ("Well", 0, "the judge said 'Well'"),
    ],
)
async def test_a_judge_reads_the_rubric_and_the_conversation(answer: str, value: float, why: str) -> None:
    """Its first word is the score, and an answer that is none is no success."""
    judge = ScriptedModel(says(answer))
    run = CaseRun(case=CASES[1], replies=("Four metres.",))
    assert await judged(judge, "Is it polite?")(run) == Score(value=value, why=why)
    (request,) = judge.requests
    assert request.system.stable.startswith("Is it polite?\n\n")
    assert message_text(request.messages[0]) == "> How deep is Lajes?\n\nFour metres."


def test_cases_are_read_from_a_file(tmp_path: Path) -> None:
    """One a line; a line that is none is named."""
    file = tmp_path / "cases.jsonl"
    file.write_text('{"ask": "One?"}\n\n{"name": "b", "ask": ["a", "b"], "expected": ["c"]}\n')
    assert read_cases(file) == (
        Case(name="1", asks=("One?",)),
        Case(name="b", asks=("a", "b"), expected=["c"]),
    )
    file.write_text('{"ask": "One?"}\n{"question": "Two?"}\n')
    with pytest.raises(ValueError, match=r"Line 2 of .* is not a case: KeyError\('ask'\)"):
        read_cases(file)


async def test_a_recorded_conversation_is_replayed(tmp_path: Path) -> None:
    """The same words, calls and usage; a tool that answers otherwise is found, and the script is used up."""
    first = ScriptedModel(
        calls(("depth", {"harbor": "Horta"}), text="Let me look.", usage=COST),
        says("Four metres.", usage=COST),
        says("You are welcome."),
    )
    async with opened(tmp_path / "old", first, tools=[depth]) as agent:
        await agent.ask("How deep is Horta?")
        await agent.ask("Thanks")
    recording = await read_recording(transcript_file(tmp_path / "old"))
    assert recording.asks == ("How deep is Horta?", "Thanks")

    model = recording.model(checks_results=True)
    async with opened(tmp_path / "new", model, tools=[depth]) as agent:
        run = await run_case(agent, recording.case)
    model.assert_complete()
    assert run.replies == ("Four metres.", "You are welcome.")
    assert run.usage.input_tokens == 14
    assert [each.result for each in run.tools] == ["Horta: four metres"]

    changed = recording.model(checks_results=True)
    async with opened(tmp_path / "changed", changed, tools=[shallow]) as agent:
        assert (await run_case(agent, recording.case)).error is not None
    with pytest.raises(ScriptViolation, match=r"the tools gave \('Horta: two metres',\)"):
        changed.assert_complete()
    with pytest.raises(SessionNotFound):
        await read_recording(tmp_path / "nothing.jsonl")


async def test_answers_that_broke_off_are_not_replayed(tmp_path: Path) -> None:
    """Nobody was sent them as an answer."""
    first = ScriptedModel(fails(ModelError("It is broken."), after_text="Four"), says("Four metres."))
    async with opened(tmp_path, first) as agent:
        with pytest.raises(ModelError):
            await agent.ask("How deep?")
        await agent.ask("How deep, please?")
    recording = await read_recording(transcript_file(tmp_path))
    assert [step.text for step in recording.steps] == ["Four metres."]


async def test_a_scripted_provider_answers_over_http(tmp_path: Path) -> None:
    """An agent reaches it as any other server; a request that is not in its script fails the test."""
    async with ProviderServer() as provider:
        provider.tool_calls(("depth", {"harbor": "Horta"}))
        provider.reply("Four metres.")
        async with Agent.open(
            state_dir=tmp_path, model=f"{provider.url}/some-model", tools=[depth], environment={}, watch=False
        ) as agent:
            reply = await agent.respond(Inbound(text="How deep?", chat_kind="direct", is_owner=True))
    assert reply is not None
    assert reply.text == "Four metres."
    assert provider.requests[1]["messages"][-1]["content"] == "Horta: four metres"
    with pytest.raises(AssertionError, match="not used"):
        async with ProviderServer() as unasked:
            unasked.reply("Hello?")
