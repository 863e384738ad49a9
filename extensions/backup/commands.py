"""The commands `nacre backup` and `nacre restore`; which files belong in a backup, a consistent copy of each,
and the archive that holds them.

A database is copied with SQLite's backup API, as of the end of one transaction. A file that only grows is
copied up to its last whole line. Any other file is read again until it does not change while it is read. The
archive is written under a temporary name and renamed when it is complete.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import os
import shutil
import stat
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import click

from nacre import __version__
from nacre.cli.invocation import Invocation, Voice, begin, environment_of, json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.extensions.backup.encryption import KeyUnusable, encrypted
from nacre.extensions.backup.manifest import (
    DATABASE,
    FILE,
    FOLDER,
    LINES,
    LINK,
    MANIFEST,
    OUTSIDE,
    STATE,
    ArchiveUnusable,
    Entry,
    Manifest,
    Place,
    manifest_bytes,
)
from nacre.locks import try_lock
from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.config import SETTINGS_FILE, Config, StateSettings, settings_file
from nacre.runtime.settings.disk.secrets import ENVIRONMENT_FILE, with_environment_file
from nacre.sessions.disk.durable import locked

SQLITE_HEAD = b"SQLite format 3\0"
MOST_TRIES = 5
_APPEND_ONLY = (".jsonl", ".json.changes")
_PIECE_BYTES = 1 << 20
WORK_FOLDER = ".backup"
"""The folder in the state folder where copies are made. A backup removes what a killed one left there."""
_LEAST_FREE_BYTES = 1 << 30
"""With less, copies are made beside the archive, whose disk has room, unless the archive is encrypted."""
_STATE_EXCLUDED = frozenset({"locks", "logs", "models", WORK_FOLDER})
"""Folders of the state folder that are not backed up: locks, the log, models that can be downloaded again."""
_TEMPORARY = (".lock", ".building", "-wal", "-shm", "-journal", ".tmp")
_LAST = frozenset({"objects"})
_FIRST = frozenset({"_versions"})
"""Files that reference others are copied before them: git writes objects before a branch names them, and
LanceDB writes data before a version names it."""
COMPRESSION = 6


class CopyFailed(Exception):
    """A file could not be copied consistently; the message says why."""


def copy_file(source: Path, path: str, target: Path) -> Entry | None:
    """Copies a file to `target` and describes the copy.

    Returns `None` if the source is gone or is not a regular file.

    Raises:
        CopyFailed: the database is damaged, or the file kept changing.
        OSError: the system refused.
    """
    try:
        status = source.lstat()
        if not stat.S_ISREG(status.st_mode):
            return None
        kind = _kind(source)
        if kind == DATABASE:
            _copy_database(source, target)
        elif kind == LINES:
            _copy_lines(source, target, status.st_size)
        else:
            _copy_unchanged(source, target)
    except FileNotFoundError:
        return None
    return Entry(
        path=path,
        kind=kind,
        size_bytes=target.stat().st_size,
        sha256=digest(target),
        mode=stat.S_IMODE(status.st_mode) & 0o777,
    )


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _kind(source: Path) -> str:
    if source.name.endswith(_APPEND_ONLY):
        return LINES
    with source.open("rb") as file:
        return DATABASE if file.read(len(SQLITE_HEAD)) == SQLITE_HEAD else FILE


def _copy_database(source: Path, target: Path) -> None:
    import apsw

    from nacre.memory.stores.sqlite.connection import connection_to_read

    target.unlink(missing_ok=True)
    try:
        original = connection_to_read(source)
        copy = apsw.Connection(str(target))
        try:
            original.set_busy_timeout(10_000)
            with copy.backup("main", original, "main") as backup:
                backup.step(-1)  # in one step: a write between steps would restart the backup
            copy.pragma("journal_mode", "delete")
            found = copy.pragma("quick_check")
        finally:
            copy.close()
            original.close()
    except apsw.Error as error:
        raise CopyFailed(f"The database {source} could not be copied: {error}.") from error
    if found != "ok":
        raise CopyFailed(f"The database {source} is damaged: {found}.")


def _copy_lines(source: Path, target: Path, size_bytes: int) -> None:
    """Copies the first `size_bytes` of a file, up to the last whole line."""
    left, whole = size_bytes, 0
    with source.open("rb") as source_file, target.open("wb") as target_file:
        while left and (piece := source_file.read(min(left, _PIECE_BYTES))):
            end = piece.rfind(b"\n")
            if end >= 0:
                whole = target_file.tell() + end + 1
            target_file.write(piece)
            left -= len(piece)
        target_file.truncate(whole)


def _copy_unchanged(source: Path, target: Path) -> None:
    for _ in range(MOST_TRIES):
        with source.open("rb") as source_file, target.open("wb") as target_file:
            before = os.fstat(source_file.fileno())
            shutil.copyfileobj(source_file, target_file, _PIECE_BYTES)
            after = os.fstat(source_file.fileno())
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
            return
    raise CopyFailed(f"{source} changed during each of {MOST_TRIES} attempts to read it.")


class Root(Record):
    """A folder or a file to copy, and its path in the archive."""

    source: Path
    path: str


def roots_of(configs: Sequence[Config]) -> tuple[list[Root], list[Place]]:
    """The folders and files of all agents of a state folder. The targets of its links come before it."""
    state = configs[0].state_dir.resolve()
    roots, places = [Root(source=state, path=STATE)], []
    for link in state.iterdir():
        source = link.resolve()
        apart = not _is_inside(source, state) and not _is_inside(state, source)
        if link.is_symlink() and source.exists() and apart and link.name not in _STATE_EXCLUDED:
            roots.insert(0, Root(source=source, path=f"{STATE}/{link.name}"))
    for config in configs:
        folders = config.folders
        candidates = [("agent", folders.agent_dir)]
        if folders.is_in_files:
            candidates += [
                ("workspace", folders.workspace),
                ("sessions", folders.sessions_file.parent),
                ("index", folders.index_file),
            ]
        for what, source in candidates:
            if any(_is_inside(source, root.source) for root in roots) or not source.exists():
                continue
            path = f"{OUTSIDE}/{config.agent_id}/{what}{f'/{source.name}' if source.is_file() else ''}"
            roots.append(Root(source=source.resolve(), path=path))
            places.append(Place(agent_id=config.agent_id, what=what, was=str(source), path=path))
    return roots, places


def left_out_of(configs: Sequence[Config]) -> list[str]:
    """Sentences about data of the agents that the backup does not contain."""
    sentences = []
    for config in configs:
        if not config.is_in_files:
            sentences.append(
                f"The notes and conversations of agent {config.agent_id!r} are in a PostgreSQL database. "
                "Back that up with pg_dump."
            )
        if extra := config.settings.agents.defaults.memory_search.extra_paths:
            named = ", ".join(map(str, extra))
            sentences.append(f"Your folders in memorySearch.extraPaths are not copied: {named}.")
    return list(dict.fromkeys(sentences))


def walk(root: Root, *, without: frozenset[Path]) -> Iterator[tuple[Path, str]]:
    """Yields everything below a root with its path in the archive, each folder before its contents.

    Paths in `without` are skipped with their contents.
    """
    if root.source.is_file():
        yield root.source, root.path
        return
    excluded = _STATE_EXCLUDED if root.path == STATE else frozenset[str]()
    yield from _below(root.source, root.path, excluded, without)


def _below(
    folder: Path, path: str, excluded: frozenset[str], without: frozenset[Path]
) -> Iterator[tuple[Path, str]]:
    yield folder, path
    try:
        entries = sorted(os.scandir(folder), key=_order)
    except FileNotFoundError:  # it was removed in the meantime
        return
    for entry in entries:
        source = Path(entry.path)
        if entry.name in excluded or source in without:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _below(source, f"{path}/{entry.name}", frozenset(), without)
        elif not entry.name.endswith(_TEMPORARY):
            yield source, f"{path}/{entry.name}"


def _order(entry: os.DirEntry[str]) -> tuple[int, str]:
    return (-1 if entry.name in _FIRST else int(entry.name in _LAST)), entry.name


def _is_inside(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


class BackupRefused(Exception):
    """The backup was not started and nothing was written."""


def write_backup(
    configs: Sequence[Config], archive: Path, *, recipients: Sequence[str], now: datetime
) -> Manifest:
    """Writes an archive of a state folder with all its agents and returns its manifest. Blocks.

    Raises:
        BackupRefused: the archive exists, or another backup is running.
        KeyUnusable: see `encrypted`.
        OSError: the disk refused; no archive was made.
    """
    if archive.exists() or archive.is_symlink():
        raise BackupRefused(f"{archive} already exists. Name another file.")
    roots, places = roots_of(configs)
    state = configs[0].state_dir.resolve()
    unfinished = archive.with_name(f".{archive.name}.unfinished")
    indexes = {config.folders.sessions_file.resolve() for config in configs if config.is_in_files}
    work = state / WORK_FOLDER
    if (is_read_only := not os.access(state, os.W_OK)) and recipients:
        raise BackupRefused(f"{state} cannot be written, and an encrypted backup makes its copies there.")
    if not recipients and (is_read_only or shutil.disk_usage(state).free < _LEAST_FREE_BYTES):
        work = archive.with_name(f".{archive.name}.copies")
    without = frozenset(map(Path.resolve, (archive, unfinished, work)))
    _remove_unfinished(archive.parent, now)
    with _work_folder(state, work):
        writer = _Writer(work, without=without, indexes=indexes)
        try:
            with ExitStack() as stack:
                file: BinaryIO = stack.enter_context(open(unfinished, "wb", opener=_private))
                if recipients:
                    file = stack.enter_context(encrypted(file, recipients))
                packed = stack.enter_context(
                    gzip.GzipFile("", "wb", compresslevel=COMPRESSION, fileobj=file, mtime=0)
                )
                with tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar:
                    writer.write(tar, roots)
                    manifest = Manifest(
                        made_at=now.isoformat(timespec="seconds"),
                        program=f"nacre {__version__}",
                        entries=tuple(writer.entries.values()),
                        places=tuple(places),
                        left_out=(*left_out_of(configs), *dict.fromkeys(writer.problems)),
                    )
                    data = manifest_bytes(manifest)
                    tar.addfile(_member(MANIFEST, len(data)), io.BytesIO(data))
            with unfinished.open("rb") as whole:
                os.fsync(whole.fileno())
            if archive.exists():
                raise BackupRefused(f"{archive} was created in the meantime. Name another file.")
            unfinished.rename(archive)
        finally:
            unfinished.unlink(missing_ok=True)
    return manifest


def _remove_unfinished(folder: Path, now: datetime) -> None:
    """Removes leftovers of killed backups with a time in their names, if they are older than a day."""
    for left in (*folder.glob(".nacre-*.tar.gz*.unfinished"), *folder.glob(".nacre-*.tar.gz*.copies")):
        with suppress(OSError):
            if now.timestamp() - left.stat().st_mtime > 86_400:
                shutil.rmtree(left) if left.is_dir() else left.unlink()


class _Writer:
    def __init__(self, work: Path, *, without: frozenset[Path], indexes: set[Path]) -> None:
        self.entries: dict[str, Entry] = {}
        self.problems: list[str] = []
        self._work = work
        self._without = without
        self._indexes = indexes

    def write(self, tar: tarfile.TarFile, roots: Sequence[Root]) -> None:
        for root in roots:
            # Session indexes come first: each transcript that an index names is already on disk.
            for index in sorted(self._indexes):
                if not (index.parent.is_dir() and index.is_relative_to(root.source)):
                    continue
                path = f"{root.path}/{index.relative_to(root.source).as_posix()}"
                with locked(index) if os.access(index.parent, os.W_OK) else nullcontext():
                    for suffix in ("", ".changes", ".bak", ".changes.bak"):
                        source = index.with_name(index.name + suffix)
                        if source.exists():
                            self._put(tar, source, path + suffix)
            # Twice: a copied file may refer to a file that was created after the first pass.
            for _ in range(2):
                for source, path in walk(root, without=self._without):
                    if path not in self.entries:
                        self._put(tar, source, path)

    def _put(self, tar: tarfile.TarFile, source: Path, path: str) -> None:
        try:
            status = source.lstat()
            if stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode):
                self._put_special(tar, source, path, status)
                return
            copy = self._work / "copy"
            entry = copy_file(source, path, copy)
        except FileNotFoundError:
            return
        except (CopyFailed, PermissionError) as error:
            self.problems.append(f"Not copied: {error}")
            return
        if entry is None:
            if not stat.S_ISREG(status.st_mode):
                self.problems.append(f"Not copied: {source} is not a regular file.")
            return
        member = _member(path, entry.size_bytes)
        member.mode, member.mtime = entry.mode, int(status.st_mtime)
        with copy.open("rb") as data:
            tar.addfile(member, data)
        copy.unlink()
        self.entries[path] = entry

    def _put_special(self, tar: tarfile.TarFile, source: Path, path: str, status: os.stat_result) -> None:
        is_link = stat.S_ISLNK(status.st_mode)
        member = _member(path, 0)
        member.type = tarfile.SYMTYPE if is_link else tarfile.DIRTYPE
        member.mode, member.mtime = stat.S_IMODE(status.st_mode) & 0o777, int(status.st_mtime)
        member.linkname = str(source.readlink()) if is_link else ""
        tar.addfile(member)
        kind = LINK if is_link else FOLDER
        self.entries[path] = Entry(path=path, kind=kind, mode=member.mode, link=member.linkname)


@contextmanager
def _work_folder(state: Path, work: Path) -> Iterator[None]:
    with ExitStack() as held:
        if os.access(state, os.W_OK):  # otherwise nothing in it is shared
            locks = state / "locks"
            locks.mkdir(mode=0o700, exist_ok=True)
            release = try_lock(locks / "backup")
            if release is None:
                raise BackupRefused("Another backup of this state folder is running. Wait until it ends.")
            held.callback(release)
        shutil.rmtree(work, ignore_errors=True)  # left by a backup that was killed
        held.callback(shutil.rmtree, work, ignore_errors=True)
        work.mkdir(mode=0o700)
        yield


def _member(path: str, size_bytes: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.size, member.mode = size_bytes, 0o600
    return member


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


identity_option = click.option(
    "--identity",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Decrypt the archive with the key in FILE: from age-keygen, or an SSH key without a passphrase.",
)


@click.command("backup")
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--check", is_flag=True, help="Verify the existing archive PATH instead of writing one.")
@click.option(
    "--recipient",
    "recipients",
    metavar="KEY",
    multiple=True,
    help="Encrypt for this public key (age1…, ssh-…). May be repeated.",
)
@identity_option
@json_option("Print one JSON object instead of sentences.")
@shared_options
def backup(
    context: click.Context,
    path: Path | None,
    check: bool,
    recipients: tuple[str, ...],
    identity: Path | None,
    as_json: bool,
) -> int:
    """Write everything into one archive, which `nacre restore` restores.

    PATH is a new file, or a folder in which a file named after the current time is created. The assistant may
    keep running. With --check, the existing archive PATH is verified instead. The archive contains the
    settings and keys of the state folder: protect it as you protect those, or encrypt it.
    """
    from nacre.extensions.backup.restore import check_backup, folder_beside, remove_leftovers
    from nacre.runtime.contracts.clock import system_clock
    from nacre.runtime.settings.disk.agent_folders import has_assistant

    if check:
        if path is None:
            raise click.UsageError("Name the archive to check.", context)
        try:
            manifest = check_backup(path, identity=identity)
        except (ArchiveUnusable, KeyUnusable) as error:
            raise click.ClickException(f"{path} cannot be used. {error}") from error
        return _report(begin(context), manifest, path, "is complete", as_json)
    if identity is not None:
        raise click.UsageError("Use --identity with --check or with nacre restore.", context)
    invocation = begin(context)
    if not has_assistant(invocation.config.state_dir):
        folder = invocation.short(invocation.config.state_dir)
        raise click.ClickException(
            f"{folder} has no assistant yet, so nothing was written. --state-dir names another folder."
        )
    remove_leftovers(folder_beside(invocation.config.state_dir))
    now = system_clock(UTC)()
    config = invocation.config
    others = [agent.id for agent in config.agents if agent.id != config.agent_id]
    configs = [config, *map(StateSettings(environment_of(context)).config, others)]
    archive = (path or Path()).absolute()
    if archive.is_dir():
        archive /= f"nacre-{now:%Y%m%dT%H%M%SZ}.tar.gz{'.age' if recipients else ''}"
    try:
        manifest = write_backup(configs, archive, recipients=recipients, now=now)
    except (BackupRefused, KeyUnusable) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{archive} was not written: {error}.") from error
    return _report(invocation, manifest, archive, "was written", as_json)


@click.command("restore")
@click.argument("archive", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--to",
    "target",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Restore to DIR; the state folder unless given.",
)
@click.option("-y", "--yes", is_flag=True, help="Replace an existing assistant without asking.")
@identity_option
@json_option("Print one JSON object instead of sentences; ask nothing.")
@shared_options
def restore(
    context: click.Context,
    archive: Path,
    target: Path | None,
    yes: bool,
    identity: Path | None,
    as_json: bool,
) -> int:
    """Restore a backup, on this machine or on a new one.

    The whole archive is checked before anything is written. An existing assistant is replaced only after you
    agree, and its folder is renamed, never deleted. Afterwards the command reports what the archive does not
    contain, such as keys that were set in the environment.
    """
    from nacre.extensions.backup.restore import RestoreRefused, is_encrypted, restore_backup

    environment = environment_of(context)
    voice = Voice(environment=environment)
    target = (target or settings_file(environment).parent).resolve()
    may_ask = not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    aside = _place_aside(target, yes=yes, may_ask=may_ask)
    try:
        if identity is None and may_ask and is_encrypted(archive):
            identity = _ask_identity(archive)
        manifest = restore_backup(archive, target, identity=identity, aside=aside)
    except RestoreRefused as error:
        raise click.ClickException(str(error)) from error
    except (ArchiveUnusable, KeyUnusable, OSError) as error:
        raise click.ClickException(
            f"{archive} cannot be restored, and {target} was not changed. {error}"
        ) from error
    missing = _missing_variables(target, environment)
    if as_json:
        replaced = str(aside) if aside is not None else None
        facts = {"stateDir": str(target), "replaced": replaced, "missingVariables": list(missing)}
        return print_json({**facts, **_manifest_json(manifest)})
    voice.say(f"{target} was restored to its state at {manifest.made_at}: {_counted_files(manifest)}.")
    if aside is not None:
        voice.say(f"The previous contents are in {aside}.")
    for place in manifest.places:
        voice.say(
            f"The {place.what} of agent {place.agent_id} was {place.was}, outside the state folder. "
            f"It is now in {target / place.path}: move it to the path that the settings name."
        )
    for text in manifest.left_out:
        voice.say(f"Not in the archive: {text}")
    if missing:
        names = ", ".join(missing)
        voice.say(
            f"Not in the archive: the variables {names}, which the settings name. "
            f"Put them into {target / ENVIRONMENT_FILE}."
        )
    voice.say("`nacre doctor --online` tries the model and its key; `nacre chat` goes on.")
    return 0


def _place_aside(target: Path, *, yes: bool, may_ask: bool) -> Path | None:
    """Where the folder at `target` moves, or `None` if it is empty or missing.

    Raises:
        click.ClickException: its assistant is being served, or the owner does not want to replace it.
    """
    from nacre.extensions.backup.restore import folder_beside, remove_leftovers
    from nacre.runtime.contracts.clock import system_clock
    from nacre.runtime.ledger.file_ledger import ledger_file
    from nacre.runtime.settings.disk.agent_folders import has_assistant

    remove_leftovers(target)
    if not target.is_dir() or not any(target.iterdir()):
        return None
    if asyncio.run(ledger_file(target).is_served()):
        raise click.ClickException(f"`nacre serve` runs in {target}, so nothing was changed. Stop it first.")
    aside = folder_beside(target) / f"{target.name}.before-{system_clock(UTC)():%Y%m%dT%H%M%SZ}"
    if yes or not has_assistant(target):
        return aside
    if may_ask:
        click.echo(f"{target} has an assistant already.\nIt would move to {aside}.")
        if click.confirm("Replace it?", default=False):
            return aside
        raise click.ClickException("Nothing was changed.")
    raise click.ClickException(
        f"{target} is not empty, and nothing was changed. --yes replaces it and keeps the present folder as "
        f"{aside}; --to names another folder."
    )


def _ask_identity(archive: Path) -> Path | None:
    """The file with the key of an encrypted archive; `None` if the owner names none."""
    while True:
        question = f"{archive.name} is encrypted. The file with its key (an age identity or an SSH key)"
        answer = str(click.prompt(question, default="", show_default=False)).strip()
        file = Path(answer).expanduser().absolute()
        if not answer or file.is_file():
            return file if answer else None
        click.echo(f"  {file} is not a file.")


def _missing_variables(state: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    from nacre.runtime.settings.disk.settings_file import unfilled_settings

    file = state / SETTINGS_FILE
    if not file.exists():
        return ()
    try:
        _settings, named = unfilled_settings(file)
        known = with_environment_file(environment, file)
    except ConfigError:
        return ()
    return tuple(name for name in named if not known.get(name))


def _report(invocation: Invocation, manifest: Manifest, archive: Path, outcome: str, as_json: bool) -> int:
    if as_json:
        print_json({"archive": str(archive), **_manifest_json(manifest)})
    else:
        invocation.say(f"{archive} {outcome}: {_counted_files(manifest)}, as of {manifest.made_at}.")
        invocation.warn(*manifest.left_out)
    return 1 if any(text.startswith("Not copied") for text in manifest.left_out) else 0


def _manifest_json(manifest: Manifest) -> dict[str, object]:
    return {
        "madeAt": manifest.made_at,
        "counts": manifest.counts,
        "places": [place.to_json() for place in manifest.places],
        "leftOut": list(manifest.left_out),
    }


def _counted_files(manifest: Manifest) -> str:
    counts = manifest.counts
    files = counts["file"] + counts["lines"] + counts["database"]
    databases = "1 database" if counts["database"] == 1 else f"{counts['database']} databases"
    return f"{files} files including {databases}, {counts['bytes']:,} bytes"
