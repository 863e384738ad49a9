"""Spans of a turn, as the real SDK exports them; needs the extra `otel`."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.runtime.hooks.otel import otel_hooks
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from tests.runtime.hooks.turns import hooked

pytest.importorskip("opentelemetry.sdk")


@pytest.mark.parametrize("with_content", [False, True])
async def test_a_turn_is_a_tree_of_spans(tmp_path: Path, with_content: bool) -> None:
    """The turn holds its model and tool calls; what was said is there only if asked for."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    model = ScriptedModel(calls(("read", {"path": "SOUL.md"})), says("Secret words."))
    async with hooked(tmp_path, model, hooks=otel_hooks(provider, with_content=with_content)) as agent:
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
    assert ("Secret words." in str([dict(span.attributes or {}) for span in spans])) is with_content
