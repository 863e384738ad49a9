"""OpenTelemetry spans of an agent, created by hooks: `invoke_agent`, `chat` and `execute_tool`.

Names and attributes follow the GenAI semantic conventions. Content is recorded only on request.

A span is current while its turn, model call or tool runs, so it is the parent of the spans that these start:
the requests of a provider's library, the spans of a tool, the turn of a sub-agent. The parent of a turn is
the span that is current when it starts: the request of a web server, or the message of a gateway, which is
also the parent of the delivery of the answer. The handlers are coroutines, which run in the task that they
observe.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING

from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.hooks.events import (
    AfterAnswer,
    AfterDelivery,
    AfterModel,
    AfterTool,
    AfterTurn,
    BeforeAnswer,
    BeforeDelivery,
    BeforeModel,
    BeforeTool,
    BeforeTurn,
)
from nacre.runtime.hooks.hooks import HookTable
from nacre.sessions.contracts.keys import key_agent, key_kind
from nacre.sessions.contracts.messages import message_text

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider

_PROVIDERS = {"azure": "azure.ai.openai", "bedrock": "aws.bedrock", "gemini": "gcp.gemini"}
"""The conventions' names of providers that have other names in litellm."""


def otel_hooks(tracer_provider: TracerProvider | None = None, *, with_content: bool = False) -> HookTable:
    """Returns handlers for `Agent.open(hooks=...)` that create spans, by default with the global provider.

    `with_content` also records replies, arguments and results, which are private.

    Raises:
        ModuleNotFoundError: the extra `nacre[otel]` is not installed.
    """
    from opentelemetry import trace

    spans = _Spans(trace.get_tracer("nacre", tracer_provider=tracer_provider), with_content=with_content)
    return HookTable(
        before_turn=spans.before_turn,
        after_turn=spans.after_turn,
        before_model=spans.before_model,
        after_model=spans.after_model,
        before_tool=spans.before_tool,
        after_tool=spans.after_tool,
        before_answer=spans.before_answer,
        after_answer=spans.after_answer,
        before_delivery=spans.before_delivery,
        after_delivery=spans.after_delivery,
    )


_TURN, _MODEL = "turn", "model"
_ANSWER, _DELIVERY = "answer", "delivery"
MOST_ANSWERED = 1_000
"""How many answered messages are remembered as the parents of deliveries."""


class _Spans:
    """The open spans by session and by subject: the turn, a model call, or the id of a tool call."""

    def __init__(self, tracer: Tracer, *, with_content: bool) -> None:
        self._tracer = tracer
        self._with_content = with_content
        self._open: dict[tuple[str, str], tuple[Span, Token[Context]]] = {}
        self._answered: OrderedDict[str, Span] = OrderedDict()

    def _begin(self, session_id: str, of: str, name: str, operation: str, kind: str) -> Span:
        span = self._start((session_id, of), name, kind)
        span.set_attribute("gen_ai.operation.name", operation)
        span.set_attribute("gen_ai.conversation.id", session_id)
        return span

    def _start(self, key: tuple[str, str], name: str, kind: str, parent: Span | None = None) -> Span:
        from opentelemetry.context import attach
        from opentelemetry.trace import SpanKind, set_span_in_context

        above = None if parent is None else set_span_in_context(parent)
        span = self._tracer.start_span(name, context=above, kind=SpanKind[kind])
        self._open[key] = span, attach(set_span_in_context(span))
        return span

    def _take(self, session_id: str, of: str) -> Span | None:
        """Returns the open span, which is no longer current."""
        from opentelemetry.context import detach

        span, token = self._open.pop((session_id, of), (None, None))
        if token is not None:
            detach(token)
        return span

    def _end(self, span: Span | None, error: BaseException | None) -> None:
        if span is None:
            return
        if error is not None:
            span.set_attribute("error.type", type(error).__name__)
            _mark_failed(span)
        span.end()

    async def before_turn(self, event: BeforeTurn) -> None:
        key, origin = event.chat.session_key, event.chat.origin
        name = origin.chat_name if origin is not None and key_kind(key) == "subagent" else "nacre"
        span = self._begin(event.chat.session_id, _TURN, f"invoke_agent {name}", "invoke_agent", "INTERNAL")
        span.set_attribute("gen_ai.agent.name", name)
        span.set_attribute("gen_ai.agent.id", key_agent(key))
        _name_model(span, event.model_name)

    async def after_turn(self, event: AfterTurn) -> None:
        session_id = event.chat.session_id
        for key in [key for key in self._open if key[0] == session_id and key[1] != _TURN]:
            self._open.pop(key)[0].end()  # an interrupted call, whose task has ended
        span = self._take(session_id, _TURN)
        if span is not None and event.usage is not None:
            span.set_attribute("gen_ai.usage.input_tokens", event.usage.input_tokens)
            span.set_attribute("gen_ai.usage.output_tokens", event.usage.output_tokens)
        if span is not None and self._with_content and event.reply is not None:
            span.set_attribute("gen_ai.output.messages", event.reply.text)
        self._end(span, event.error)

    async def before_model(self, event: BeforeModel) -> None:
        model = event.model_name.partition("/")[2] or event.model_name
        span = self._begin(event.chat.session_id, _MODEL, f"chat {model}", "chat", "CLIENT")
        _name_model(span, event.model_name)

    async def after_model(self, event: AfterModel) -> None:
        span, answer = self._take(event.chat.session_id, _MODEL), event.answer
        if span is not None and answer is not None:
            span.set_attribute("gen_ai.response.model", answer.model)
            span.set_attribute("gen_ai.response.finish_reasons", [answer.stop_reason])
            if answer.usage is not None:
                span.set_attribute("gen_ai.usage.input_tokens", answer.usage.input_tokens)
                span.set_attribute("gen_ai.usage.output_tokens", answer.usage.output_tokens)
            if self._with_content:
                span.set_attribute("gen_ai.output.messages", message_text(answer))
        self._end(span, event.error)

    async def before_tool(self, event: BeforeTool) -> None:
        name = f"execute_tool {event.tool_name}"
        span = self._begin(event.chat.session_id, event.call_id, name, "execute_tool", "INTERNAL")
        span.set_attribute("gen_ai.tool.name", event.tool_name)
        span.set_attribute("gen_ai.tool.call.id", event.call_id)
        if self._with_content:
            span.set_attribute("gen_ai.tool.call.arguments", json.dumps(dict(event.arguments)))

    async def after_tool(self, event: AfterTool) -> None:
        span = self._take(event.chat.session_id, event.call_id)
        if span is not None and event.is_error:
            _mark_failed(span)
        if span is not None and self._with_content:
            span.set_attribute("gen_ai.tool.call.result", event.text)
        self._end(span, event.error)

    async def before_answer(self, event: BeforeAnswer) -> None:
        last = event.messages[-1]
        span = self._start((_ANSWER, _message_key(last)), f"process {last.channel}", "CONSUMER")
        _name_message(span, last.channel, "process", last.message_id)
        if len(event.messages) > 1:
            span.set_attribute("messaging.batch.message_count", len(event.messages))
        self._answered[_message_key(last)] = span
        if len(self._answered) > MOST_ANSWERED:
            self._answered.popitem(last=False)

    async def after_answer(self, event: AfterAnswer) -> None:
        self._end(self._take(_ANSWER, _message_key(event.messages[-1])), event.error)

    async def before_delivery(self, event: BeforeDelivery) -> None:
        place = event.part.place
        message_key = "/".join((place.channel, place.account, place.chat_id, event.part.answers))
        span = self._start(
            (_DELIVERY, event.part.key), f"send {place.channel}", "PRODUCER", self._answered.get(message_key)
        )
        _name_message(span, place.channel, "send", event.part.key)

    async def after_delivery(self, event: AfterDelivery) -> None:
        self._end(self._take(_DELIVERY, event.part.key), event.error)


def _message_key(message: Inbound) -> str:
    return "/".join((message.channel, message.account, message.chat_id, message.message_id))


def _name_message(span: Span, channel: str, operation: str, message_id: str) -> None:
    span.set_attribute("messaging.system", channel)
    span.set_attribute("messaging.operation.name", operation)
    span.set_attribute("messaging.operation.type", operation)
    span.set_attribute("messaging.message.id", message_id)


def _name_model(span: Span, model_name: str) -> None:
    provider, _, model = model_name.partition("/")
    span.set_attribute("gen_ai.provider.name", _PROVIDERS.get(provider, provider))
    span.set_attribute("gen_ai.request.model", model or model_name)


def _mark_failed(span: Span) -> None:
    from opentelemetry.trace import StatusCode

    span.set_status(StatusCode.ERROR)
