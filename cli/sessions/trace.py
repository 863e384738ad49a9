"""The command `nacre sessions trace`: the steps of the last turns of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import tzinfo
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import json_option, shared_options
from nacre.cli.screen.json_text import camel_json, print_json
from nacre.cli.screen.plain import cut_to_cells, one_line
from nacre.cli.sessions.commands import reading_shelf
from nacre.runtime.agent.insight.trace import Step, TurnTrace, every_step, last_turns
from nacre.runtime.commands.wording import usage_text
from nacre.runtime.contracts.clock import stored_moment
from nacre.runtime.providers.opening import has_price

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.cli.sessions.shelf import SessionShelf
    from nacre.runtime.ledger.tables import LedgerTables

_TEXT_CELLS = 72


@click.command("trace")
@click.argument("name", default="main")
@click.option(
    "--last", metavar="N", type=click.IntRange(min=1), default=1, help="Number of turns; default: 1."
)
@json_option()
@shared_options
@reading_shelf
async def trace(shelf: SessionShelf, invocation: Invocation, name: str, last: int, as_json: bool) -> int:
    """Show the steps of the last turns: messages, models, tools, notes, delivery.

    NAME is the key of a session, an id, or the beginning of an id; default: main.
    """
    session = await shelf.find(name)
    turns = await last_turns(invocation.config, shelf.store, session, last=last)
    if any(step.message_id for turn in turns for step in turn.steps):
        turns = await _add_deliveries(invocation, turns)
    if as_json:
        shown = [
            {**camel_json(turn, "started_ms", "took_ms", "usage"), "steps": list(map(_json, turn.steps))}
            for turn in turns
        ]
        return print_json({"key": session.key, "sessionId": session.session_id, "turns": shown})
    if not turns:
        invocation.warn("This session has no messages yet, so there is no turn to show.")
        return 1
    is_priced = cache(partial(has_price, invocation.config))
    for turn in turns:
        invocation.say(*trace_lines(turn, shelf.zone, is_priced))
    return 0


def trace_lines(turn: TurnTrace, zone: tzinfo, is_priced: Callable[[str], bool]) -> Iterator[str]:
    """A turn as a tree, one line for each step. `is_priced` tells whether the price of a model is known."""
    moment = stored_moment(turn.started_ms, zone)
    at = f"{moment:%Y-%m-%d %H:%M:%S}" if moment is not None else "unknown time"
    are_priced = all(is_priced(step.name) for step in every_step(turn.steps) if step.usage is not None)
    used = f" · {usage_text(turn.usage, is_priced=are_priced)}" if turn.usage.context_tokens else ""
    yield f"Turn {at} · {_seconds(turn.took_ms)}{used}"
    yield from _tree(turn.steps, "", is_priced)


def _tree(steps: Sequence[Step], indent: str, is_priced: Callable[[str], bool]) -> Iterator[str]:
    for number, step in enumerate(steps, 1):
        is_last = number == len(steps)
        yield f"{indent}{'└─' if is_last else '├─'} {_line(step, is_priced)}"
        yield from _tree(step.steps, indent + ("   " if is_last else "│  "), is_priced)


def _line(step: Step, is_priced: Callable[[str], bool]) -> str:
    figures = [_seconds(step.took_ms)] if step.took_ms else []
    if step.first_token_ms:
        figures.append(f"first token {_seconds(step.first_token_ms)}")
    if step.usage is not None:
        figures.append(usage_text(step.usage, is_priced=is_priced(step.name)))
    what = " ".join(filter(None, (step.kind.replace("_", "-"), one_line(step.name))))
    failed = " failed" if step.is_error else ""
    text = cut_to_cells(one_line(step.text), _TEXT_CELLS)
    return " · ".join(filter(None, (f"{what}{failed}", ", ".join(figures), text)))


def _seconds(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _json(step: Step) -> dict[str, Any]:
    raw = camel_json(step)
    return {name: value for name, value in raw.items() if value} | (
        {"steps": list(map(_json, step.steps))} if step.steps else {}
    )


async def _add_deliveries(invocation: Invocation, turns: Sequence[TurnTrace]) -> list[TurnTrace]:
    """The turns with the deliveries that the ledger has of their answers."""
    from nacre.closing import using
    from nacre.runtime.ledger.records import LedgerUnusable
    from nacre.runtime.storage.storage import ledger_of

    try:
        place = ledger_of(invocation.config)
        if not await place.is_there():
            return list(turns)
        async with using(await place.open_tables()) as tables:
            return [TurnTrace(steps=await _with_deliveries(turn.steps, tables)) for turn in turns]
    except LedgerUnusable as error:
        invocation.warn(str(error))
        return list(turns)


async def _with_deliveries(steps: Sequence[Step], tables: LedgerTables) -> tuple[Step, ...]:
    shown = list(steps)
    for number, step in enumerate(steps):
        parts = await tables.deliveries(step.message_id) if step.message_id else ()
        for part in parts:
            if part.received_ms:
                shown[number] = replace(step, took_ms=max(0, step.at_ms - part.received_ms))
            tries = f", {part.attempts} failed attempts" if part.attempts else ""
            problem = f": {part.problem}" if part.problem else ""
            text = f"{part.state}{tries}{problem}"
            where = " ".join(filter(None, (part.channel, part.chat_id)))
            is_error = part.state == "failed"
            shown.append(Step(kind="delivery", name=where, text=text, is_error=is_error))
    return tuple(shown)
