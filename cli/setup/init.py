"""The command `nacre init`: folders and files of a new owner, and what to do next."""

from __future__ import annotations

import asyncio
import plistlib
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import begin, environment_of, json_option, shared_options
from nacre.cli.nouns import extension_command
from nacre.cli.screen.json_text import camel_json, print_json
from nacre.record import Record
from nacre.runtime.settings.config import home_folder, load_config, settings_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
@click.option(
    "--identity",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The key of an encrypted backup.",
)
@click.option("--service", "wants_service", is_flag=True, help="Write a service that runs nacre serve.")
@json_option("Print one JSON object instead of sentences.")
@shared_options
def command(
    context: click.Context,
    yes: bool,
    address: str,
    fallbacks: tuple[str, ...],
    telegram_token_from: str,
    backup: Path | None,
    identity: Path | None,
    wants_service: bool,
    as_json: bool,
) -> int:
    """Set up the assistant: folders, model, channels, service.

    On a terminal it asks whether to restore a backup, if there is no assistant yet. Then it asks for your
    name, your time zone, a provider or the address of a server, a model, and a key where one is needed, as
    far as they are not known. It tries the model with one call, and offers fallbacks, Telegram and a service,
    which it never starts. Safe to repeat: what exists is never overwritten. nacre chat makes the folders by
    itself. The options answer without questions, with --yes.

    \b
    Examples:
      nacre init
      nacre init --yes --model ollama/qwen3
      nacre init --yes --address http://127.0.0.1:8080/v1
      nacre init --yes --service
      nacre init --restore nacre-2026-11-20.tar.gz
    """
    from nacre.runtime.settings.disk.agent_folders import has_assistant
    from nacre.runtime.storage.storage import storage_of

    asks = not (yes or as_json) and sys.stdin.isatty() and sys.stdout.isatty()
    state_dir = settings_file(environment_of(context)).parent.absolute()
    if backup is None and asks and not has_assistant(state_dir):
        from nacre.cli.setup.first_run.questions import ask_backup

        backup = ask_backup()
    if backup is not None:  # before `begin`, whose log would be in the folder that a restore makes
        return _restored(context, backup, identity, state_dir, as_json=as_json)
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
    service = _service(invocation) if wants_service or (asks and _wants_service(invocation)) else None
    if as_json:
        facts = {"agentId": config.agent_id, "stateDir": str(config.state_dir), "workspace": workspace.place}
        tried = camel_json(trial, "model_name", "seconds", "usage", "problem") if trial else None
        found = {"model": model_name or None, "trial": tried, "notices": list(notices)}
        found |= {"service": str(service.file)} if service else {}
        print_json({**facts, **camel_json(report, "created", "is_new"), **found})
        return code
    invocation.say(*_lines(invocation, report, workspace, model_name, service))
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


def _restored(
    context: click.Context, backup: Path, identity: Path | None, state_dir: Path, *, as_json: bool
) -> int:
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
    return int(context.invoke(restore, archive=backup, identity=identity, as_json=as_json))


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
    invocation: Invocation,
    report: WorkspaceReport,
    workspace: Workspace,
    model_name: str,
    service: Service | None,
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
        *([f"Service    {invocation.short(service.file)}; to start it: {service.start}"] if service else []),
        "",
        f"Next: `nacre {named}chat` to talk. USER.md in the workspace is the place to say who you are.",
    ]


class Service(Record):
    """A file for the system's service manager that runs `nacre serve`, and the command that starts it."""

    file: Path
    data: bytes
    start: str


def service_for(
    platform: str, environment: Mapping[str, str], state_dir: Path, program: Sequence[str]
) -> Service | None:
    """The service of a user: a systemd unit on Linux, a launchd agent on macOS, else `None`.

    `platform` is as in `sys.platform`, `program` the command line that serves.
    """
    home = home_folder(environment)
    is_usual = state_dir == home / ".nacre"
    if platform == "darwin":
        file = home / "Library/LaunchAgents/nacre.plist"
        output = str(state_dir / "serve.out")
        agent: dict[str, Any] = {
            "Label": "nacre",
            "ProgramArguments": list(program),
            "EnvironmentVariables": {} if is_usual else {"NACRE_STATE_DIR": str(state_dir)},
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ExitTimeOut": 60,
            "Umask": 0o077,
            "StandardOutPath": output,
            "StandardErrorPath": output,
        }
        start = f"launchctl bootstrap gui/$(id -u) {shlex.quote(str(file))}"
        return Service(file=file, data=plistlib.dumps(agent), start=start)
    if platform != "linux" or shutil.which("systemctl", path=environment.get("PATH")) is None:
        return None
    config_home = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    unit = Path(__file__).with_name("nacre.service").read_text(encoding="utf-8")
    command = " ".join(f'"{_unit_text(word).replace("$", "$$")}"' for word in program)
    unit = unit.replace("ExecStart=%h/.local/share/nacre/bin/nacre serve", f"ExecStart={command}")
    if not is_usual:
        folder = _unit_text(str(state_dir))
        keys = f"EnvironmentFile=-{str(state_dir).replace('%', '%%')}/serve.env"
        unit = unit.replace(
            "EnvironmentFile=-%h/.nacre/serve.env", f'Environment="NACRE_STATE_DIR={folder}"\n{keys}'
        )
    return Service(
        file=config_home / "systemd/user/nacre.service",
        data=unit.encode(),
        start="systemctl --user enable --now nacre && loginctl enable-linger",
    )


def _unit_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")


def _wants_service(invocation: Invocation) -> bool:
    """Whether the owner of an assistant with channels wants a service; asked only if there is none yet."""
    from nacre.cli.setup.first_run.questions import ask_service

    service = _service_here(invocation)
    if service is None or service.file.exists() or not load_config(invocation.environment).settings.channels:
        return False
    return ask_service(invocation.short(service.file))


def _service_here(invocation: Invocation) -> Service | None:
    script = Path(sys.executable).with_name("nacre")
    program = [str(script)] if script.is_file() else [sys.executable, "-P", "-m", "nacre"]
    return service_for(sys.platform, invocation.environment, invocation.config.state_dir, [*program, "serve"])


def _service(invocation: Invocation) -> Service | None:
    """Writes the service unless there is one; `None` where there is no manager, or another service."""
    service = _service_here(invocation)
    if service is None:
        invocation.warn(
            "No service was written: there is neither systemd nor launchd here. Have `nacre serve` started "
            "as other programs of this system are."
        )
        return None
    try:
        service.file.parent.mkdir(parents=True, exist_ok=True)
        with service.file.open("xb") as file:
            file.write(service.data)
    except FileExistsError:
        if service.file.read_bytes() != service.data:
            invocation.warn(f"{service.file} is there already, with other content. It was not changed.")
            return None
    return service
