"""The command `nacre import`: notes, sessions and settings of another program."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.cli.screen.screen import screen_on

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.extensions.importers.report import Report
    from nacre.extensions.importers.sources.pieces import Files, Origin, Reader

_SESSIONS_PER_UPDATE = 25
"""A terminal shows the number of sessions after each batch of this size."""
_PROGRAMS = ("openclaw", "hermes", "chatgpt", "claude")


@click.command("import")
@click.argument("program", type=click.Choice(_PROGRAMS))
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be imported, and write nothing.")
@click.option(
    "--keys",
    "key_place",
    type=click.Choice(["file", "keyring"]),
    default="file",
    show_default=True,
    help="Store provider keys in the file .env of the state folder, or in the system keyring.",
)
@click.option(
    "--from-workspace",
    "other_workspace",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Import the workspace of OpenClaw from DIR, if it is outside PATH.",
)
@json_option("Print one JSON object, with the name of everything skipped.")
@shared_options
def command(
    context: click.Context,
    program: Origin,
    path: Path,
    dry_run: bool,
    key_place: str,
    other_workspace: Path | None,
    as_json: bool,
) -> int:
    """Import the notes, sessions and settings of OpenClaw, Hermes, ChatGPT or Claude.

    PATH is the state folder of OpenClaw (~/.openclaw) or Hermes (~/.hermes), or a data export of ChatGPT or
    Claude, as a zip archive or unpacked. Only files inside PATH are read, whatever its settings name.
    Nothing here is overwritten, and the source is not changed.
    Run the command again to import what is new; nothing is imported twice.
    """
    from nacre.extensions.importers.report import report_json, report_lines, unaccounted
    from nacre.extensions.importers.run import ImportOptions, run_import
    from nacre.memory.contracts.workspace import FileBusy
    from nacre.sessions.contracts.errors import SessionError

    invocation = begin(context)
    invocation.warn(*invocation.config.notices)
    path = path.expanduser().resolve()
    if other_workspace is not None and (program != "openclaw" or not path.is_dir()):
        raise click.UsageError("Use --from-workspace only with the state folder of OpenClaw.")
    options = ImportOptions(
        origin=program, is_dry=dry_run, key_place="keyring" if key_place == "keyring" else "file"
    )
    screen = screen_on(sys.stderr, invocation.environment)

    def show_progress(sessions: int) -> None:
        if screen.is_live and sessions % _SESSIONS_PER_UPDATE == 0:
            screen.status(f"{sessions} sessions read")

    read, files = _reader(program), _files(invocation, program, path, other_workspace)
    try:
        report = asyncio.run(
            run_import(
                invocation.config, invocation.environment, options, read, files, on_session=show_progress
            )
        )
    except (SessionError, FileBusy, OSError) as error:
        raise click.ClickException(
            f"{error} What was imported stays; run the command again for the rest."
        ) from error
    finally:
        screen.clear_status()
    report.problems += unaccounted(report)
    if as_json:
        print_json(report_json(report, is_dry=dry_run))
    else:
        invocation.say(*report_lines(report, is_dry=dry_run), *_next_steps(report, is_dry=dry_run))
    invocation.warn(*report.problems)
    return 1 if report.problems else 0


def _reader(program: Origin) -> Reader:
    reader: Reader = getattr(
        import_module(f"nacre.extensions.importers.sources.{program}"), f"read_{program}"
    )
    return reader


def _files(invocation: Invocation, program: Origin, path: Path, workspace: Path | None) -> Files:
    """The files of PATH. Its settings may choose a workspace among them; only the owner names another."""
    from nacre.extensions.importers.files import FolderFiles, open_source

    files = open_source(path)
    if program != "openclaw" or not isinstance(files, FolderFiles):
        return files
    if workspace is not None:
        return FolderFiles(path, replacements={"workspace": workspace.resolve()})
    from nacre.extensions.importers.sources.openclaw import OTHER_WORKSPACE, chosen_workspace, named_workspace

    named = named_workspace(files)
    chosen = chosen_workspace(path, named, home=invocation.config.home) if named else "workspace"
    if chosen is None:
        files.left_out.append((named, OTHER_WORKSPACE))
    elif chosen != "workspace":
        files = FolderFiles(path, replacements={"workspace": path / chosen})
    return files


def _next_steps(report: Report, *, is_dry: bool) -> list[str]:
    counts = report.counts
    if is_dry:
        return (
            ["", "Nothing was written. Run the command without --dry-run to import."]
            if counts["files"].found
            else []
        )
    lines = []
    if counts["sessions"].imported:
        lines.append(
            "`nacre sessions list --all` lists the sessions; `nacre sessions resume ID` continues one."
        )
    if counts["notes"].imported:
        lines.append("`nacre memory search` searches the notes.")
    return ["", *lines] if lines else []
