"""Cases and scorers to measure an agent with, and recorded conversations to replay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime
from inspect import isawaitable
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

from nacre.prompts import render
from nacre.record import Record
from nacre.runtime.agent.agent import Agent
from nacre.runtime.agent.answering import owner_message
from nacre.runtime.contracts.errors import AgentError
from nacre.runtime.contracts.events import ReplyReady, Silence, ToolEnded, TurnFailed
from nacre.runtime.contracts.model import ChatModel, ModelRequest, SystemPrompt
from nacre.runtime.models.failover import whole_answer
from nacre.runtime.models.scripted import ScriptedModel, ScriptedStep
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    ToolResultMessage,
    Usage,
    UserMessage,
    message_text,
    user_message,
)
from nacre.sessions.journal.journal import read_transcript


class Case(Record):
    """One conversation of a data set: what is asked, one message after the other, and what is expected."""

    name: str
    asks: tuple[str, ...]
    expected: Any = None

    def __str__(self) -> str:
        return self.name


class CaseRun(Record):
    """The run of a case. `replies` has a text for each message, empty for silence.

    `error` ended the conversation, if anything did. `usage` is what its model calls cost.
    """

    case: Case
    replies: tuple[str, ...]
    tools: tuple[ToolEnded, ...] = ()
    usage: Usage = Usage()
    error: AgentError | None = None

    @property
    def reply(self) -> str:
        """The last reply."""
        return self.replies[-1] if self.replies else ""


class Score(Record):
    """How good a run is, from 0 to 1, and why."""

    value: float
    why: str = ""


Scored: TypeAlias = Score | float | bool
Scorer: TypeAlias = Callable[[CaseRun], Scored | Awaitable[Scored]]
"""Judges a run. Its `__name__` is its column."""
OpenAgent: TypeAlias = Callable[[], AbstractAsyncContextManager[Agent]]


class Evaluation(Record):
    """The runs of all cases, and the scores of each by the names of the scorers."""

    runs: tuple[CaseRun, ...]
    scores: tuple[Mapping[str, Score], ...]

    def mean(self, scorer: str) -> float:
        """The mean score of one scorer. Raises `KeyError` for one that is not there."""
        return fmean(scores[scorer].value for scores in self.scores)

    def assert_at_least(self, **least: float) -> None:
        """Raises `AssertionError` with the whole table if the mean of a scorer is lower."""
        low = {name: self.mean(name) for name, value in least.items() if self.mean(name) < value}
        if low:
            text = ", ".join(f"{name} is {mean:.2f} and not {least[name]:.2f}" for name, mean in low.items())
            raise AssertionError(f"{text}\n{self}")

    def __str__(self) -> str:
        names = tuple(self.scores[0]) if self.scores else ()
        lines = [" ".join(("case".ljust(24), *names))]
        for run, scores in zip(self.runs, self.scores, strict=True):
            values = [f"{scores[name].value:.2f}".ljust(len(name)) for name in names]
            why = "; ".join(score.why for score in scores.values() if score.why)
            lines.append(" ".join((run.case.name.ljust(24), *values, str(run.error or why))).rstrip())
        means = [f"{self.mean(name):.2f}".ljust(len(name)) for name in names]
        return "\n".join((*lines, " ".join(("mean".ljust(24), *means)).rstrip()))


async def run_case(agent: Agent, case: Case) -> CaseRun:
    """Says the messages of a case to an agent, as its owner. An error of a turn ends the conversation."""
    replies: list[str] = []
    tools: list[ToolEnded] = []
    usage, error = Usage(), None
    for text in case.asks:
        async for event in agent.stream(owner_message(text, "")):
            match event:
                case ToolEnded():
                    tools.append(event)
                case ReplyReady(reply=reply):
                    replies.append(reply.text)
                    usage += reply.usage or Usage()
                case Silence():
                    replies.append("")
                case TurnFailed():
                    error = event.error
                case _:
                    pass
        if error is not None:
            break
    return CaseRun(case=case, replies=tuple(replies), tools=tuple(tools), usage=usage, error=error)


async def evaluate(
    cases: Iterable[Case], open_agent: OpenAgent, *scorers: Scorer, at_once: int = 4
) -> Evaluation:
    """Runs each case with an agent of its own, `at_once` at a time, and scores it.

    `open_agent` opens one, such as `lambda: Agent.open(state_dir=tempfile.mkdtemp(), tools=[honey])`. A run
    that ends with an error scores 0 everywhere.

    Raises:
        ValueError: there is no case or no scorer, or two scorers have the same name.
    """
    listed, names = tuple(cases), [scorer.__name__ for scorer in scorers]
    if not listed or not names or len(set(names)) < len(names):
        raise ValueError(f"evaluate needs cases, and scorers with different names; it got {names}.")
    places = asyncio.Semaphore(at_once)

    async def measured(case: Case) -> tuple[CaseRun, Mapping[str, Score]]:
        async with places, open_agent() as agent:
            run = await run_case(agent, case)
        if run.error is not None:
            return run, dict.fromkeys(names, Score(value=0))
        return run, {name: await _score(scorer, run) for name, scorer in zip(names, scorers, strict=True)}

    done = await asyncio.gather(*(measured(case) for case in listed))
    return Evaluation(runs=tuple(run for run, _ in done), scores=tuple(scores for _, scores in done))


async def _score(scorer: Scorer, run: CaseRun) -> Score:
    scored = scorer(run)
    value = await scored if isawaitable(scored) else scored
    return value if isinstance(value, Score) else Score(value=float(value))


def found(run: CaseRun) -> Score:
    """Which share of the expected texts, one or a list of them, the last reply has; case is ignored."""
    expected = run.case.expected
    wanted = [expected] if isinstance(expected, str) else list(expected or ())
    missing = [text for text in wanted if text.casefold() not in run.reply.casefold()]
    why = f"not in the reply: {', '.join(missing)}" if missing else ""
    return Score(value=1 - len(missing) / max(1, len(wanted)), why=why)


def called(*tools: str) -> Scorer:
    """Makes a scorer: which share of these tools was called without an error."""

    def called(run: CaseRun) -> Score:
        worked = {each.tool_name for each in run.tools if not each.is_error}
        missing = [name for name in tools if name not in worked]
        why = f"not called: {', '.join(missing)}" if missing else ""
        return Score(value=1 - len(missing) / len(tools), why=why)

    return called


def judged(model: ChatModel, rubric: str) -> Scorer:
    """Makes a scorer that asks a model. It reads the `rubric` and the conversation.

    Its answer begins with `yes`, `no`, or a number from 0 to 1; the rest is the reason. Any other answer
    scores 0.
    """

    async def judged(run: CaseRun) -> Score:
        said = "\n\n".join(
            f"> {ask}\n\n{reply}" for ask, reply in zip(run.case.asks, run.replies, strict=False)
        )
        request = ModelRequest(
            system=SystemPrompt(stable=render("session/judge", rules=rubric)),
            messages=(user_message(said, timestamp_ms=0),),
        )
        answer = message_text(await whole_answer(model, request)).strip()
        first, _, why = " ".join(answer.split()).partition(" ")
        word = first.strip(".,:;!*`").casefold()
        try:
            value = {"yes": 1.0, "no": 0.0}.get(word)
            value = float(word) if value is None else value
        except ValueError:
            return Score(value=0, why=f"the judge said {answer[:60]!r}")
        return Score(value=min(1.0, max(0.0, value)), why=why.strip() if value < 1 else "")

    return judged


def read_cases(path: Path | str) -> tuple[Case, ...]:
    """The cases of a JSONL file, one a line: `{"name": "depth", "ask": "How deep?", "expected": "four"}`.

    `ask` may be a list of messages. Without a `name`, the number of the line is the name.

    Raises:
        ValueError: a line is not such an object; the message has its number.
    """
    cases: list[Case] = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
            asks = (raw["ask"],) if isinstance(raw["ask"], str) else tuple(raw["ask"])
            if not asks or not all(isinstance(each, str) for each in asks):
                raise TypeError("ask is neither a text nor a list of texts")
            cases.append(Case(name=str(raw.get("name", number)), asks=asks, expected=raw.get("expected")))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"Line {number} of {path} is not a case: {error!r}.") from error
    return tuple(cases)


class Recording(Record):
    """A recorded conversation: what people said, and what the model answered.

    `results` has, for each answer, the results of tools that the model read before it.
    """

    name: str
    asks: tuple[str, ...]
    steps: tuple[ScriptedStep, ...]
    results: tuple[tuple[str, ...], ...]

    @property
    def case(self) -> Case:
        """What people said, as a case."""
        return Case(name=self.name, asks=self.asks)

    def model(self, *, checks_results: bool = False) -> ScriptedModel:
        """A model with the recorded answers, in order, and the recorded usage.

        With `checks_results`, it answers only if the tools before the answer had the recorded results.
        """
        if not checks_results:
            return ScriptedModel(*self.steps)
        return ScriptedModel(*map(_checked, self.steps, self.results))


def _checked(step: ScriptedStep, results: Sequence[str]) -> ScriptedStep:
    if not results:
        return step

    def check(request: ModelRequest) -> None:
        texts = [message_text(each) for each in request.messages if isinstance(each, ToolResultMessage)]
        now = tuple(texts[-len(results) :])
        if now != tuple(results):
            raise AssertionError(f"the tools gave {now}, and {tuple(results)} was recorded")

    return replace(step, check=check)


async def read_recording(path: Path | str) -> Recording:
    """Reads a session's transcript, `<state>/agents/<id>/sessions/<session id>.jsonl`, to replay it.

    The conversation is the current branch. Answers that broke off, notes and summaries are left out.

    Raises:
        SessionError: the file is missing, or is not a transcript.
    """
    file = Path(path)
    stored = await read_transcript(file, session_id=file.stem, now=lambda: datetime.fromtimestamp(0, UTC))
    asks: list[str] = []
    steps: list[ScriptedStep] = []
    before: list[tuple[str, ...]] = []
    results: list[str] = []
    for entry in stored.branch:
        match entry.body:
            case UserMessage():
                asks.append(message_text(entry.body))
            case ToolResultMessage():
                results.append(message_text(entry.body))
            case AssistantMessage(stop_reason="stop" | "toolUse" | "length") as answer:
                steps.append(
                    ScriptedStep(
                        text=message_text(answer),
                        tool_calls=tuple((call.name, call.arguments) for call in answer.tool_calls),
                        usage=answer.usage,
                        stop_reason=answer.stop_reason,
                    )
                )
                before.append(tuple(results))
                results.clear()
            case _:
                pass
    return Recording(name=file.stem, asks=tuple(asks), steps=tuple(steps), results=tuple(before))
