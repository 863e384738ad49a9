"""The quiet line above what the owner types: model, window, next flush, cost. Pure."""

from __future__ import annotations

from nacre.cli.screen.plain import cell_width, cut_to_cells, one_line
from nacre.runtime.commands.conversation.status import SessionStatus
from nacre.runtime.commands.wording import money, short_count, usage_text
from nacre.runtime.contracts.budget import ContextBudget
from nacre.sessions.contracts.messages import Usage

_BAR_CELLS = 20
_PART = "  "


def status_line(
    status: SessionStatus | None,
    model_name: str,
    columns: int,
    *,
    turn: Usage | None = None,
    is_priced: bool = True,
    day_usd: float = 0.0,
) -> str:
    """Where the session stands, and what the last turn took, in at most so many columns.

    `status` is `None` while nothing was said. `turn` has the tokens and cost of the last turn; `is_priced`
    says whether the price of its model is known. `day_usd` is what the agents of the state folder cost today,
    as far as prices are known. On a narrow screen the next flush goes first, then the day, then half of the
    bar, then the turn.
    """
    if status is None:
        return cut_to_cells(one_line(model_name), columns)
    tokens, budget = status.context_tokens, status.budget
    assumed = " assumed" if budget.window_source == "fallback" else ""
    head = one_line(status.answering_model_name)
    size = f"{short_count(tokens)}/{short_count(budget.window_tokens)}{assumed}"
    flush = [_next_flush(tokens, budget)] if budget.flush_enabled else []
    spent = [usage_text(turn, is_priced=is_priced)] if turn is not None else []
    day = [f"today {money(day_usd)}"] if day_usd > 0 else []
    both = [" · ".join([*spent, *day])] if spent or day else []
    bar, short_bar = window_bar(tokens, budget), window_bar(tokens, budget, cells=_BAR_CELLS // 2)
    for parts in (
        [bar, size, *flush, *both],
        [bar, size, *both],
        [bar, size, *spent],
        [short_bar, size, *spent],
        [bar, size, *flush],
        [bar, size],
    ):
        line = _PART.join([head, *parts])
        if cell_width(line) <= columns:
            return line
    return cut_to_cells(_PART.join([head, short_bar]), columns)


def window_bar(tokens: int, budget: ContextBudget, *, cells: int = _BAR_CELLS) -> str:
    """The window as a bar: what is full, and the two lines at which notes are saved and history is compacted.

    >>> window_bar(50_000, ContextBudget(window_tokens=200_000, window_source="model", reserve_tokens=20_000,
    ...                                  soft_threshold_tokens=40_000, keep_recent_tokens=20_000))
    '█████░░░░░░░░░┆░░░│░'
    """

    def cell(tokens_there: int) -> int:
        return min(cells - 1, cells * tokens_there // max(1, budget.window_tokens))

    full = min(cells, -(-cells * tokens // max(1, budget.window_tokens)))
    bar = list("█" * full + "░" * (cells - full))
    compacts = max(1, cell(budget.compact_at))
    bar[min(cell(budget.flush_at), compacts - 1)] = "┆"
    bar[compacts] = "│"
    return "".join(bar)


def _next_flush(tokens: int, budget: ContextBudget) -> str:
    """The soft threshold, as what may still be said before it."""
    left = budget.flush_at - tokens
    return f"flush in {short_count(left)}" if left > 0 else "flush due"
