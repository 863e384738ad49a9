"""`/context` shows the parts of the next request with their sizes."""

from __future__ import annotations

from nacre.runtime.commands.contract.command import Command, CommandRun, Outcome
from nacre.runtime.commands.contract.wording import short_count
from nacre.runtime.commands.insight.context_parts import ContextView, context_of


async def _context(run: CommandRun) -> Outcome:
    return run.said("\n".join(context_lines(await context_of(run.turn))))


def context_lines(view: ContextView) -> list[str]:
    """The parts with their tokens, the total relative to the window, and the cached tokens."""
    budget, width = view.budget, max(len(part.name) for part in view.parts)
    percent = round(100 * view.tokens / budget.window_tokens)
    lines = [
        f"{view.key} · {view.model_name}",
        *(
            f"{part.name:<{width}}  {short_count(part.tokens):>6}{'  cached' if part.is_cached else ''}"
            for part in view.parts
        ),
        f"{'together':<{width}}  {short_count(view.tokens):>6}  about {percent}% of "
        f"{short_count(budget.window_tokens)}, flush at {short_count(budget.flush_at)}, "
        f"compact above {short_count(budget.compact_at)}",
    ]
    usage = view.last_usage
    if usage is not None:
        prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        lines.append(
            f"last reply: {short_count(usage.cache_read_tokens)} of {short_count(prompt)} tokens "
            "came from the provider's cache"
        )
    return lines


CONTEXT = Command(name="context", help="what the model would get now, by part, with sizes", run=_context)
