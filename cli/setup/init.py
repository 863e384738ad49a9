"""The command `nacre init`: folders and files of a new owner, and what to do next."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.screen.json_text import camel_json, print_json

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.memory.contracts.workspace import Workspace
    from nacre.memory.workspace.workspace import WorkspaceReport


@click.command("init")
@json_option("Print one JSON object instead of sentences.")
@shared_options
def command(context: click.Context, as_json: bool) -> int:
    """Make the state folder and the workspace.

    Safe to repeat: what exists is never overwritten. nacre chat does the same by itself.
    """
    from nacre.memory.workspace.workspace import ensure_workspace
    from nacre.runtime.contracts.errors import TurnBroken
    from nacre.runtime.settings.disk.open_workspace import left_in_folder, open_workspace
    from nacre.runtime.settings.disk.private_places import keep_private

    invocation = begin(context)
    config = invocation.config
    workspace = open_workspace(config.folders, config.state_dir)

    async def made() -> tuple[WorkspaceReport, str]:
        left = await left_in_folder(config.folders, workspace)
        wanted = not config.settings.agent.skip_bootstrap and not left
        return await ensure_workspace(workspace, with_templates=wanted), left

    try:
        keep_private(config.state_dir, config.folders)
        report, left = asyncio.run(made())
    except OSError as error:
        raise TurnBroken(
            f"The folders could not be made: {error}. Choose others with --state-dir or --workspace."
        ) from error
    notices = (*config.notices, *(text for text in (report.notice, left) if text))
    if as_json:
        return print_json(
            {
                "agentId": config.agent_id,
                "stateDir": str(config.state_dir),
                "workspace": workspace.place,
                **camel_json(report, "created", "is_new", "git"),
                "model": config.model_name or None,
                "notices": list(notices),
            }
        )
    invocation.say(*_lines(invocation, report, workspace))
    invocation.warn(*notices)
    return 0


def _lines(invocation: Invocation, report: WorkspaceReport, workspace: Workspace) -> list[str]:
    config = invocation.config
    created = f"created {', '.join(report.created)}" if report.created else "nothing was missing"
    git = {"initialised": "git history started", "present": "git history kept"}.get(report.git, "")
    named = "" if invocation.is_default_agent else f"--agent {config.agent_id} "
    model = config.model_name or "none yet: Nacre answers offline until NACRE_MODEL=provider/model is set"
    return [
        f"State      {invocation.short(config.state_dir)}",
        f"Workspace  {invocation.short(Path(workspace.place))}",
        f"           {created}{'; ' if git else ''}{git}",
        f"Model      {model}",
        "",
        f"Next: `nacre {named}chat` to talk. USER.md in the workspace is the place to say who you are.",
    ]
