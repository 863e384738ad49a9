"""What hooks hear of a gateway: messages that are answered, and parts that are sent; spans are made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre import AfterAnswer, AfterDelivery, BeforeAnswer, BeforeDelivery
from nacre.bridges.contracts.bridge import Part
from nacre.bridges.contracts.errors import NotDelivered
from nacre.runtime.hooks.hooks import register_all
from nacre.runtime.hooks.otel import otel_hooks
from tests.bridges.chats import FOLLOW_UP, Answering, gateway
from tests.bridges.line_channel import LineBridge, LineServer

Heard = BeforeAnswer | AfterAnswer | BeforeDelivery | AfterDelivery
NAMES = ("before_answer", "after_answer", "before_delivery", "after_delivery")


class Sulking(LineBridge):
    """A bridge whose first part is not delivered."""

    has_sulked = False

    async def deliver(self, part: Part) -> str:
        """Sends a part, but not the first time."""
        if not self.has_sulked:
            self.has_sulked = True
            raise NotDelivered("Not now.")
        return await super().deliver(part)


async def no_wait(_seconds: float) -> None:
    """Does not wait."""


async def test_hooks_hear_of_answers_and_deliveries(tmp_path: Path) -> None:
    """Each with the message or the part; a part that is not sent has an error, and is heard of again."""
    heard: list[Heard] = []
    with LineServer() as server:
        async with gateway(tmp_path, Answering(), [Sulking(server.port)], sleep=no_wait) as (_gateway, agent):
            for name in NAMES:
                agent.hooks.add(name, heard.append)
            server.say("hello", sender="ann")
            await server.until(lambda at: len(at.sent) == 1)
    answers = [event for event in heard if isinstance(event, BeforeAnswer | AfterAnswer)]
    assert [(each.type, each.messages[0].text) for each in answers] == [
        ("before_answer", "hello"),
        ("after_answer", "hello"),
    ]
    sent = [event for event in heard if isinstance(event, AfterDelivery)]
    assert [str(each.error or "sent") for each in sent] == ["Not now.", "sent"]
    assert {each.part.text for each in sent} == {"re: hello"}


async def test_a_trace_leads_from_a_message_to_its_delivery(tmp_path: Path) -> None:
    """Two messages of one chat are two traces, also where one task sends both answers."""
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with LineServer() as server:
        opening = gateway(tmp_path, Answering(), [LineBridge(server.port)], settings=FOLLOW_UP)
        async with opening as (_gateway, agent):
            register_all(agent.hooks, otel_hooks(provider))
            server.say("one", sender="ann")
            server.say("two", sender="ann")
            await server.until(lambda at: len(at.sent) == 2)

    spans = exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans}
    traces = {span.context.trace_id for span in spans}
    assert len(traces) == 2
    for trace in traces:
        above = {
            span.name: names[span.parent.span_id] if span.parent else ""
            for span in spans
            if span.context.trace_id == trace
        }
        assert above == {
            "process line": "",
            "invoke_agent nacre": "process line",
            "chat model": "invoke_agent nacre",
            "send line": "process line",
        }
