"""`/status`: model, context, compactions, memory and age of a session; `/usage`: tokens and cost."""

from __future__ import annotations

import asyncio
from datetime import datetime

from nacre import __version__
from nacre.memory.files.sources.secrets import without_secrets
from nacre.runtime.commands.command import Command, CommandRun, Outcome
from nacre.runtime.commands.conversation.history import usage_of
from nacre.runtime.commands.conversation.status import SessionStatus, status_of
from nacre.runtime.commands.wording import money, short_age, short_count, usage_text
from nacre.runtime.providers.opening import has_price
from nacre.runtime.recall.memory_slot import NO_MEMORY
from nacre.runtime.settings.spending import spent_today_usd


async def _status(run: CommandRun) -> Outcome:
    """Token counts are estimated until a provider reports usage."""
    turn, now = run.turn, run.turn.parts.now()
    session = await status_of(turn, run.lifecycle)
    memory = f"{NO_MEMORY} · private memory is not available in this chat"
    if turn.session.policy.is_private:
        memory = await turn.parts.memory.status()
    flush, last_flush = session.last_flush, "never in this session"
    if flush is not None:
        last_flush = f"{flush.at.astimezone(now.tzinfo).strftime('%Y-%m-%d %H:%M')} ({flush.status})"
    lines = [
        f"🐚 Nacre {__version__} · {now.strftime('%Y-%m-%d %H:%M')} {now.tzname()}",
        f"🧠 Model: {_model(session)}",
        f"📚 Context: {_context(session)}",
        *_cache(session),
        f"🧹 Compactions: {session.compaction_count} · last flush: {last_flush}",
        f"📝 Memory: {memory}",
        f"🧵 Session: {session.key} · {session.session_id}",
        f"⏳ {_age(session, now)}",
    ]
    if turn.session.policy.is_private:  # the path contains the owner's account name
        lines.append(f"📁 Workspace: {turn.parts.workspace.place}")
        servers = [line for source in turn.parts.tool_sources for line in source.status()]
        lines += [f"🔌 MCP servers: {' · '.join(servers)}"] if servers else []
    return run.reply("\n".join(lines))


def _model(session: SessionStatus) -> str:
    chosen, asked = session.model_name, session.answering_model_name
    text = chosen if asked == chosen else f"{chosen} · paused after a failure, {asked} answers"
    return without_secrets(text)  # the setting may contain a key instead of a model name


def _context(session: SessionStatus) -> str:
    tokens, budget = session.context_tokens, session.budget
    percent = round(100 * tokens / budget.window_tokens)
    estimated = " (estimated)" if session.is_estimated else ""
    assumed = " · window assumed" if budget.window_source == "fallback" else ""
    return (
        f"{short_count(tokens)}/{short_count(budget.window_tokens)} ({percent}%){estimated}"
        f" · flush at {short_count(budget.flush_at)} · compact above {short_count(budget.compact_at)}"
        f"{assumed}"
    )


def _cache(session: SessionStatus) -> list[str]:
    """How much of the last request the provider read from its cache; empty if it reported no usage."""
    usage = session.last_usage
    if usage is None:
        return []
    sent_tokens, read_tokens = usage.prompt_tokens, usage.cache_read_tokens
    percent = round(100 * read_tokens / max(sent_tokens, 1))
    return [
        f"♻️ Prompt cache: {short_count(read_tokens)} of {short_count(sent_tokens)} tokens ({percent}%) "
        "of the last request were read from it"
    ]


def _age(session: SessionStatus, now: datetime) -> str:
    if session.started_at is None or session.last_said_at is None:
        return "Nothing has been said in this session yet"
    ages = [
        f"Started {short_age(now - session.started_at)} ago",
        f"last message {short_age(now - session.last_said_at)} ago",
    ]
    reset = session.next_reset
    if reset is None:
        return " · ".join([*ages, "no reset"])
    if reset.at.timestamp() <= now.timestamp():
        return " · ".join([*ages, f"{reset.cause} reset with the next message"])
    return " · ".join([*ages, f"{reset.cause} reset {reset.at.strftime('%Y-%m-%d %H:%M')}"])


async def _usage(run: CommandRun) -> Outcome:
    """Only usage that providers reported is counted."""
    turn, config = run.turn, run.config
    status = await status_of(turn, run.lifecycle)
    total = await asyncio.to_thread(usage_of, turn.session.journal.tree)
    is_priced = await asyncio.to_thread(has_price, config, status.answering_model_name)
    rows = [("This session", usage_text(total, is_priced=is_priced))]
    if status.last_usage is not None:
        rows.insert(0, ("Last answer", usage_text(status.last_usage, is_priced=is_priced)))
    today_usd, cap_usd = await spent_today_usd(config, turn.parts.now), config.daily_cap.usd
    cap = "" if cap_usd is None else f" of ${cap_usd:.2f} (usage.dailyCapUsd)"
    rows.append(("Today", f"{money(today_usd)}{cap}, all conversations"))
    lines = [f"{label:<12}  {text}" for label, text in rows]
    return run.reply("\n".join([*lines, "`nacre usage` shows the other days."]))


STATUS = Command(
    name="status", help="model, context, notes and age of this session", run=_status, group="This chat"
)
USAGE = Command(
    name="usage",
    help="tokens and cost: last answer, session, today",
    run=_usage,
    where=("private",),
    group="This chat",
)
