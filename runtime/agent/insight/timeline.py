"""How many tokens a session's context had over time, and for what, from its transcript."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal, TypeAlias

from nacre.record import Record
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.models.tokenizer import estimate_tokens
from nacre.runtime.open_sessions.open_session import FLUSH_ENTRY
from nacre.sessions.contracts.messages import AssistantMessage, Message, ToolResultMessage
from nacre.sessions.entries.entries import Compaction, CustomMessage, Entry
from nacre.sessions.view.sent_view import estimate_message_tokens

MarkKind: TypeAlias = Literal["flush", "compaction"]


class PartTokens(Record):
    """What a context consisted of. What is in the transcript is estimated; `fixed` is the rest of what
    the provider counted: tools, instructions and workspace files.
    """

    fixed: int = 0
    summary: int = 0
    conversation: int = 0
    tool_results: int = 0


class Point(Record):
    """An answer: how many tokens it and its request took, as the provider counted them, and for what.

    `cost_usd` is `None` if no price is known.
    """

    entry_id: str
    timestamp: str
    tokens: int
    cost_usd: float | None
    parts: PartTokens = PartTokens()


class Mark(Record):
    """A flush or a compaction after the point with this index; -1 is before the first."""

    kind: MarkKind
    behind: int
    entry_id: str
    timestamp: str


class Timeline(Record):
    """The context of one session over its answers, the marks among them, and the current model's budget."""

    points: tuple[Point, ...]
    marks: tuple[Mark, ...]
    budget: ContextBudget

    @property
    def top_tokens(self) -> int:
        """The upper end of a chart: the compaction line, or the fullest context if that is higher."""
        return max([self.budget.compact_at, *(point.tokens for point in self.points)])

    @property
    def cost_usd(self) -> float | None:
        """Dollars of the answers with a known price; `None` if there are none."""
        known = [point.cost_usd for point in self.points if point.cost_usd is not None]
        return sum(known) if known or not self.points else None

    @property
    def cost_text(self) -> str:
        """The cost in words, including unknown prices."""
        if self.cost_usd is None:
            return "no price known"
        without = sum(point.cost_usd is None for point in self.points)
        return f"${self.cost_usd:.2f}" + (f" without {without} of unknown price" if without else "")


def timeline(branch: Sequence[Entry], budget: ContextBudget, *, has_price: Callable[[str], bool]) -> Timeline:
    """The timeline of a branch, without answers that broke off or were not counted.

    `has_price` tells whether a price of `provider/model` is known; it is called for answers that cost
    nothing.
    """
    is_priced = cache(has_price)
    points: list[Point] = []
    marks: list[Mark] = []
    held = _Held()
    for entry in branch:
        body = entry.body
        held.take(entry)
        if isinstance(body, AssistantMessage):
            if body.usage is not None and not body.is_broken_off:
                cost_usd, name = body.usage.cost_usd, f"{body.provider}/{body.model}"
                points.append(
                    Point(
                        entry_id=entry.id,
                        timestamp=entry.timestamp,
                        tokens=body.usage.context_tokens,
                        cost_usd=cost_usd if cost_usd or is_priced(name) else None,
                        parts=held.parts(body.usage.context_tokens),
                    )
                )
            continue
        kind: MarkKind | None = "compaction" if isinstance(body, Compaction) else None
        if kind is None and entry.custom_data(FLUSH_ENTRY) is not None:
            kind = "flush"
        if kind is not None:
            marks.append(
                Mark(kind=kind, behind=len(points) - 1, entry_id=entry.id, timestamp=entry.timestamp)
            )
    return Timeline(points=tuple(points), marks=tuple(marks), budget=budget)


class _Held:
    """What the model sees of a growing transcript: the entries since the last compaction, and its
    summary.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[str, bool, int]] = []
        self._said_tokens = self._result_tokens = self._summary_tokens = 0

    def take(self, entry: Entry) -> None:
        body = entry.body
        if isinstance(body, Compaction):
            places = [number for number, kept in enumerate(self._kept) if kept[0] == body.first_kept_entry_id]
            self._kept = self._kept[places[0] :] if places else []
            self._said_tokens = sum(tokens for _, is_result, tokens in self._kept if not is_result)
            self._result_tokens = sum(tokens for _, is_result, tokens in self._kept if is_result)
            self._summary_tokens = estimate_tokens(body.summary)
            return
        tokens = 0
        if isinstance(body, Message):
            tokens = estimate_message_tokens(body, estimate_tokens)
        elif isinstance(body, CustomMessage):
            tokens = estimate_tokens(body.content)
        is_result = isinstance(body, ToolResultMessage)
        self._kept.append((entry.id, is_result, tokens))
        if is_result:
            self._result_tokens += tokens
        else:
            self._said_tokens += tokens

    def parts(self, counted_tokens: int) -> PartTokens:
        """The parts of a context of this many tokens. Estimates that exceed it are scaled down."""
        said, results = self._said_tokens, self._result_tokens
        known = results + said + self._summary_tokens
        share = min(1.0, counted_tokens / known) if known else 1.0
        summary, said, results = (int(tokens * share) for tokens in (self._summary_tokens, said, results))
        return PartTokens(
            fixed=counted_tokens - summary - said - results,
            summary=summary,
            conversation=said,
            tool_results=results,
        )
