"""Spans of a turn, as the real SDK exports them; needs the extra `otel`."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from nacre import ToolContext, ToolFailed, sub_agent, tool
from nacre.runtime.hooks.otel import otel_hooks
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from tests.runtime.agents import opened

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode


def traced() -> tuple[InMemorySpanExporter, TracerProvider]:
    """The SDK with an exporter that keeps the spans."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter, provider


def tree(spans: tuple[ReadableSpan, ...], parent: int | None = None) -> dict[str, object]:
    """The names of the spans below a parent, each with those below it."""
    below = [each for each in spans if (each.parent.span_id if each.parent else None) == parent]
    return {each.name: tree(spans, each.context.span_id) for each in below}


@pytest.mark.parametrize("with_content", [False, True])
async def test_a_turn_is_a_tree_of_spans(tmp_path: Path, with_content: bool) -> None:
    """The turn holds its model and tool calls; what was said is there only if asked for."""
    exporter, provider = traced()
    model = ScriptedModel(calls(("read", {"path": "SOUL.md"})), says("Secret words."))
    async with opened(tmp_path, model, hooks=otel_hooks(provider, with_content=with_content)) as agent:
        await agent.ask("hi")

    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == [
        "chat model",
        "execute_tool read",
        "chat model",
        "invoke_agent nacre",
    ]
    turn = spans[-1]
    assert {span.parent.span_id for span in spans[:-1] if span.parent} == {turn.context.span_id}
    assert dict(spans[1].attributes or {})["gen_ai.tool.name"] == "read"
    assert dict(turn.attributes or {})["gen_ai.provider.name"] == "scripted"
    assert dict(turn.attributes or {})["gen_ai.agent.id"] == "main"
    assert ("Secret words." in str([dict(span.attributes or {}) for span in spans])) is with_content


async def test_one_trace_leads_from_a_request_through_tools_and_sub_agents(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Spans of a tool, also on its thread, and the turn of a sub-agent hang below `execute_tool`, and calls
    at once do not mix. What was current before the turn is its parent, and is current again behind it.
    """
    exporter, provider = traced()
    tracer = provider.get_tracer("the author's")

    @tool
    def look(harbor: str) -> str:
        """Looks, on a thread."""
        with tracer.start_as_current_span(f"database {harbor}"):
            return harbor

    @tool
    async def ask_pilot(harbor: str, context: ToolContext) -> str:
        """Asks, on the event loop."""
        with tracer.start_as_current_span(f"radio {harbor}"):
            context.progress("calling")
            return harbor

    pilot = sub_agent(name="pilot", description="Pilots.", instructions="Pilot.", tools=[look])
    model = ScriptedModel(
        calls(("look", {"harbor": "Horta"}), ("ask_pilot", {"harbor": "Lajes"}), ("pilot", {"task": "Go."})),
        calls(("look", {"harbor": "Velas"})),
        says("Piloted."),
        says("Done."),
    )
    with caplog.at_level(logging.ERROR):
        async with opened(
            tmp_path, model, tools=[look, ask_pilot, pilot], hooks=otel_hooks(provider)
        ) as agent:
            with tracer.start_as_current_span("POST /chat"):
                await agent.ask("hi")
                with tracer.start_as_current_span("save"):
                    pass
    assert tree(exporter.get_finished_spans()) == {
        "POST /chat": {
            "invoke_agent nacre": {
                "chat model": {},
                "execute_tool look": {"database Horta": {}},
                "execute_tool ask_pilot": {"radio Lajes": {}},
                "execute_tool pilot": {
                    "invoke_agent pilot": {
                        "chat model": {},
                        "execute_tool look": {"database Velas": {}},
                    }
                },
            },
            "save": {},
        }
    }
    assert len({span.context.trace_id for span in exporter.get_finished_spans()}) == 1
    assert "detach" not in caplog.text


async def test_a_tool_that_fails_says_how(tmp_path: Path) -> None:
    """Its span has the class of the error; a turn that was stopped leaves no span open."""
    exporter, provider = traced()

    @tool
    def sink() -> str:
        """Sinks."""
        raise ToolFailed("It is sunk.")

    model = ScriptedModel(calls(("sink", {})), says("Sorry."))
    async with opened(tmp_path, model, tools=[sink], hooks=otel_hooks(provider)) as agent:
        await agent.ask("hi")
    (span,) = (each for each in exporter.get_finished_spans() if each.name == "execute_tool sink")
    assert dict(span.attributes or {})["error.type"] == "ToolFailed"
    assert span.status.status_code is StatusCode.ERROR
