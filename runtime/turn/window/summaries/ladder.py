"""From a plan to a summary: which models are asked, in which order, and when an extract must do.

    the model for compactions ─► the session's model ─► an extract, if it wrote no summary or the window
                                                    │   overflowed
                                                    └─► the history stays, and the owner is told why

A placeholder is never an answer: without a summary nothing is replaced.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from nacre.record import Record
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.errors import BadModelReply, ContextOverflow, ModelError
from nacre.runtime.contracts.events import Emit
from nacre.runtime.contracts.model import Ask, ChatModel
from nacre.runtime.models.failover import ModelChain
from nacre.runtime.settings.sections.agents import CompactionSettings
from nacre.runtime.turn.window.summaries.summariser import (
    PartialSummaries,
    Summariser,
    SummaryLimits,
    SummaryTimedOut,
)
from nacre.sessions.compaction.cut import CompactionPlan

log = logging.getLogger(__name__)


class SummaryModel(Record):
    """One rung of the ladder: a model, how to ask it, and how much it may be given and write at once."""

    name: str
    ask: Ask
    limits: SummaryLimits


class Summary(Record):
    """A summary that may be stored. `problem` says which models could not give one, if any was asked."""

    text: str
    model_name: str
    is_extract: bool
    problem: str = ""


async def summary_of(
    plan: CompactionPlan,
    *,
    models: Sequence[SummaryModel],
    extractor: SummaryModel,
    must_shrink: bool,
    instructions: str,
    count_tokens: Callable[[str], int],
    now_ms: Callable[[], int],
    partial: PartialSummaries,
) -> Summary:
    """The summary from the first model that gives one.

    `extractor` is asked last, and only after answers that were no summaries: a provider that is away or
    refuses the key is no reason to put up with less. Where the history `must_shrink`, a time-out or one
    more overflow is.

    Raises:
        ModelError: nobody gave one; the last model's failure, with the reasons of all.
    """
    problems: list[str] = []
    failure: ModelError = BadModelReply("There is no model to ask for a summary.")
    for model in (*models, extractor):
        if model is extractor and not _is_unusable(failure, must_shrink=must_shrink):
            break
        summariser = Summariser(
            ask=model.ask,
            limits=model.limits,
            instructions=instructions,
            count_tokens=count_tokens,
            now_ms=now_ms,
            partial=partial,
        )
        try:
            text = await summariser.summarise(plan)
        except ModelError as error:
            log.warning("no summary from %s: %s", model.name, error)
            failure = error
            problems.append(f"{model.name}: {error}" if len(models) > 1 else str(error))
        else:
            return Summary(
                text=text,
                model_name=model.name,
                is_extract=model is extractor,
                problem=" ".join(problems),
            )
    raise type(failure)(" ".join(problems), detail=failure.detail) from failure


def summary_models(
    chain: ModelChain,
    own: ChatModel | None,
    offline: ChatModel,
    budget: ContextBudget,
    settings: CompactionSettings,
    emit: Emit,
) -> tuple[SummaryModel, ...]:
    """Who is asked, in order: the `own` model of compactions, then those of the conversation."""
    first = chain.first.model
    limits = summary_limits(budget, settings, window_tokens=None)
    usual = SummaryModel(name=first.name, ask=chain.ask(emit), limits=limits)
    if first is offline:
        usual = replace(extractor(offline, budget, settings), ask=usual.ask)
    if own is None or own.name == first.name:
        return (usual,)
    limits = summary_limits(budget, settings, window_tokens=own.context_window_tokens)
    return (SummaryModel(name=own.name, ask=chain.asking(own, emit), limits=limits), usual)


def extractor(offline: ChatModel, budget: ContextBudget, settings: CompactionSettings) -> SummaryModel:
    """The last rung: the offline responder, which extracts."""
    limits = summary_limits(budget, settings, window_tokens=None)
    # No window limits it, and in parts it would read the newest words alone and its own extracts again.
    return SummaryModel(
        name=offline.name, ask=offline.stream, limits=replace(limits, part_tokens=sys.maxsize)
    )


def summary_limits(
    budget: ContextBudget, settings: CompactionSettings, *, window_tokens: int | None
) -> SummaryLimits:
    """What a model with that window is given and asked for; the session's window where it knows none."""
    window = window_tokens or budget.window_tokens
    summary_tokens = min(settings.max_summary_tokens or budget.summary_tokens, window // 8)
    return SummaryLimits(
        # Room for the summary before and after; a fifth of slack, for the provider counts otherwise.
        part_tokens=(window - 2 * summary_tokens) * 4 // 5,
        summary_tokens=summary_tokens,
        timeout_seconds=settings.timeout_seconds,
    )


def _is_unusable(failure: ModelError, *, must_shrink: bool) -> bool:
    """Whether asking again would very likely end the same way."""
    if must_shrink and isinstance(failure, ContextOverflow | SummaryTimedOut):
        return True
    return isinstance(failure, BadModelReply)
