"""`@tool`: typed functions as tools, as a bot author writes them and as a model calls them."""

from __future__ import annotations

import functools
import math
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from nacre import Agent, ToolContext, tool
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.events import ToolProgressed
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.scripted import ScriptedModel, says
from tests.runtime.tools.tool_turns import turn_with


class Hive(BaseModel):
    """A value that a tool may take and give."""

    name: str
    kilograms: float = 0.0


@tool
async def weigh(hive: Annotated[str, Field(description="which one")], times: int = 1) -> str:
    """Weighs a hive."""
    return f"{hive}: {12.5 * times} kg"


def spec_of(request: ModelRequest, name: str) -> dict[str, Any]:
    [spec] = [spec for spec in request.tools if spec.name == name]
    return {"description": spec.description, **spec.parameters}


async def test_docstring_and_annotations_are_what_the_model_reads(tmp_path: Path) -> None:
    """Name, description, types, defaults and which parameters must be there."""
    model, _, result = await turn_with(tmp_path, [weigh], ("weigh", {"hive": "garden", "times": 2}))

    assert spec_of(model.requests[0], "weigh") == {
        "description": "Weighs a hive.",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "hive": {"type": "string", "description": "which one"},
            "times": {"type": "integer", "default": 1},
        },
        "required": ["hive"],
    }
    assert result == "garden: 25.0 kg"


async def test_wrong_arguments_are_a_sentence_for_the_model(tmp_path: Path) -> None:
    """What does not fit is named, and the function is not called."""
    _, _, result = await turn_with(tmp_path, [weigh], ("weigh", {"times": "often", "hat": 1}))

    assert result.startswith("The arguments of 'weigh' do not fit: ")
    for named in ("hive", "times", "hat"):
        assert named in result


async def test_values_come_and_go_as_json(tmp_path: Path) -> None:
    """A pydantic value is made of the arguments; what is no text becomes JSON, nothing becomes a word."""

    @tool(name="heavier", description="Adds honey.")
    def add(hive: Hive, kilograms: float) -> Hive:
        return Hive(name=hive.name, kilograms=hive.kilograms + kilograms)

    def forget(hive: str) -> None:
        """Forgets a hive."""

    hive = {"name": "garden", "kilograms": 2}
    _, _, added = await turn_with(tmp_path, [add], ("heavier", {"hive": hive, "kilograms": 1.5}))
    _, _, forgotten = await turn_with(tmp_path / "other", [forget], ("forget", {"hive": "garden"}))

    assert added == '{\n "name": "garden",\n "kilograms": 3.5\n}'
    assert forgotten == "Done."


async def test_numbers_that_json_has_not_are_named(tmp_path: Path) -> None:
    """The model reads NaN and Infinity, which `null` would hide, also inside of objects."""

    def weigh() -> dict[str, object]:
        """Weighs."""
        return {"honey": math.nan, "wax": [math.inf, -math.inf], "hive": Hive(name="x", kilograms=math.nan)}

    _, _, weighed = await turn_with(tmp_path, [weigh], ("weigh", {}))
    assert "".join(weighed.split()) == (
        '{"honey":NaN,"wax":[Infinity,-Infinity],"hive":{"name":"x","kilograms":NaN}}'
    )


async def test_a_plain_function_runs_on_a_thread_and_tells_its_progress(tmp_path: Path) -> None:
    """The event loop stays free, and lines that are told on the way become events of that call."""
    threads: list[bool] = []

    @tool
    def count(context: ToolContext) -> str:
        """Counts bees."""
        threads.append(threading.current_thread() is threading.main_thread())
        context.progress("one\n  bee")
        return f"{context.chat.session_key} {context.chat.channel} {context.chat.policy.is_private}"

    model, events, result = await turn_with(tmp_path, [count], ("count", {}))

    assert threads == [False]
    assert result == "agent:main:main terminal True"
    assert "context" not in str(spec_of(model.requests[0], "count"))
    [told] = [event for event in events if isinstance(event, ToolProgressed)]
    assert (told.call_id, told.tool_name, told.text) == ("call_1", "count", "one bee")


async def test_a_plain_function_may_hand_on_a_coroutine(tmp_path: Path) -> None:
    """A decorator that is no coroutine function itself hides none of the answer."""

    @functools.wraps(weigh.function)
    def counted(hive: str, times: int = 1) -> Any:
        return weigh.function(hive, times)

    _, _, result = await turn_with(tmp_path, [counted], ("weigh", {"hive": "garden"}))

    assert result == "garden: 12.5 kg"


async def test_parameters_may_be_named_as_pydantics_own_methods(tmp_path: Path) -> None:
    """Nobody is warned of such a name, and its value arrives; the context may be left out by callers."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        @tool
        def store(json: str, copy: int, context: ToolContext | None = None) -> str:
            """Stores a text."""
            return f"{json} {copy} {context is not None}"

    _, _, result = await turn_with(tmp_path, [store], ("store", {"json": "{}", "copy": 2}))

    assert result == "{} 2 True"


@pytest.mark.parametrize(
    ("chat", "offered"),
    [
        ({"is_owner": True, "chat_kind": "direct"}, {"weigh", "greet"}),
        ({"is_owner": False, "chat_kind": "direct", "sender_id": "x"}, {"greet"}),
        ({"is_owner": True, "chat_kind": "group", "chat_id": "g"}, set()),
    ],
)
async def test_tools_are_private_unless_told_otherwise(
    tmp_path: Path, chat: dict[str, Any], offered: set[str]
) -> None:
    """A group and a stranger neither see nor call a tool that is not meant for them."""

    @tool(chats=("private", "direct"))
    def greet() -> str:
        """Greets."""
        return "hello"

    model, _, result = await turn_with(tmp_path, [weigh, greet], ("weigh", {"hive": "garden"}), **chat)

    names = {spec.name for spec in model.requests[0].tools}
    assert names & {"weigh", "greet"} == offered
    assert ("There is no tool named 'weigh'" in result) is ("weigh" not in offered)


def untyped(hive) -> str:  # type: ignore[no-untyped-def]
    """Weighs."""
    return str(hive)


def undocumented(hive: str) -> str:
    return hive


def many(*hives: str) -> str:
    """Weighs many."""
    return " ".join(hives)


def read(path: str) -> str:
    """A tool whose name is taken."""
    return path


def hidden(_hive: str) -> str:
    """Has a parameter that pydantic takes for an attribute of its own."""
    return _hive


def wants_a_function(weigh: Callable[[], int]) -> str:
    """Has a parameter that no JSON can fill."""
    return str(weigh())


def wants_a_lock(lock: threading.Lock) -> str:
    """Has a parameter that pydantic does not know."""
    return str(lock)


def local_type() -> Callable[..., Any]:
    class Weight:
        """A type that only this function knows."""

    def heavy(weight: Weight) -> str:
        """Has an annotation that cannot be resolved from outside."""
        return str(weight)

    return heavy


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (hidden, "The parameter '_hive' of the tool 'hidden' needs another name."),
        (wants_a_function, "The parameters of the tool 'wants_a_function' have no schema."),
        (wants_a_lock, "The parameters of the tool 'wants_a_lock' have no schema."),
        (local_type(), "A type of the tool 'heavy' cannot be found: name 'Weight' is not defined."),
        (untyped, "The parameter 'hive' of the tool 'untyped' has no type."),
        (undocumented, "The tool 'undocumented' has no docstring, which the model reads."),
        (many, "has 'hives'. Each parameter must be callable by name"),
        (lambda hive: hive, "'<lambda>' is not a valid tool name"),
        (read, "There are two tools named 'read'."),
    ],
)
async def test_what_cannot_be_a_tool_is_told_when_the_agent_is_opened(
    tmp_path: Path, function: Callable[..., Any], told: str
) -> None:
    """The sentence names the function and what to change."""
    with pytest.raises(ConfigError) as refused:
        await Agent.open(state_dir=tmp_path, tools=[function], environment={"HOME": str(tmp_path)})

    assert told in str(refused.value)


@pytest.mark.parametrize("chats", ["group", ("everyone",)])
async def test_chats_that_do_not_exist_are_refused(chats: Any) -> None:
    """A tool that no chat would be offered says so when it is made."""
    with pytest.raises(TypeError, match="Use \\("):
        tool(name="weigh", chats=chats)(weigh.function)


async def test_a_tool_stays_a_function() -> None:
    """It can be called and tested without an agent."""
    assert await weigh("garden", times=3) == "garden: 37.5 kg"


async def test_instructions_stand_in_the_prompt_and_ask_is_the_owner_in_private(tmp_path: Path) -> None:
    """What the program says is read in front of the files; `ask` reaches the main session, or a named one."""
    model = ScriptedModel(says("Hello."), says("Hello again."))
    async with await Agent.open(
        state_dir=tmp_path,
        model=model,
        instructions="Answer in one sentence.",
        environment={"HOME": str(tmp_path)},
        watch=False,
    ) as agent:
        reply = await agent.ask("hello")
        other = await agent.ask("hello", session="bees")

    system = model.requests[0].system.stable
    assert system.index("Answer in one sentence.") < system.index("## SOUL.md")
    assert reply is not None
    assert (reply.text, reply.session_key) == ("Hello.", "agent:main:main")
    assert other is not None
    assert other.session_key == "agent:main:direct:bees"
