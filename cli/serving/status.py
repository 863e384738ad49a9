"""The command `nacre status`: the model, notes, sessions and cost, and the state of `nacre serve`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.screen.json_text import camel, camel_json, print_json
from nacre.memory.files.sources.secrets import without_secrets
from nacre.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from nacre.cli.invocation import Invocation
    from nacre.runtime.contracts.budget import ContextBudget
    from nacre.runtime.contracts.clock import Clock
    from nacre.runtime.ledger.records import BridgeStatus
    from nacre.runtime.settings.config import Config


NEVER_SERVED = "`nacre serve` has never run with this state folder."


@click.command("status")
@json_option("Print a JSON object.")
@shared_options
def command(context: click.Context, as_json: bool) -> int:
    """Show the model, notes, sessions, cost and channels.

    The exit code is 1 if there is something to serve and `nacre serve` does not run, or if a channel is not
    connected. `nacre doctor` checks more.
    """
    from nacre.runtime.ledger.records import LedgerUnusable
    from nacre.sessions.contracts.errors import SessionError

    invocation = begin(context)
    try:
        return asyncio.run(_status(invocation, invocation.config.clock, as_json=as_json))
    except (LedgerUnusable, SessionError) as error:
        raise click.ClickException(str(error)) from error


async def _status(invocation: Invocation, now: Clock, *, as_json: bool) -> int:
    from nacre.runtime.storage.storage import ledger_of

    config = invocation.config
    overview = await overview_of(config, now)
    if not as_json:
        invocation.say(*overview.lines(invocation.short), "")
    place = ledger_of(config)
    is_wanted = any(channel.enabled for channel in config.settings.channels.values())
    if not await place.is_there():
        if as_json:
            print_json({**overview.json(), "serving": False, "bridges": [], "ledger": {}, "coming": []})
        else:
            (invocation.warn if is_wanted else invocation.say)(NEVER_SERVED)
        return 1 if is_wanted else 0
    from nacre.bridges.schedule.timetable import Timetable, upcoming_lines
    from nacre.closing import using
    from nacre.runtime.ledger.ledger import counts_text

    is_running = await place.is_served()
    async with using(await place.open_tables()) as tables:
        kept = await tables.statuses()
        counts = await tables.not_done()
        timetable = Timetable(tables, now=now)
        coming = await upcoming_lines(timetable, config.agent_id, config.settings.agent.heartbeat, now())
    turns = await _turns(config) if config.settings.storage.workers else {}
    is_wanted = is_wanted or bool(kept or any(counts.values()))
    is_well = (
        turns.get("workers") != 0 and all(each.state == "connected" for each in kept)
        if is_running
        else not is_wanted
    )
    if as_json:
        print_json(
            {
                **overview.json(),
                "serving": is_running,
                "bridges": [_json(each, now) for each in kept],
                "ledger": counts,
                "coming": list(coming),
                **({"turns": turns} if turns else {}),
            }
        )
        return 0 if is_well else 1
    invocation.say("Serving." if is_running else "Not serving: `nacre serve` does not run.")
    invocation.say(*(_line(each, now, is_running=is_running) for each in kept))
    invocation.say(f"📮 Messages: {counts_text(counts)}", *coming)
    if turns:
        invocation.say(
            "⚙️ Turns: {waiting} wait, the longest for {waitingSeconds:.0f} s; {running} run; the oldest was "
            "asked for {oldestSeconds:.0f} s ago; workers: {workers} with {places} places; "
            "sessions held: {leases}, by workers that went silent: {leasesRunOut}; "
            "agents over their limit: {agentsOverQuota}".format(**turns)
        )
    return 0 if is_well else 1


async def _turns(config: Config) -> dict[str, Any]:
    """The turns of workers. Raises `ClickException` if the database cannot be queried."""
    from nacre.runtime.extensions.loading import load_workers
    from nacre.runtime.storage.backend import StorageFailed

    try:
        workers = load_workers(config.folders.storage, config.settings.plugins)
        figures = await workers.figures(config)
    except StorageFailed as error:
        raise click.ClickException(str(error)) from error
    return {camel(name): value for name, value in figures.items()}


def _line(status: BridgeStatus, now: Clock, *, is_running: bool) -> str:
    from nacre.cli.screen.plain import one_line

    since, next_try = _times(status, now)
    since_text = f" since {since:%Y-%m-%d %H:%M}" if since is not None else ""
    again = f"; tried again at {next_try:%H:%M:%S}" if next_try is not None and is_running else ""
    was = "" if is_running else "last: "
    by = f" by {status.holder}" if status.holder and is_running else ""
    return one_line(f"{was}{status.line}{since_text}{by}{again}")


def _times(status: BridgeStatus, now: Clock) -> tuple[datetime | None, datetime | None]:
    from nacre.runtime.contracts.clock import stored_moment

    zone = now().tzinfo
    return stored_moment(status.since_ms, zone), stored_moment(status.next_try_ms, zone)


def _json(status: BridgeStatus, now: Clock) -> dict[str, Any]:
    since, next_try = _times(status, now)
    return {
        "channel": status.channel,
        "accountId": status.account,
        "state": status.state,
        "servedBy": status.holder or None,
        "problem": status.problem or None,
        "restarts": status.restarts,
        "since": since.isoformat() if since is not None else None,
        "nextTry": next_try.isoformat() if next_try is not None else None,
    }


_SHOWN = tuple(
    """
    version agent_id model address has_key needs_key problem time_zone sessions last_session today_usd
    daily_cap_usd history_problem
    """.split()
)


class Overview(Record):
    """The facts about an agent, without its channels.

    `model` is empty if the offline responder answers; `problem` says why a model or its window cannot be
    used, and then there is no `budget`. `last_session` is the session that was last active, as `nacre
    sessions` names it, and `last_active` says when. `today_usd` is the cost of all agents.
    """

    version: str
    agent_id: str
    model: str
    address: str
    has_key: bool
    needs_key: bool
    budget: ContextBudget | None
    problem: str
    time_zone: str
    workspace: Path
    sessions: int
    last_session: str
    last_active: str
    today_usd: float
    daily_cap_usd: float | None
    history_problem: str
    """A clause that says why notes are not committed yet, or `""`."""

    def lines(self, short: Callable[[Path], str]) -> list[str]:
        """A row for each subject; `short` shortens a path."""
        rows = [("Nacre", f"{self.version} · agent {self.agent_id}"), ("Model", self._model())]
        if self.budget is not None:
            budget = self.budget
            assumed = " (assumed)" if self.model and budget.window_source == "fallback" else ""
            rows.append(
                (
                    "Window",
                    f"{budget.window_tokens:,} tokens{assumed}; notes are saved from {budget.flush_at:,}, "
                    f"history is compacted above {budget.compact_at:,}",
                )
            )
        rows.append(("Notes", f"{short(self.workspace)} · days of {self.time_zone}"))
        if self.history_problem:
            rows.append(("History", f"not committed: {self.history_problem}. Run `nacre doctor --fix`"))
        last = f", the last {self.last_session}, {self.last_active}" if self.sessions else ""
        rows.append(("Sessions", f"{self.sessions}{last}"))
        cap = f" of ${self.daily_cap_usd:.2f}" if self.daily_cap_usd is not None else ""
        rows.append(("Today", f"${self.today_usd:.2f}{cap}, as far as prices are known"))
        return [f"{name:<10}{text}" for name, text in rows]

    def json(self) -> dict[str, Any]:
        budget = self.budget
        return {
            **camel_json(self, *_SHOWN),
            "workspace": str(self.workspace),
            "windowTokens": budget.window_tokens if budget else None,
            "flushAtTokens": budget.flush_at if budget else None,
            "compactAboveTokens": budget.compact_at if budget else None,
        }

    def _model(self) -> str:
        if self.problem:
            return self.problem
        if not self.model:
            return "none: the offline responder answers; `nacre init` connects one"
        text = f"{self.model} at {self.address}" if self.address else self.model
        if self.has_key or not self.needs_key:
            return text
        return f"{text} · no key was found; `nacre doctor` says where one belongs"


async def overview_of(config: Config, now: Clock) -> Overview:
    """Collects the facts, changing nothing. It asks only the model's server, for the window.

    Raises:
        SessionError: sessions cannot be listed.
    """
    from nacre import __version__
    from nacre.cli.screen.session_words import age, session_name
    from nacre.closing import using
    from nacre.runtime.contracts.errors import ConfigError
    from nacre.runtime.providers.opening import budget_of, model_facts
    from nacre.runtime.settings.spending import spent_today_usd
    from nacre.runtime.storage.storage import open_sessions

    facts, budget, problem = None, None, ""
    try:
        facts = model_facts(config, now)
        budget = await budget_of(config, now)
    except ConfigError as error:
        problem = str(error)
    async with using(open_sessions(config, now)) as store:
        sessions = await store.index.all()  # without checking their files
    last, record = max(sessions.items(), key=lambda each: each[1].active_at_ms, default=("", None))
    return Overview(
        version=__version__,
        agent_id=config.agent_id,
        model=without_secrets(config.model_name),  # it may contain a key by mistake
        address=facts.address if facts else "",
        has_key=bool(facts and facts.has_key),
        needs_key=bool(facts and facts.needs_key),
        budget=budget,
        problem=problem,
        time_zone=str(now().tzinfo),
        workspace=config.workspace,
        sessions=len(sessions),
        last_session=session_name(last, record, config.settings.session.main_key) if record else "",
        last_active=age(record.active_at_ms, now()) if record else "",
        today_usd=await spent_today_usd(config, now),
        daily_cap_usd=config.settings.usage.daily_cap_usd,
        history_problem=_history_problem(config) if config.is_in_files else "",
    )


def _history_problem(config: Config) -> str:
    from nacre.memory.workspace.history.history_keeper import Health
    from nacre.memory.workspace.history.repository import Repository

    if config.settings.memory.history.commits == "off":
        return ""
    return Health(Repository(config.workspace, state_dir=config.state_dir)).problem()
