"""What one turn may use up, and how it is made to end: its limits, and a stop that spares running tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields

from nacre.runtime.contracts.errors import ConfigError, TurnCancelled, UsageLimitReached
from nacre.runtime.turn.loop.joining import Joining
from nacre.sessions.contracts.messages import AssistantMessage, ToolCall, Usage


@dataclass(frozen=True, kw_only=True)
class UsageLimits:
    """The most that one turn may use up; `None` is no limit.

    `tokens` are those of the turn's model calls together, prompts and answers, cached or not; `cost_usd` is
    what these cost in US dollars. Both count what the provider reported, so they do not hold a provider that
    reports nothing: `model_calls` does. The calls for notes and summaries are not counted, as in
    `Reply.usage`. A limit ends a turn before the next step, so the last step may go past it.

    Raises:
        ConfigError: a limit is negative.
    """

    tokens: int | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    cost_usd: float | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and not value >= 0:
                raise ConfigError(
                    f"UsageLimits({each.name}={value!r}) is no limit. Give zero or more, or None."
                )


class TurnBounds:
    """How far one turn may go: what it has used, and whether it is to end when its tools are done.

    `within` are the bounds of a turn that this one is a part of: what is used here is used there, too.
    """

    def __init__(self, limits: UsageLimits | None = None, *, within: TurnBounds | None = None) -> None:
        self._limits = limits or UsageLimits()
        self._within = within
        self._used = Usage()
        self._model_calls = 0
        self._tool_calls = 0
        self._tools_are_running = False
        self._ends_after_tools = False
        self.joining = Joining()
        """What is said into the turn while it runs."""

    def spare_tools(self) -> bool:
        """Ends the turn when the tools that are running are done; whether any are."""
        self._ends_after_tools = self._tools_are_running
        return self._ends_after_tools

    def answered(self, answer: AssistantMessage) -> None:
        """Counts a model's answer."""
        self._model_calls += 1
        if answer.usage is not None:
            self._use(answer.usage)

    def check_request(self) -> None:
        """Called before a model is asked.

        Raises:
            UsageLimitReached: a limit is used up.
            TurnCancelled: the turn was to end after its tools.
        """
        if self._ends_after_tools:
            raise TurnCancelled("The turn was stopped after its tools were done. Their results are kept.")
        most = self._limits.model_calls
        if most is not None and self._model_calls >= most:
            raise _reached(f"{most} model calls", "model_calls")
        self._check_used()

    def check_tools(self, calls: Sequence[ToolCall]) -> None:
        """Called before the tools of an answer are run.

        Raises:
            UsageLimitReached: these calls would be too many, or another limit is used up.
        """
        self._check_used()
        most = self._limits.tool_calls
        if most is not None and self._tool_calls + len(calls) > most:
            raise _reached(f"{most} tool calls", "tool_calls")
        self._tool_calls += len(calls)

    @contextmanager
    def running_tools(self) -> Iterator[None]:
        """While this is open, a stop may wait for the tools."""
        self._tools_are_running = True
        try:
            yield
        finally:
            self._tools_are_running = False

    def _use(self, usage: Usage) -> None:
        self._used += usage
        if self._within is not None:
            self._within._use(usage)

    def _check_used(self) -> None:
        if self._within is not None:
            self._within._check_used()
        limits = self._limits
        if limits.tokens is not None and self._used.context_tokens >= limits.tokens and self._model_calls:
            raise _reached(f"{limits.tokens} tokens", "tokens")
        if limits.cost_usd is not None and self._used.cost_usd >= limits.cost_usd and self._model_calls:
            raise _reached(f"{limits.cost_usd:.15g} US dollars", "cost_usd")


def _reached(what: str, name: str) -> UsageLimitReached:
    return UsageLimitReached(
        f"The turn was ended, because it has used up its {what}. What was said and done until then is kept: "
        f"ask to go on, ask for less at once, or raise {name} of its UsageLimits."
    )
