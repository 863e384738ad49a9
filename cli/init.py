"""The command `nacre init`: folders and files of a new owner, and what to do next."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import begin, shared_options

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.memory.workspace.workspace import WorkspaceReport


@click.command("init")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of sentences.")
@shared_options
@click.pass_context
def command(context: click.Context, as_json: bool) -> int:
    """Make the state folder and the workspace.

    Safe to repeat: what exists is never overwritten. nacre chat does the same by itself.
    """
    from nacre.cli.screen.json_text import json_text
    from nacre.cli.screen.screen import screen_on
    from nacre.memory.workspace.workspace import ensure_workspace
    from nacre.runtime.contracts.errors import TurnBroken

    invocation = begin(context)
    config = invocation.config
    try:
        config.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        report = asyncio.run(
            ensure_workspace(config.workspace, with_templates=not config.settings.agent.skip_bootstrap)
        )
    except OSError as error:
        raise TurnBroken(
            f"The folders could not be made: {error}. Choose others with --state-dir or --workspace."
        ) from error
    if as_json:
        sys.stdout.write(json_text(_facts(invocation, report)) + "\n")
        return 0
    screen = screen_on(sys.stdout, invocation.environment)
    for line in _lines(invocation, report):
        screen.line(line)
    for notice in (*config.notices, *((report.notice,) if report.notice else ())):
        screen_on(sys.stderr, invocation.environment).line(notice, "warning")
    return 0


def _facts(invocation: Invocation, report: WorkspaceReport) -> dict[str, object]:
    config = invocation.config
    return {
        "stateDir": str(config.state_dir),
        "workspace": str(config.workspace),
        "created": list(report.created),
        "isNew": report.is_new,
        "git": report.git,
        "model": config.model_name or None,
        "notices": [*config.notices, *((report.notice,) if report.notice else ())],
    }


def _lines(invocation: Invocation, report: WorkspaceReport) -> list[str]:
    config = invocation.config
    created = f"created {', '.join(report.created)}" if report.created else "nothing was missing"
    git = {"initialised": "git history started", "present": "git history kept"}.get(report.git, "")
    model = config.model_name or "none yet: Nacre answers offline until NACRE_MODEL=provider/model is set"
    return [
        f"State      {invocation.short(config.state_dir)}",
        f"Workspace  {invocation.short(config.workspace)}",
        f"           {created}{'; ' if git else ''}{git}",
        f"Model      {model}",
        "",
        "Next: `nacre chat` to talk. USER.md in the workspace is the place to say who you are.",
    ]
