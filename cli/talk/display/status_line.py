"""The quiet line above what the owner types: model, window, next flush, cost. Pure."""

from __future__ import annotations

from nacre.cli.screen.plain import cell_width, cut_to_cells, one_line
from nacre.runtime.commands.contract.wording import short_count
from nacre.runtime.commands.conversation.status import SessionStatus
from nacre.runtime.contracts.budget import ContextBudget

_BAR_CELLS = 20
_PART = "  "
_SMALLEST_USD = 0.0001


def status_line(
    status: SessionStatus | None, model_name: str, columns: int, *, turn_usd: float | None, day_usd: float
) -> str:
    """Where the session stands, in at most so many columns: what does not fit goes, the model and bar last.

    `status` is `None` while nothing was said. `turn_usd` is the cost of the last turn, `None` where the
    price of its model is not known; `day_usd` is what the agents of the state folder cost today, as far as
    prices are known.
    """
    if status is None:
        return cut_to_cells(one_line(model_name), columns)
    tokens, budget = status.context_tokens, status.budget
    assumed = " assumed" if budget.window_source == "fallback" else ""
    parts = [
        one_line(status.answering_model_name),
        window_bar(tokens, budget),
        f"{short_count(tokens)}/{short_count(budget.window_tokens)}{assumed}",
    ]
    if budget.flush_enabled:
        parts.append(_next_flush(tokens, budget))
    turn = "no price known" if turn_usd is None else _money(turn_usd)
    if day_usd > 0:
        parts.append(f"{turn} · today {_money(day_usd)}")
    elif turn_usd is None:
        parts.append(turn)
    while len(parts) > 2 and cell_width(_PART.join(parts)) > columns:
        parts.pop()
    return cut_to_cells(_PART.join(parts), columns)


def window_bar(tokens: int, budget: ContextBudget) -> str:
    """The window as a bar: what is full, and the two lines at which notes are saved and history is compacted.

    >>> window_bar(50_000, ContextBudget(window_tokens=200_000, window_source="model", reserve_tokens=20_000,
    ...                                  soft_threshold_tokens=40_000, keep_recent_tokens=20_000))
    '█████░░░░░░░░░┆░░░│░'
    """

    def cell(tokens_there: int) -> int:
        return min(_BAR_CELLS - 1, _BAR_CELLS * tokens_there // max(1, budget.window_tokens))

    full = min(_BAR_CELLS, -(-_BAR_CELLS * tokens // max(1, budget.window_tokens)))
    bar = list("█" * full + "░" * (_BAR_CELLS - full))
    compacts = max(1, cell(budget.compact_at))
    bar[min(cell(budget.flush_at), compacts - 1)] = "┆"
    bar[compacts] = "│"
    return "".join(bar)


def _next_flush(tokens: int, budget: ContextBudget) -> str:
    """The soft threshold, as what may still be said before it."""
    left = budget.flush_at - tokens
    return f"flush in {short_count(left)}" if left > 0 else "flush due"


def _money(usd: float) -> str:
    """Dollars as people read them: two digits that count."""
    if usd <= 0:
        return "$0"
    if usd < _SMALLEST_USD:
        return f"<${_SMALLEST_USD}"
    return f"${usd:.2f}" if usd >= 1 else f"${usd:.4f}" if usd < 0.01 else f"${usd:.3f}"
