"""Typed answers: what `output_type` gives, and what the transcript holds of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from nacre import Agent, CommandContext, Deny, ReplyLeaves, command, sub_agent, tool
from nacre.runtime.contracts.errors import ConfigError, OutputInvalid
from nacre.runtime.contracts.events import AnswerDiscarded, Event, ReplyReady, TurnFailed
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.scripted import ScriptedModel, calls, fails, says
from nacre.sessions.contracts.messages import ToolResultMessage, message_text
from tests.runtime.agents import entries, opened, said, transcript_file


class Trip(BaseModel):
    """A journey by boat."""

    harbor: str
    starts: date
    days: int = Field(ge=1)


@dataclass
class Crew:
    names: list[str]


TRIP = {"harbor": "Horta", "starts": "2026-05-01", "days": 4}
FINAL = ("final_answer", {"answer": TRIP})


class SchemaModel(ScriptedModel):
    """A scripted model that obeys a schema."""

    takes_output_schema = True


def messages(state_dir: Path) -> list[dict[str, Any]]:
    """The messages of the model, of tools and of programs in the first transcript."""
    found: list[dict[str, Any]] = []
    for entry in entries(transcript_file(state_dir)):
        if entry["type"] == "message" and entry["message"]["role"] != "user":
            found.append(entry["message"])
        elif entry.get("customType") == "nacre.output":
            found.append({"role": "program", "text": entry["content"]})
    return found


async def test_the_reply_has_the_value_that_the_model_gave_by_a_tool(tmp_path: Path) -> None:
    """The transcript holds the value as the assistant's text, so that later turns know it."""

    def offered(request: ModelRequest) -> None:
        [final] = [spec for spec in request.tools if spec.name == "final_answer"]
        assert final.parameters["required"] == ["answer"]
        assert request.output is None

    def remembers(request: ModelRequest) -> None:
        assert "Horta" in message_text(request.messages[-2])
        assert "final_answer" not in [spec.name for spec in request.tools]

    model = ScriptedModel(calls(FINAL, check=offered), says("To Horta.", check=remembers))
    async with opened(tmp_path, model) as agent:
        reply = await agent.ask("Plan a trip", output_type=Trip)
        after = await agent.ask("Where to?")

    assert reply.output == Trip(harbor="Horta", starts=date(2026, 5, 1), days=4)
    assert Trip.model_validate_json(reply.text) == reply.output
    assert after is not None
    assert after.output is None
    answer, _ = messages(tmp_path)
    assert [block["type"] for block in answer["content"]] == ["text"]
    assert (answer["content"][0]["text"], answer["stopReason"]) == (reply.text, "stop")


@pytest.mark.parametrize(
    ("output_type", "answer", "value"),
    [
        (int, 3, 3),
        (list[str], ["a", "b"], ["a", "b"]),
        (Crew, {"names": ["Ann"]}, Crew(names=["Ann"])),
        (Trip | Crew, {"names": []}, Crew(names=[])),
        (Trip | None, None, None),
    ],
    ids=["primitive", "list", "dataclass", "union", "none"],
)
async def test_any_type_that_pydantic_checks(
    tmp_path: Path, output_type: Any, answer: Any, value: Any
) -> None:
    """Primitives, lists, dataclasses and unions are as good as models."""
    model = ScriptedModel(calls(("final_answer", {"answer": answer})))
    async with opened(tmp_path, model) as agent:
        reply = await agent.respond(said("Tell me"), output_type=output_type)
    assert reply.output == value


async def test_a_wrong_answer_is_asked_for_again_with_what_is_wrong(tmp_path: Path) -> None:
    """The model reads which field does not fit, and corrects it."""

    def told(request: ModelRequest) -> None:
        assert "answer.days: Input should be greater than or equal to 1" in message_text(request.messages[-1])

    model = ScriptedModel(calls(("final_answer", {"answer": {**TRIP, "days": 0}})), calls(FINAL, check=told))
    async with opened(tmp_path, model) as agent:
        reply = await agent.ask("Plan a trip", output_type=Trip)
    assert reply.output.days == 4
    model.assert_complete()


async def test_a_text_is_no_answer(tmp_path: Path) -> None:
    """It is stored as a failed answer, and a program tells the model what to do; JSON in a text is taken."""

    def told(request: ModelRequest) -> None:
        assert "it is not JSON" in message_text(request.messages[-1])
        assert message_text(request.messages[-2]) == "Four days to Horta."

    model = ScriptedModel(says("Four days to Horta."), says('```json\n{"names": ["Ann"]}\n```', check=told))
    events: list[Event] = []
    async with opened(tmp_path, model) as agent:
        async for event in agent.stream(said("Who comes?"), output_type=Crew):
            events.append(event)
    assert any(isinstance(event, AnswerDiscarded) for event in events)
    assert isinstance(events[-1], ReplyReady)
    assert events[-1].reply.output == Crew(names=["Ann"])
    assert [(each["role"], each.get("stopReason")) for each in messages(tmp_path)] == [
        ("assistant", "error"),
        ("program", None),
        ("assistant", "stop"),
    ]


async def test_after_three_wrong_answers_there_is_none(tmp_path: Path) -> None:
    """The turn fails with the last problem, and no wrong answer counts as one; the next turn works."""
    wrong = calls(("final_answer", {"answer": {"harbor": "Horta"}}))
    model = ScriptedModel(wrong, says("Horta"), wrong, says("Hello."))
    async with opened(tmp_path, model) as agent:
        with pytest.raises(OutputInvalid, match=r"no valid Trip in 3 answers.*starts: Field required"):
            await agent.ask("Plan a trip", output_type=Trip)
        after = await agent.ask("hello")
    assert after is not None
    said_last = [each for each in messages(tmp_path) if each["role"] == "assistant"]
    assert [each["stopReason"] for each in said_last] == ["toolUse", "error", "toolUse", "stop"]


async def test_an_answer_beside_other_calls_comes_too_early(tmp_path: Path) -> None:
    """The other tools run, and the model answers with their results."""

    @tool
    def harbor() -> str:
        """The next harbor."""
        return "Horta"

    def has_both(request: ModelRequest) -> None:
        harbors, answer = request.messages[-2:]
        assert message_text(harbors) == "Horta"
        assert isinstance(answer, ToolResultMessage)
        assert answer.is_error

    model = ScriptedModel(calls(("harbor", {}), FINAL), calls(FINAL, check=has_both))
    async with opened(tmp_path, model, tools=[harbor]) as agent:
        reply = await agent.ask("Plan a trip", output_type=Trip)
    assert reply.output.harbor == "Horta"


async def test_a_model_that_takes_a_schema_answers_with_json(tmp_path: Path) -> None:
    """It is sent the schema instead of a tool."""

    def asked(request: ModelRequest) -> None:
        assert request.output is not None
        assert request.output.schema["properties"].keys() == {"answer"}
        assert "final_answer" not in [spec.name for spec in request.tools]

    model = SchemaModel(says('{"answer": {"names": []}}', check=asked))
    async with opened(tmp_path, model) as agent:
        reply = await agent.ask("Who comes?", output_type=Crew)
    assert (reply.output, reply.text) == (Crew(names=[]), '{"names": []}')


async def test_one_model_of_a_chain_without_schemas_means_the_tool(tmp_path: Path) -> None:
    """Whichever model answers, it has a way to."""
    from nacre.runtime.contracts.errors import NoCredit

    first = SchemaModel(fails(NoCredit("no credit")), name="scripted/first")
    second = ScriptedModel(calls(FINAL), name="scripted/second")
    async with await Agent.open(
        state_dir=tmp_path, model=[first, second], environment={"HOME": str(tmp_path)}, watch=False
    ) as agent:
        reply = await agent.ask("Plan a trip", output_type=Trip)
    assert reply.output.harbor == "Horta"
    assert first.requests[0].output is None


async def test_the_result_of_a_sub_agent_is_json_of_its_type(tmp_path: Path) -> None:
    """Its wrong answers stay in its own session."""
    planner = sub_agent(name="planner", description="Plans trips.", instructions="Plan.", output_type=Trip)

    def has_trip(request: ModelRequest) -> None:
        assert Trip.model_validate_json(message_text(request.messages[-1])).days == 4

    model = ScriptedModel(
        calls(("planner", {"task": "Plan."})), says("no"), calls(FINAL), says("Planned.", check=has_trip)
    )
    async with opened(tmp_path, model, tools=[planner]) as agent:
        reply = await agent.ask("Plan a trip")
    assert reply is not None
    assert reply.text == "Planned."


async def test_no_answer_of_a_model_has_no_value(tmp_path: Path) -> None:
    """A command's answer and a blocked one raise; a stream ends with what there is."""
    model = ScriptedModel(calls(FINAL), says("nothing"), says("nothing"), says("nothing"))
    async with opened(tmp_path, model) as agent:
        with pytest.raises(OutputInvalid, match="chat command"):
            await agent.ask("/status", output_type=Trip)
        agent.hooks.on("outbound", lambda _event: Deny("no"))
        with pytest.raises(OutputInvalid, match="Silence"):
            await agent.ask("Plan a trip", output_type=Trip)
        events = [event async for event in agent.stream(said("Plan"), output_type=Trip)]
    assert isinstance(events[-1], TurnFailed)
    assert isinstance(events[-1].error, OutputInvalid)


async def test_a_redelivered_message_has_its_value_again(tmp_path: Path) -> None:
    """The stored answer is checked like a new one."""
    inbound = said("Plan a trip", message_id="7")
    again = said("Plan a trip", message_id="7", redelivered=True)
    async with opened(tmp_path, ScriptedModel(calls(FINAL))) as agent:
        first = await agent.respond(inbound, output_type=Trip)
        second = await agent.respond(again, output_type=Trip)
        with pytest.raises(OutputInvalid, match="The stored answer is not a Crew"):
            await agent.respond(again, output_type=Crew)
    assert first.output == second.output


async def test_a_hook_sees_the_value(tmp_path: Path) -> None:
    """It stands in the reply that leaves."""
    seen: list[object] = []

    def look(event: ReplyLeaves) -> None:
        seen.append(event.reply.output)

    async with opened(tmp_path, ScriptedModel(calls(FINAL))) as agent:
        agent.hooks.on("outbound", look)
        reply = await agent.ask("Plan a trip", output_type=Trip)
    assert seen == [reply.output]


async def test_a_type_without_a_schema_is_refused_at_once(tmp_path: Path) -> None:
    """No model is asked."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        with pytest.raises(ConfigError, match="output_type=Agent cannot be used"):
            await agent.ask("hello", output_type=Agent)
        with pytest.raises(ConfigError, match="output_type=opened cannot be used: It is a function"):
            await agent.ask("hello", output_type=opened)
    with pytest.raises(ConfigError, match="cannot be used"):
        sub_agent(name="a", description="b", instructions="c", output_type="no type")


async def test_a_session_and_a_command_ask_for_a_type_too(tmp_path: Path) -> None:
    """`session.ask` takes what `agent.ask` takes, outside of a turn and in a command."""

    @command("trip", help="plan a trip")
    async def trip(run: CommandContext) -> str:
        reply = await run.session.ask("Plan a trip", output_type=Trip)
        return reply.output.harbor if reply.output else "nowhere"

    model = ScriptedModel(says("Hello."), calls(FINAL), calls(FINAL))
    async with Agent.open(
        state_dir=tmp_path, environment={}, model=model, commands=[trip], watch=False
    ) as agent:
        await agent.ask("Hi")
        session = await agent.sessions.get("main")
        reply = await session.ask("Plan a trip", output_type=Trip)
        assert reply.output is not None
        assert reply.output.days == 4
        answer = await agent.ask("/trip")
        assert answer is not None
        assert answer.text == "Horta"
        with pytest.raises(OutputInvalid, match="chat command"):
            await session.ask("/status", output_type=Trip)


async def test_the_name_of_the_answer_is_reserved(tmp_path: Path) -> None:
    """A tool of that name is refused when the agent is opened."""

    @tool(name="final_answer")
    def mine() -> str:
        """Mine."""
        return "42"

    with pytest.raises(ConfigError, match="'final_answer' is reserved for typed answers"):
        await Agent.open(state_dir=tmp_path, environment={}, tools=[mine])
