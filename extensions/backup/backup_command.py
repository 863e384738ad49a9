"""The command `nacre backup`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import Invocation, begin, environment_of, json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.extensions.backup.text import counted_files, identity_option, manifest_json

if TYPE_CHECKING:
    from nacre.extensions.backup.manifest import Manifest
    from nacre.runtime.settings.config import Config


@click.command("backup")
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--check", is_flag=True, help="Make none: read the archive PATH through and compare it.")
@click.option(
    "--recipient",
    "recipients",
    metavar="KEY",
    multiple=True,
    help="Encrypt for this public key (age1…, ssh-…); more than once for several.",
)
@identity_option
@json_option("Print one JSON object instead of sentences.")
@shared_options
def command(
    context: click.Context,
    path: Path | None,
    check: bool,
    recipients: tuple[str, ...],
    identity: Path | None,
    as_json: bool,
) -> int:
    """Write everything that Nacre keeps into one archive.

    PATH is a new file, or a folder for one that is named after the time. The assistant may talk meanwhile.
    --check reads the archive PATH through instead. The settings and keys in the state
    folder are in it: keep it as you keep those, or encrypt it.
    """
    from nacre.extensions.backup.manifest import ArchiveUnusable
    from nacre.extensions.backup.restoring import check_backup
    from nacre.extensions.backup.sealed import KeyUnusable
    from nacre.extensions.backup.writing import BackupRefused, write_backup
    from nacre.runtime.contracts.clock import system_clock

    if check:
        if path is None:
            raise click.UsageError("Name the archive to check.", context)
        try:
            return _told(begin(context), check_backup(path, identity=identity), path, "is whole", as_json)
        except (ArchiveUnusable, KeyUnusable) as error:
            raise click.ClickException(f"{path} cannot be used. {error}") from error
    if identity is not None:
        raise click.UsageError("--identity is for --check and for nacre restore.", context)
    invocation = begin(context)
    now = system_clock(UTC)()
    archive = _archive(path or Path(), now, is_sealed=bool(recipients))
    try:
        manifest = write_backup(
            _all_agents(context, invocation.config), archive, recipients=recipients, now=now
        )
    except (BackupRefused, KeyUnusable) as error:
        raise click.ClickException(str(error)) from error
    return _told(invocation, manifest, archive, "was written", as_json)


def _archive(path: Path, now: datetime, *, is_sealed: bool) -> Path:
    if path.is_dir():
        path = path / f"nacre-{now:%Y%m%dT%H%M%SZ}.tar.gz{'.age' if is_sealed else ''}"
    return path.absolute()


def _all_agents(context: click.Context, config: Config) -> list[Config]:
    """The settings of each agent of the state folder, the one that was asked for first."""
    from nacre.runtime.settings.config import StateSettings

    settings = StateSettings(environment_of(context))
    others = [agent.id for agent in config.agents if agent.id != config.agent_id]
    return [config, *map(settings.config, others)]


def _told(invocation: Invocation, manifest: Manifest, archive: Path, what: str, as_json: bool) -> int:
    if as_json:
        print_json({"archive": str(archive), **manifest_json(manifest)})
    else:
        invocation.say(f"{archive} {what}: {counted_files(manifest)}, as of {manifest.made_at}.")
        invocation.warn(*manifest.left_out)
    return 1 if any(text.startswith("Not copied") for text in manifest.left_out) else 0
