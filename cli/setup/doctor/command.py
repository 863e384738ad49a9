"""The command `nacre doctor`: report and repairs, and the checks of program, model, tools and channels."""

from __future__ import annotations

import asyncio
import platform
import shutil
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from nacre import __version__
from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.cli.setup.doctor.finding import Finding
from nacre.installation import install_command
from nacre.memory.files.sources.secrets import without_secrets

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.runtime.contracts.clock import Clock
    from nacre.runtime.providers.provider import ModelFacts
    from nacre.runtime.settings.config import Config


@click.command("doctor")
@click.option("--fix", is_flag=True, help="Also do the safe repairs: nothing is deleted, only set aside.")
@click.option("--online", is_flag=True, help="Also ask the model for one word, which costs a few tokens.")
@json_option()
@shared_options
def command(context: click.Context, fix: bool, online: bool, as_json: bool) -> int:
    """Find problems and say how to solve them.

    Exit code 0 when all is well, 1 when there is a problem, 2 when the settings cannot be used.
    """
    from nacre.runtime.contracts.clock import owner_clock

    invocation = begin(context)
    now = owner_clock(invocation.config.settings.agent.user_timezone)
    invocation.config.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = asyncio.run(_found(invocation, now, online=online, fix=fix))
    problems = [each for each in found if each.state == "problem"]
    if as_json:
        print_json({"well": not problems, "findings": [each.json() for each in found]})
        return 1 if problems else 0
    for each in found:
        invocation.say(*each.lines())
    if problems:
        safe = sum(each.repair is not None for each in problems)
        can = f" `nacre doctor --fix` mends {safe} of them." if safe and not fix else ""
        invocation.say("", f"{len(problems)} {'problem' if len(problems) == 1 else 'problems'}.{can}")
    else:
        invocation.say("", "All is well.")
    return 1 if problems else 0


async def _found(invocation: Invocation, now: Clock, *, online: bool, fix: bool) -> list[Finding]:
    from nacre.cli.setup.doctor.disk_checks import disk_findings, index_findings, session_findings
    from nacre.runtime.contracts.errors import ConfigError
    from nacre.runtime.settings.config import SETTINGS_FILE
    from nacre.runtime.settings.disk.variables import values_unseen
    from nacre.runtime.storage.storage import storage_of

    found = [*program_findings(invocation.config, now)]
    try:
        storage_of(invocation.config)
    except ConfigError as error:
        advice = "What it keeps was not looked at."
        found.append(Finding(area="storage", state="problem", text=str(error), advice=advice))
    else:
        found += [
            *await model_findings(invocation.config, now, online=online),
            *await disk_findings(invocation, now),
            *await session_findings(invocation, now),
            *await index_findings(invocation, now),
            *await serving_findings(invocation, now),
            *await tool_findings(invocation.config),
        ]
    if fix:
        found = [await _mended(each) for each in found]
    file = invocation.config.state_dir / SETTINGS_FILE

    def unseen(text: str) -> str:
        return values_unseen(text, file, invocation.environment)

    return [replace(each, text=unseen(each.text), advice=unseen(each.advice)) for each in found]


async def _mended(finding: Finding) -> Finding:
    from nacre.memory.contracts.errors import MemoryIndexError

    if finding.repair is None:
        return finding
    try:
        done = await finding.repair()
    except (OSError, MemoryIndexError) as error:
        return replace(finding, advice=f"The repair failed: {error}. {finding.advice}")
    return replace(finding, state="fixed", text=f"{finding.text}: {done}", repair=None)


async def tool_findings(config: Config) -> list[Finding]:
    """Whether each server of `mcp.servers` could be started, and each skill be used. Starts nothing."""
    from nacre.memory.contracts.settings import at_home
    from nacre.runtime.storage.storage import open_skills

    found: list[Finding] = []
    servers = {name: server for name, server in config.settings.mcp.servers.items() if server.enabled}
    if servers and find_spec("mcp") is None:
        advice = f"Install it with `{install_command('mcp')}`."
        text = f"{', '.join(servers)}: the library mcp is not installed"
        found.append(Finding(area="tool servers", state="problem", text=text, advice=advice))
    for name, server in servers.items():
        path = config.environment.get("PATH")
        if server.command and shutil.which(at_home(server.command, config.home), path=path) is None:
            text = f"{name}: there is no program {server.command!r}"
            advice = f"Install it, or write its whole path in mcp.servers.{name}.command."
            found.append(Finding(area="tool servers", state="problem", text=text, advice=advice))
    if servers and not found:
        found.append(Finding(area="tool servers", state="well", text=", ".join(servers)))
    skills = await open_skills(config).found()
    advice = "`nacre admin extensions skills` lists them all."
    found += [Finding(area="skills", state="note", text=text, advice=advice) for text in skills.problems]
    if skills.skills and not skills.problems:
        found.append(Finding(area="skills", state="well", text=str(len(skills.skills))))
    return found


async def serving_findings(invocation: Invocation, now: Clock) -> list[Finding]:
    """Whether the channels can be used, and what hinders those that are served."""
    from nacre.bridges.connections.supervisor import saved_statuses
    from nacre.bridges.server import check_channels
    from nacre.runtime.contracts.errors import ConfigError
    from nacre.runtime.ledger.records import LedgerUnusable
    from nacre.runtime.storage.storage import ledger_of

    try:
        told = check_channels(invocation.config, now)
    except ConfigError as error:
        advice = "Nothing is served until that is put right; `nacre serve --check` tries again."
        return [Finding(area="channels", state="problem", text=str(error), advice=advice)]
    place = ledger_of(invocation.config)
    try:
        if not await place.is_there():
            text = " ".join(told) or "none is set up"
            return [Finding(area="channels", state="well", text=text)]
        is_running = await place.is_served()
        tables = await place.open_tables(now=now)
        try:
            kept = await saved_statuses(tables, now)
            counts = await tables.not_done()
        finally:
            await tables.close()
    except LedgerUnusable as error:
        advice = "What was set aside lies beside it; `nacre status` says more."
        return [Finding(area="channels", state="problem", text=str(error), advice=advice)]
    found = [
        Finding(area="channels", state="problem", text=each.status.line, advice="`nacre status` says more.")
        for each in kept
        if is_running and each.status.state != "connected"
    ]
    if kept and not is_running:
        advice = "`nacre serve` answers them; `nacre init --service` keeps it running."
        found.append(Finding(area="channels", state="note", text="nobody serves them now", advice=advice))
    if counts.get("failed"):
        text = f"{counts['failed']} messages could not be sent for good"
        found.append(Finding(area="channels", state="note", text=text, advice="The log says why."))
    return found or [Finding(area="channels", state="well", text="connected" if is_running else "none")]


_LIBRARIES = ("litellm", "onnxruntime")
_MOST_OF_WINDOW = 0.25
"""Above this share of the window, workspace files are worth a word."""


def program_findings(config: Config, now: Clock) -> Iterator[Finding]:
    """Versions, the settings' own notices, the owner's time zone."""
    found = ", ".join(f"{name} {_version(name)}" for name in _LIBRARIES)
    yield Finding(
        area="versions",
        state="well",
        text=f"Nacre {__version__}, Python {platform.python_version()}, {found}",
    )
    for notice in config.notices:
        yield Finding(area="settings", state="note", text=notice, advice="`nacre config check` says more.")
    moment, named = now(), config.settings.agent.user_timezone
    text = f"{moment.tzinfo}, where it is {moment:%Y-%m-%d %H:%M}"
    if named:
        yield Finding(area="time zone", state="well", text=text)
    else:
        yield Finding(
            area="time zone",
            state="note",
            text=f"{text}; taken from the system",
            advice="It decides which day a note belongs to. If it is not yours: "
            "`nacre config set agents.defaults.userTimezone Europe/Madrid`.",
        )


async def model_findings(config: Config, now: Clock, *, online: bool) -> list[Finding]:
    """The model, its key, whether it can be reached, and its window."""
    from nacre.runtime.contracts.errors import ConfigError
    from nacre.runtime.providers.opening import missing_extra, model_facts

    try:
        facts = model_facts(config, now)
    except ConfigError as error:
        advice = "`nacre init` chooses one."
        return [Finding(area="model", state="problem", text=str(error), advice=advice)]
    if not facts.name:
        advice = "`nacre init` connects one."
        text = "none: the offline responder answers"
        return [Finding(area="model", state="note", text=text, advice=advice), *await _window(config, now)]
    if extra := missing_extra(config, facts.name):
        text = f"{without_secrets(facts.name)} needs the extra {extra!r} of Nacre, which is not installed"
        advice = f"Install it with `{install_command(extra)}`."
        found = [Finding(area="model", state="problem", text=text, advice=advice)]
    else:
        found = [await _reach(config, now, facts, online=online)]
    if facts.has_key or not facts.needs_key:
        text = "found" if facts.has_key else "none is needed at this address"
        found.append(Finding(area="key", state="well", text=text))
    else:
        provider = facts.name.partition("/")[0]
        found.append(
            Finding(
                area="key",
                state="problem",
                text=f"there is none for {provider}",
                advice=f"Set {facts.key_variable}, or models.providers.{provider}.apiKey in nacre.json5.",
            )
        )
    return [*found, *await _window(config, now)]


async def _reach(config: Config, now: Clock, facts: ModelFacts, *, online: bool) -> Finding:
    from nacre.runtime.agent.insight.model_facts import answer_problem, listens

    at = f" at {facts.address}" if facts.address else ""
    name = without_secrets(facts.name)  # somebody may have put a key where the model's name belongs
    if facts.is_local and not await listens(facts.address):
        return Finding(
            area="model",
            state="problem",
            text=f"{name}: nobody listens{at}",
            advice="Start the server there, or correct the address: "
            f"models.providers.{facts.name.partition('/')[0]}.baseUrl.",
        )
    if online:
        problem = await answer_problem(config, now)
        if problem:
            return Finding(
                area="model",
                state="problem",
                text=f"{name}{at} does not answer: {without_secrets(problem)}",
                advice="Check its name, its key and its address; `nacre config explain models.providers`.",
            )
        return Finding(area="model", state="well", text=f"{name}{at}: answered")
    told = "listens" if facts.is_local else "not asked; --online asks it for one word"
    return Finding(area="model", state="well", text=f"{name}{at}: {told}")


async def _window(config: Config, now: Clock) -> list[Finding]:
    from nacre.runtime.agent.insight.model_facts import (
        budget_of,
        fitting_note_tools,
        token_counter,
        workspace_files,
    )
    from nacre.runtime.contracts.budget import TIGHT_WINDOW_TOKENS, WINDOW_SOURCES
    from nacre.runtime.contracts.errors import ConfigError

    try:
        budget = await budget_of(config, now)
    except ConfigError as error:
        advice = "`nacre config explain agents.defaults.contextTokens` tells what is set."
        return [Finding(area="window", state="problem", text=str(error), advice=advice)]
    text = (
        f"{budget.window_tokens} tokens ({WINDOW_SOURCES[budget.window_source]}): reserve "
        f"{budget.reserve_tokens}, flush from {budget.flush_at} on, compaction above {budget.compact_at}"
    )
    is_assumed = budget.window_source == "fallback" and bool(config.model_name)
    advice = ""
    if is_assumed:
        advice = "Say how large it is: `nacre config set agents.defaults.contextTokens N`."
    elif budget.window_tokens < TIGHT_WINDOW_TOKENS:
        advice = "This is small: history is compacted often. Choose a model with a larger window."
        if fitting := fitting_note_tools(budget.window_tokens):
            advice = f"{advice} Of the tools for notes, only {', '.join(fitting)} fit."
    found = [Finding(area="window", state="note" if advice else "well", text=text, advice=advice)]
    count = token_counter(config.model_name)
    shown = await workspace_files(config, now, window_tokens=budget.window_tokens)
    files = [file for file in shown if not file.missing]
    tokens = {file.name: count(file.text) for file in files}
    total = sum(tokens.values())
    each = ", ".join(f"{name} {number}" for name, number in tokens.items() if number)
    is_much = total > budget.window_tokens * _MOST_OF_WINDOW
    cut = [file.name for file in files if file.truncated]
    advice = f"Shorten them: each request carries them. {', '.join(cut)} is cut." if cut else ""
    found.append(
        Finding(
            area="prompt",
            state="note" if cut or is_much else "well",
            text=f"workspace files take about {total} tokens of each request ({each or 'none'})",
            advice=advice or ("Shorten them: each request carries them." if is_much else ""),
        )
    )
    return found


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "is not installed"
