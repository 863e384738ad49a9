"""The commands `nacre backup` and `nacre restore`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import Invocation, begin, environment_of, json_option, shared_options
from nacre.cli.screen.json_text import print_json

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
    """Write everything that Nacre keeps into one archive.

    PATH is a new file, or a folder in which a file named after the current time is created. The assistant may
    keep running. With --check, the existing archive PATH is verified instead. The archive contains the
    settings and keys of the state folder: protect it as you protect those, or encrypt it.
    """
    from nacre.extensions.backup.archive import BackupRefused, write_backup
    from nacre.extensions.backup.encryption import KeyUnusable
    from nacre.extensions.backup.manifest import ArchiveUnusable
    from nacre.extensions.backup.restore import check_backup, remove_leftovers
    from nacre.runtime.contracts.clock import system_clock

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
    required=True,
    help="Restore to DIR, a new or an empty folder.",
)
@identity_option
@json_option("Print one JSON object instead of sentences.")
@shared_options
def restore(
    _context: click.Context, archive: Path, target: Path, identity: Path | None, as_json: bool
) -> int:
    """Restore a backup into a new state folder.

    The whole archive is checked before anything is written, and no existing file is overwritten. Afterwards
    `nacre --state-dir DIR` runs the restored assistant.
    """
    from nacre.extensions.backup.encryption import KeyUnusable
    from nacre.extensions.backup.manifest import ArchiveUnusable
    from nacre.extensions.backup.restore import RestoreRefused, restore_backup

    target = target.absolute()
    try:
        manifest = restore_backup(archive, target, identity=identity)
    except RestoreRefused as error:
        raise click.ClickException(str(error)) from error
    except (ArchiveUnusable, KeyUnusable, OSError) as error:
        raise click.ClickException(
            f"{archive} cannot be restored, and {target} was not created. {error}"
        ) from error
    if as_json:
        return print_json({"stateDir": str(target), **_manifest_json(manifest)})
    click.echo(f"{target} was restored to its state at {manifest.made_at}: {_counted_files(manifest)}.")
    for place in manifest.places:
        click.echo(
            f"The {place.what} of agent {place.agent_id} was {place.was}, outside the state folder. "
            f"It is now in {target / place.path}: move it to the path that the settings name."
        )
    return 0


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
