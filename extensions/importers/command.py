"""The command `nacre import`: notes, sessions and settings of another program."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import zipfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.cli.screen.screen import screen_on
from nacre.extensions.importers.sources.pieces import Files
from nacre.runtime.contracts.errors import ConfigError

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.extensions.importers.plan import Report
    from nacre.extensions.importers.sources.pieces import Origin, Reader

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
    """Import from OpenClaw, Hermes, ChatGPT or Claude.

    PATH is the state folder of OpenClaw (~/.openclaw) or Hermes (~/.hermes), or a data export of ChatGPT or
    Claude, as a zip archive or unpacked. Only files inside PATH are read, whatever its settings name.
    Nothing here is overwritten, and the source is not changed.
    Run the command again to import what is new; nothing is imported twice.
    """
    from nacre.extensions.importers.plan import report_json, report_lines, unaccounted
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
            "`nacre sessions search WORD` finds what was said in the sessions, `nacre sessions list --all` "
            "lists them, and `nacre sessions resume ID` continues one."
        )
    if counts["notes"].imported:
        lines.append("`nacre search WORD` finds the notes.")
    return ["", *lines] if lines else []


MOST_FILES = 200_000
MOST_BYTES = 32 << 30
"""A larger archive, measured unpacked, is refused."""
_PROGRAM_FOLDERS = frozenset(
    {".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".cache", "hermes-agent"}
)
"""Folders that programs fill; `hermes-agent` is Hermes's own code."""


def open_source(path: Path) -> Files:
    """The files of a folder or of a zip archive.

    Raises:
        ConfigError: there is nothing readable at `path`.
    """
    if path.is_dir():
        return FolderFiles(path)
    if not path.exists():
        raise ConfigError(f"{path} does not exist. Name the folder or the archive to import from.")
    return ZipFiles(path)


class FolderFiles(Files):
    """The regular files below a folder, without following links.

    `replacements` replace folders at the top. Only the owner names one that is outside `root`.
    """

    def __init__(self, root: Path, *, replacements: Mapping[str, Path] | None = None) -> None:
        super().__init__()
        replacements = replacements or {}
        for name, path in self._walk(root, ""):
            if name.partition("/")[0] not in replacements:
                self._found[name] = path
        for above, folder in replacements.items():
            self._found.update(self._walk(folder, f"{above}/"))

    def size_bytes(self, name: str) -> int:
        return self.path(name).stat().st_size

    def open_file(self, name: str) -> IO[bytes]:
        return self.path(name).open("rb")

    def path(self, name: str) -> Path:
        return Path(self._found[name])

    def _walk(self, folder: Path, above: str) -> Iterator[tuple[str, Path]]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self.left_out.append((above or str(folder), f"the folder cannot be read: {error.strerror}"))
            return
        for entry in entries:
            name = f"{above}{entry.name}"
            if entry.is_symlink():
                self.left_out.append((name, "it is a link, and links are not followed"))
            elif entry.is_dir():
                if entry.name in _PROGRAM_FOLDERS:
                    self.left_out.append((f"{name}/", "it is filled by programs"))
                else:
                    yield from self._walk(Path(entry.path), f"{name}/")
            elif entry.is_file():
                yield name, Path(entry.path)
            else:
                self.left_out.append((name, "it is not a regular file"))


class ZipFiles(Files):
    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise ConfigError(
                f"{path} is neither a folder nor a zip archive: {error}. Was the download complete?"
            ) from error
        members = [member for member in self._zip.infolist() if not member.is_dir()]
        if len(members) > MOST_FILES or sum(member.file_size for member in members) > MOST_BYTES:
            raise ConfigError(
                f"{path} has more than {MOST_FILES} files or {MOST_BYTES >> 30} GB. "
                "If you trust it, unpack it yourself and name the folder."
            )
        for member in members:
            if reason := self._refused(member):
                self.left_out.append((member.filename, reason))
            else:
                self._found[member.filename] = member

    def size_bytes(self, name: str) -> int:
        return int(self._found[name].file_size)

    def open_file(self, name: str) -> IO[bytes]:
        return self._zip.open(self._found[name])

    def _refused(self, member: zipfile.ZipInfo) -> str:
        name = PurePosixPath(member.filename.replace("\\", "/"))
        if name.is_absolute() or ".." in name.parts or ":" in name.parts[0]:
            return "its name leads outside the archive"
        if member.filename in self._found:
            return "the archive contains another file with that name"
        if stat.S_ISLNK(member.external_attr >> 16):
            return "it is a link, and links are not followed"
        if member.flag_bits & 1:
            return "it is encrypted"
        return ""
