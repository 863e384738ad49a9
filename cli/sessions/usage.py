"""The command `nacre usage`: tokens and money by day, model, purpose or session."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import begin, json_option, run_reporting, shared_options
from nacre.cli.screen.json_text import camel_json, print_json
from nacre.cli.screen.plain import aligned, one_line
from nacre.cli.screen.screen import screen_on

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.runtime.agent.insight.usage import UsageRow

_HEADING = ("CALLS", "INPUT", "CACHED", "OUTPUT", "COST")


@click.command("usage")
@click.option(
    "--by",
    type=click.Choice(["day", "model", "purpose", "session"]),
    default="day",
    help="What each row is; default: day.",
)
@json_option()
@shared_options
def command(context: click.Context, by: str, as_json: bool) -> int:
    """Show the tokens and cost of models and embeddings.

    Purposes are reply, flush, compaction, name, embedding and background. The cost is from the provider or
    litellm's price map; the sums leave out models without a known price.
    """
    from nacre.sessions.contracts.errors import SessionError

    invocation = begin(context)
    return run_reporting(invocation, _usage(invocation, by, as_json=as_json), SessionError)


async def _usage(invocation: Invocation, by: str, *, as_json: bool) -> int:
    from nacre.runtime.agent.insight.usage import calls_of, grouped, total_of, unpriced_models
    from nacre.runtime.settings.spending import spent_today_usd

    config = invocation.config
    now = config.clock
    calls = await calls_of(config, now)
    rows, total = grouped(calls, by), total_of(calls)
    cap_usd = config.settings.usage.daily_cap_usd
    today_usd = await spent_today_usd(config, now)
    if as_json:
        return print_json(
            {
                "by": by,
                "rows": [{by: row.name, **_json(row)} for row in rows],
                "total": _json(total),
                "unpricedModels": list(unpriced_models(calls)),
                "todayUsd": today_usd,
                "dailyCapUsd": cap_usd,
            }
        )
    screen = screen_on(sys.stdout, invocation.environment)
    cells = [(by.upper(), *_HEADING)]
    for row in [*rows, total]:
        usage = row.usage
        read, cached, written = usage.prompt_tokens, usage.cache_read_tokens, usage.output_tokens
        cost = "no price known" if row.cost_usd is None else f"${row.cost_usd:.4f}"
        numbers = (f"{read:,}", f"{cached:,}", f"{written:,}", cost)
        cells.append((one_line(row.name), f"{row.calls:,}", *numbers))
    for line in aligned(cells, has_numbers=True):
        screen.row(line)
    if (without := unpriced_models(calls)) and total.cost_usd is not None:
        invocation.say("", f"The sums leave out these models without a known price: {', '.join(without)}.")
    if cap_usd is not None:
        invocation.say("", f"Today: ${today_usd:.4f} of ${cap_usd:.2f} (usage.dailyCapUsd).")
    return 0


def _json(row: UsageRow) -> dict[str, Any]:
    counted = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
    return {
        **camel_json(row, "calls"),
        **camel_json(row.usage, *counted),
        **camel_json(row, "cost_usd", "unpriced_calls"),
    }
