"""The command `nacre doctor`: every check, the report, the safe repairs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.cli.setup.doctor.finding import Finding

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.runtime.contracts.clock import Clock


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
    from nacre.cli.setup.doctor.disk_checks import disk_findings
    from nacre.cli.setup.doctor.index_checks import index_findings
    from nacre.cli.setup.doctor.model_checks import model_findings, program_findings
    from nacre.cli.setup.doctor.serving_checks import serving_findings
    from nacre.cli.setup.doctor.session_checks import session_findings
    from nacre.cli.setup.doctor.tool_checks import tool_findings
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
