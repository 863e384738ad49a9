"""OpenTelemetry spans of an agent, created by hooks: `invoke_agent`, `chat` and `execute_tool`.

Names and attributes follow the GenAI semantic conventions. Content is recorded only on request.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nacre.runtime.hooks.events import AfterModel, AfterTool, AfterTurn, BeforeModel, BeforeTool, BeforeTurn
from nacre.runtime.hooks.hooks import HookTable
from nacre.sessions.contracts.messages import message_text

if TYPE_CHECKING:
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
    )


class _Spans:
    """The open spans: one for each turn, and those of its calls."""

    def __init__(self, tracer: Tracer, *, with_content: bool) -> None:
        self._tracer = tracer
        self._with_content = with_content
        self._turns: dict[str, Span] = {}
        self._inner: dict[tuple[str, str], Span] = {}

    def _begin(self, session_id: str, name: str, operation: str, kind: str) -> Span:
        from opentelemetry.trace import SpanKind, set_span_in_context

        parent = self._turns.get(session_id)
        span = self._tracer.start_span(
            name, context=set_span_in_context(parent) if parent else None, kind=SpanKind[kind]
        )
        span.set_attribute("gen_ai.operation.name", operation)
        span.set_attribute("gen_ai.conversation.id", session_id)
        return span

    def _end(self, span: Span | None, error: BaseException | None) -> None:
        if span is None:
            return
        if error is not None:
            span.set_attribute("error.type", type(error).__name__)
            _mark_failed(span)
        span.end()

    async def before_turn(self, event: BeforeTurn) -> None:
        span = self._begin(event.chat.session_id, "invoke_agent nacre", "invoke_agent", "INTERNAL")
        span.set_attribute("gen_ai.agent.name", "nacre")
        _name_model(span, event.model_name)
        self._turns[event.chat.session_id] = span

    async def after_turn(self, event: AfterTurn) -> None:
        session_id = event.chat.session_id
        for key in [key for key in self._inner if key[0] == session_id]:
            self._inner.pop(key).end()  # a call that was interrupted
        span = self._turns.pop(session_id, None)
        if span is not None and event.usage is not None:
            span.set_attribute("gen_ai.usage.input_tokens", event.usage.input_tokens)
            span.set_attribute("gen_ai.usage.output_tokens", event.usage.output_tokens)
        if span is not None and self._with_content and event.reply is not None:
            span.set_attribute("gen_ai.output.messages", event.reply.text)
        self._end(span, event.error)

    async def before_model(self, event: BeforeModel) -> None:
        model = event.model_name.partition("/")[2] or event.model_name
        span = self._begin(event.chat.session_id, f"chat {model}", "chat", "CLIENT")
        _name_model(span, event.model_name)
        self._inner[event.chat.session_id, ""] = span

    async def after_model(self, event: AfterModel) -> None:
        span, answer = self._inner.pop((event.chat.session_id, ""), None), event.answer
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
        span = self._begin(event.chat.session_id, name, "execute_tool", "INTERNAL")
        span.set_attribute("gen_ai.tool.name", event.tool_name)
        span.set_attribute("gen_ai.tool.call.id", event.call_id)
        if self._with_content:
            span.set_attribute("gen_ai.tool.call.arguments", json.dumps(dict(event.arguments)))
        self._inner[event.chat.session_id, event.call_id] = span

    async def after_tool(self, event: AfterTool) -> None:
        span = self._inner.pop((event.chat.session_id, event.call_id), None)
        if span is not None and event.is_error:
            _mark_failed(span)
        if span is not None and self._with_content:
            span.set_attribute("gen_ai.tool.call.result", event.text)
        self._end(span, None)


def _name_model(span: Span, model_name: str) -> None:
    provider, _, model = model_name.partition("/")
    span.set_attribute("gen_ai.provider.name", _PROVIDERS.get(provider, provider))
    span.set_attribute("gen_ai.request.model", model or model_name)


def _mark_failed(span: Span) -> None:
    from opentelemetry.trace import StatusCode

    span.set_status(StatusCode.ERROR)
