"""The command `nacre init`: folders and files of a new owner, and what to do next."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import begin, environment_of, json_option, shared_options
from nacre.cli.nouns import extension_command
from nacre.cli.screen.json_text import camel_json, print_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nacre.cli.invocation import Invocation
    from nacre.cli.setup.first_run.setting_up import Chosen
    from nacre.memory.contracts.workspace import Workspace
    from nacre.memory.workspace.workspace import WorkspaceReport
    from nacre.runtime.settings.config import Config


@click.command("init")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing: take the first model found that answers.")
@click.option("--address", default="", metavar="URL", help="A server of your own: take its model.")
@click.option("--fallback", "fallbacks", multiple=True, metavar="PROVIDER/MODEL", help="Who is asked next.")
@click.option(
    "--telegram-token-from", default="", metavar="VARIABLE", help="The variable with a Telegram bot's token."
)
@click.option(
    "--restore",
    "backup",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Restore this backup instead, as `nacre restore` does.",
)
@json_option("Print one JSON object instead of sentences.")
@shared_options
def command(
    context: click.Context,
    yes: bool,
    address: str,
    fallbacks: tuple[str, ...],
    telegram_token_from: str,
    backup: Path | None,
    as_json: bool,
) -> int:
    """Set up the assistant: folders, model, channels.

    On a terminal it asks whether to restore a backup, if there is no assistant yet. Then it asks for your
    name, your time zone, a provider or the address of a server, a model, and a key where one is needed, as
    far as they are not known. It tries the model with one call, and offers fallbacks and Telegram. Safe to
    repeat: what exists is never overwritten. nacre chat makes the folders by itself. The options answer
    without questions, with --yes.

    \b
    Examples:
      nacre init
      nacre init --yes
      nacre init --yes --model ollama/qwen3
      nacre init --yes --address http://127.0.0.1:8080/v1
      nacre init --restore nacre-2026-11-20.tar.gz
    """
    from nacre.runtime.settings.config import settings_file
    from nacre.runtime.settings.disk.agent_folders import has_assistant
    from nacre.runtime.storage.storage import storage_of

    asks = not (yes or as_json) and sys.stdin.isatty() and sys.stdout.isatty()
    state_dir = settings_file(environment_of(context)).parent.absolute()
    if backup is None and asks and not has_assistant(state_dir):
        from nacre.cli.setup.first_run.questions import ask_backup

        backup = ask_backup()
    if backup is not None:  # before `begin`, whose log would be in the folder that a restore makes
        return _restored(context, backup, state_dir, as_json=as_json)
    invocation = begin(context)
    config = invocation.config
    workspace = storage_of(config).workspace()
    report, left = _make_folders(config, workspace)
    notices = (*config.notices, *(text for text in (left,) if text))
    token = _token(config.environment, telegram_token_from)
    flags = {"address": address, "fallbacks": fallbacks, "telegram_token": token}
    chosen = _set_up(invocation, workspace, asks_nothing=yes, asks=asks, flags=flags)
    model_name = chosen.model_name if chosen else config.model_name
    trial = chosen.trial if chosen else None
    code = 1 if trial and trial.problem and yes and config.model_name else 0
    if as_json:
        facts = {"agentId": config.agent_id, "stateDir": str(config.state_dir), "workspace": workspace.place}
        tried = camel_json(trial, "model_name", "seconds", "usage", "problem") if trial else None
        found = {"model": model_name or None, "trial": tried, "notices": list(notices)}
        print_json({**facts, **camel_json(report, "created", "is_new"), **found})
        return code
    invocation.say(*_lines(invocation, report, workspace, model_name))
    invocation.warn(*notices)
    return code


def _make_folders(config: Config, workspace: Workspace) -> tuple[WorkspaceReport, str]:
    """Makes what is missing; also says what another storage left in the folder.

    Raises:
        TurnBroken: the disk refused.
    """
    from nacre.memory.workspace.workspace import ensure_workspace
    from nacre.runtime.contracts.errors import TurnBroken
    from nacre.runtime.settings.disk.agent_folders import keep_private
    from nacre.runtime.storage.storage import left_in_folder

    async def made() -> tuple[WorkspaceReport, str]:
        left = await left_in_folder(config, workspace)
        wanted = not config.settings.agent.skip_bootstrap and not left
        return await ensure_workspace(workspace, with_templates=wanted), left

    try:
        keep_private(config.state_dir, config.folders)
        return asyncio.run(made())
    except OSError as error:
        raise TurnBroken(
            f"The folders could not be made: {error}. Choose others with --state-dir or --workspace."
        ) from error


def _restored(context: click.Context, backup: Path, state_dir: Path, *, as_json: bool) -> int:
    """Restores a backup into a state folder without an assistant, as `nacre restore` does.

    Raises:
        click.ClickException: an assistant is there, or the backup cannot be restored.
    """
    from nacre.runtime.settings.disk.agent_folders import has_assistant

    if has_assistant(state_dir):
        raise click.ClickException(
            f"{state_dir} has an assistant already, and nothing was changed. `nacre restore {backup}` "
            "replaces it and keeps its folder under another name."
        )
    restore = extension_command(context, "restore")
    if restore is None:
        raise click.ClickException("`nacre restore` is missing in this installation.")
    return int(context.invoke(restore, archive=backup, as_json=as_json))


def _token(environment: Mapping[str, str], variable: str) -> str:
    token = environment.get(variable, "").strip() if variable else ""
    if variable and not token:
        raise click.UsageError(f"The environment has no {variable}, which --telegram-token-from names.")
    return token


def _set_up(
    invocation: Invocation,
    workspace: Workspace,
    *,
    asks_nothing: bool,
    asks: bool,
    flags: dict[str, Any],
) -> Chosen | None:
    """What the first run chose; `None` where nobody can be asked, or it is about another agent."""
    if not invocation.is_default_agent or not (asks_nothing or asks):
        return None
    from nacre.cli.setup.first_run.setting_up import Flags, set_up_by_itself, set_up_with_questions

    if asks_nothing:
        return set_up_by_itself(invocation, Flags(**flags))
    return set_up_with_questions(invocation, workspace)


def _lines(
    invocation: Invocation, report: WorkspaceReport, workspace: Workspace, model_name: str
) -> list[str]:
    config = invocation.config
    created = f"created {', '.join(report.created)}" if report.created else "nothing was missing"
    named = "" if invocation.is_default_agent else f"--agent {config.agent_id} "
    model = model_name or "none yet: Nacre answers offline. `nacre init` on a terminal finds and tries one."
    return [
        f"State      {invocation.short(config.state_dir)}",
        f"Workspace  {invocation.short(Path(workspace.place))}",
        f"           {created}",
        f"Model      {model}",
        "",
        f"Next: `nacre {named}chat` to talk. USER.md in the workspace is the place to say who you are.",
    ]
