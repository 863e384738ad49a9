"""Shapes of tools: methods, objects, partials, generators; results that are images and files."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from nacre import Agent, Attachment, ToolContext, tool
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.events import ToolEnded, ToolProgressed
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import Image, ToolResultMessage, message_text
from tests.runtime.agents import events_of, opened, said
from tests.runtime.turn.test_inbound_message import png

PNG = png(1, 1)


class Hives:
    """Two tools with one state."""

    def __init__(self, kilograms: float) -> None:
        self.kilograms = kilograms

    @tool
    def weigh(self, hive: str) -> str:
        """Weighs a hive."""
        return f"{hive}: {self.kilograms} kg"

    @tool(name="feed_hive")
    async def feed(self, context: ToolContext, kilograms: float) -> str:
        """Feeds a hive."""
        context.progress("pouring")
        self.kilograms += kilograms
        return "fed"


def scaled(factor: float, value: float) -> float:
    """Multiplies a value."""
    return factor * value


async def results(state_dir: Path, tools: list[object], *called: tuple[str, dict[str, object]]) -> list[str]:
    """The texts of the results of these calls."""
    model = ScriptedModel(calls(*called), says("Done."))
    async with opened(state_dir, model, tools=tools) as agent:
        await agent.ask("Go")
    return [message_text(each) for each in model.requests[1].messages if isinstance(each, ToolResultMessage)]


async def test_an_object_brings_its_methods(tmp_path: Path) -> None:
    """Each object has its own state, and a method can still be called."""
    hives = Hives(30)
    feed = ("feed_hive", {"kilograms": 1})
    assert await results(tmp_path / "a", [hives], feed) == ["fed"]
    assert await results(tmp_path / "b", [hives.weigh], ("weigh", {"hive": "garden"})) == ["garden: 31.0 kg"]
    assert Hives(5).weigh("garden") == "garden: 5 kg"


async def test_a_result_that_is_no_json_is_shown_and_is_no_failure(tmp_path: Path) -> None:
    """Bytes and circles are read as Python writes them: the tool has run, and need not run again."""
    ring: list[object] = [1]
    ring.append(ring)

    @tool
    def scan() -> bytes:
        """Scan."""
        return b"\x00\xff"

    @tool
    def around() -> list[object]:
        """Around."""
        return ring

    assert await results(tmp_path / "a", [scan], ("scan", {})) == [r"b'\x00\xff'"]
    assert await results(tmp_path / "b", [around], ("around", {})) == ["[1, [...]]"]


class Almanac:
    """Its tool needs no object."""

    @staticmethod
    @tool
    def season() -> str:
        """Which season it is."""
        return "spring"


async def test_an_object_brings_its_static_methods(tmp_path: Path) -> None:
    """They would be missing without a word."""
    assert await results(tmp_path, [Almanac()], ("season", {})) == ["spring"]


async def test_a_method_without_its_object_is_refused(tmp_path: Path) -> None:
    """The sentence says what to give."""
    with pytest.raises(ConfigError, match="'weigh' is a method without an object"):
        await Agent.open(state_dir=tmp_path, tools=[Hives.weigh], environment={})


async def test_a_partial_hides_what_is_given(tmp_path: Path) -> None:
    """It has the name and the docstring of its function."""
    made = tool(partial(scaled, factor=2))
    assert (made.name, made.description) == ("scaled", "Multiplies a value.")
    assert await results(tmp_path, [made], ("scaled", {"value": 4})) == ["8.0"]


async def count() -> AsyncIterator[str]:
    """Counts."""
    for text in ("one", "two", "three"):
        yield text


def count_on_a_thread() -> Iterator[str]:
    """Counts, and would hold up an event loop."""
    for text in ("one", "two", "three"):
        assert threading.current_thread() is not threading.main_thread()
        yield text


@pytest.mark.parametrize("counting", [count, count_on_a_thread])
async def test_a_generator_tells_its_progress(counting: Callable[[], object], tmp_path: Path) -> None:
    """Its last value is the result. A plain one runs on a thread of its own."""
    model = ScriptedModel(calls((counting.__name__, {})), says("Done."))
    async with opened(tmp_path, model, tools=[counting]) as agent:
        events = await events_of(agent, said("Go"))
    assert [event.text for event in events if isinstance(event, ToolProgressed)] == ["one", "two"]
    assert [event.result for event in events if isinstance(event, ToolEnded)] == ["three"]


async def test_an_attachment_is_shown(tmp_path: Path) -> None:
    """An image as an image, a text as its words, anything else by its name and size."""

    @tool
    def files() -> list[object]:
        """All files."""
        return [
            "Three files:",
            Attachment(name="hive.png", mime_type="image/png", data=PNG),
            Attachment(name="log.csv", mime_type="text/csv", data=b"day,kg\n1,30"),
            Attachment(name="a.zip", mime_type="application/zip", data=b"PK"),
        ]

    model = ScriptedModel(calls(("files", {})), says("Done."))
    async with opened(tmp_path, model, tools=[files]) as agent:
        await agent.ask("Go")
    result = model.requests[1].messages[-1]
    assert message_text(result) == (
        f"Three files:\n\n[hive.png: image/png, {len(PNG)} bytes]\n\n[log.csv: text/csv, 11 bytes]\n"
        "day,kg\n1,30\n\n[a.zip: application/zip, 2 bytes]"
    )
    assert [block.mime_type for block in result.content if isinstance(block, Image)] == ["image/png"]
