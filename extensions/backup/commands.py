"""The commands `nacre backup` and `nacre restore`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import Invocation, Voice, begin, environment_of, json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.runtime.settings.disk.secrets import ENVIRONMENT_FILE

if TYPE_CHECKING:
    from nacre.extensions.backup.manifest import Manifest
    from nacre.runtime.settings.config import Config

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
    """Write everything into one archive; `nacre restore` brings it back.

    PATH is a new file, or a folder in which a file named after the current time is created. The assistant may
    keep running. With --check, the existing archive PATH is verified instead. The archive contains the
    settings and keys of the state folder: protect it as you protect those, or encrypt it.
    """
    from nacre.extensions.backup.archive import BackupRefused, write_backup
    from nacre.extensions.backup.encryption import KeyUnusable
    from nacre.extensions.backup.manifest import ArchiveUnusable
    from nacre.extensions.backup.restore import check_backup, remove_leftovers
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
    remove_leftovers(invocation.config.state_dir.parent)
    now = system_clock(UTC)()
    archive = _archive_path(path or Path(), now, is_encrypted=bool(recipients))
    try:
        manifest = write_backup(
            _all_agents(context, invocation.config), archive, recipients=recipients, now=now
        )
    except (BackupRefused, KeyUnusable) as error:
        raise click.ClickException(str(error)) from error
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
@click.option("-y", "--yes", is_flag=True, help="Replace an assistant that is there, without asking.")
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

    The whole archive is checked before anything is written. An assistant that is there already is replaced
    only after you agree, and its folder is renamed, never deleted. Afterwards the command says what the
    archive does not have, such as keys that were set in the environment.
    """
    from nacre.extensions.backup.encryption import KeyUnusable
    from nacre.extensions.backup.manifest import ArchiveUnusable
    from nacre.extensions.backup.restore import RestoreRefused, is_encrypted, restore_backup
    from nacre.runtime.settings.config import settings_file

    environment = environment_of(context)
    voice = Voice(environment=environment)
    target = target.absolute() if target is not None else settings_file(environment).parent.absolute()
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
            f"{archive} cannot be restored, and {target} is as it was. {error}"
        ) from error
    missing = _missing_variables(target, environment)
    if as_json:
        replaced = str(aside) if aside is not None else None
        facts = {"stateDir": str(target), "replaced": replaced, "missingVariables": list(missing)}
        return print_json({**facts, **_manifest_json(manifest)})
    voice.say(f"{target} was restored to its state at {manifest.made_at}: {_counted_files(manifest)}.")
    if aside is not None:
        voice.say(f"What was there before is in {aside}.")
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
    """Where the folder at `target` goes, or `None` if nothing is there.

    Raises:
        click.ClickException: an assistant is there, and the owner does not want it replaced.
    """
    from nacre.runtime.contracts.clock import system_clock
    from nacre.runtime.settings.disk.agent_folders import has_assistant

    if not target.is_dir() or not any(target.iterdir()):
        return None
    aside = target.with_name(f"{target.name}.before-{system_clock(UTC)():%Y%m%dT%H%M%SZ}")
    if yes or not has_assistant(target):
        return aside
    if may_ask:
        click.echo(f"{target} has an assistant already. It would move to {aside}. Stop `nacre serve` first.")
        if click.confirm("Replace it?", default=False):
            return aside
        raise click.ClickException("Nothing was changed.")
    raise click.ClickException(
        f"{target} is not empty, and nothing was changed. --yes replaces it and keeps what is there as "
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
        click.echo(f"  {file} is no file.")


def _missing_variables(state: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    from nacre.runtime.contracts.errors import ConfigError
    from nacre.runtime.settings.config import SETTINGS_FILE
    from nacre.runtime.settings.disk.secrets import with_environment_file
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


def _archive_path(path: Path, now: datetime, *, is_encrypted: bool) -> Path:
    if path.is_dir():
        path = path / f"nacre-{now:%Y%m%dT%H%M%SZ}.tar.gz{'.age' if is_encrypted else ''}"
    return path.absolute()


def _all_agents(context: click.Context, config: Config) -> list[Config]:
    """The configurations of all agents of the state folder, the chosen one first."""
    from nacre.runtime.settings.config import StateSettings

    settings = StateSettings(environment_of(context))
    others = [agent.id for agent in config.agents if agent.id != config.agent_id]
    return [config, *map(settings.config, others)]


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
