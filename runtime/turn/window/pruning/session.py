"""Prunes what a session's model is sent, before a request: looks, decides, records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.settings.sections.agents import ContextPruningSettings
from nacre.runtime.turn.window.pruning.plan import NothingToPrune, Pruning, PruningFacts, plan_pruning
from nacre.sessions.contracts.messages import AssistantMessage, ToolResultMessage
from nacre.sessions.disk.json_text import timestamp_ms
from nacre.sessions.entries.entries import Entry
from nacre.sessions.view.sent_view import (
    PRUNE_TYPE,
    Projection,
    estimate_message_tokens,
    projected,
    projections_of,
    prune_record,
    record_data,
)
from nacre.sessions.view.transcript import TranscriptItem

log = logging.getLogger(__name__)


async def prune(
    session: OpenSession,
    settings: ContextPruningSettings,
    budget: ContextBudget,
    tokens: int,
    count_tokens: Callable[[str], int],
) -> None:
    """Records what of the session is shown otherwise from now on, if anything; says in the log why not.

    `tokens` is how full the window is.
    """
    items, branch = session.view.unpruned(), session.branch

    def decide() -> tuple[Pruning | NothingToPrune, int]:
        recorded = recorded_projections(items, branch)
        facts = PruningFacts(
            items=items, recorded=recorded, tokens=tokens, idle_seconds=_idle_seconds(session, items, branch)
        )
        pruning = plan_pruning(facts, settings=settings, budget=budget)
        if isinstance(pruning, NothingToPrune):
            return pruning, 0
        return pruning, _saved_tokens(items, recorded, pruning.projections, count_tokens)

    pruning, saved_tokens = await asyncio.to_thread(decide)
    if isinstance(pruning, NothingToPrune):
        log.info("nothing was pruned of %s: %s", session.key, pruning.reason)
        return
    data = record_data(pruning.projections, saved_tokens=saved_tokens, reason=pruning.reason)
    await session.journal.append_custom(PRUNE_TYPE, data)
    log.info(
        "pruned %s (%s): %d results are shortened, %d characters and about %d tokens saved: %s",
        session.key,
        pruning.reason,
        len(pruning.projections),
        pruning.saved_chars,
        saved_tokens,
        pruning.numbers,
    )


def recorded_projections(
    items: Sequence[TranscriptItem], branch: Sequence[Entry]
) -> Mapping[str, Projection]:
    """The projections in force of messages that are still there."""
    shown = {item.entry_id for item in items}
    found = projections_of(prune_record(branch))
    return {entry_id: projection for entry_id, projection in found.items() if entry_id in shown}


def _idle_seconds(
    session: OpenSession, items: Sequence[TranscriptItem], branch: Sequence[Entry]
) -> float | None:
    """How long ago the provider last saw the conversation; a record stands for a request that followed."""
    answers = (item.message for item in reversed(items) if isinstance(item.message, AssistantMessage))
    answer = next(answers, None)
    if answer is None:
        return None
    record = prune_record(branch)
    touched_ms = max(answer.timestamp_ms, timestamp_ms(record.timestamp) if record else 0)
    return max(0.0, (session.now_ms() - touched_ms) / 1000)


def _saved_tokens(
    items: Sequence[TranscriptItem],
    before: Mapping[str, Projection],
    after: Mapping[str, Projection],
    count_tokens: Callable[[str], int],
) -> int:
    saved = 0
    for item in items:
        old, new = before.get(item.entry_id), after.get(item.entry_id)
        if new is None or new == old or not isinstance(item.message, ToolResultMessage):
            continue
        shown = item.message if old is None else projected(item.message, old)
        saved += estimate_message_tokens(shown, count_tokens)
        saved -= estimate_message_tokens(projected(item.message, new), count_tokens)
    return saved
