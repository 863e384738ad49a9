"""The command `nacre restore`."""

from __future__ import annotations

from pathlib import Path

import click

from nacre.cli.invocation import json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.extensions.backup.text import counted_files, identity_option, manifest_json


@click.command("restore")
@click.argument("archive", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--to", "to", metavar="DIR", type=click.Path(path_type=Path), required=True, help="A folder that is new."
)
@identity_option
@json_option("Print one JSON object instead of sentences.")
@shared_options
def command(_context: click.Context, archive: Path, to: Path, identity: Path | None, as_json: bool) -> int:
    """Restore a backup into a new state folder.

    The whole archive is checked before anything is written, and nothing that is there is overwritten.
    Then `nacre --state-dir DIR` is the assistant as it was.
    """
    from nacre.extensions.backup.manifest import ArchiveUnusable
    from nacre.extensions.backup.restoring import RestoreRefused, restore_backup
    from nacre.extensions.backup.sealed import KeyUnusable

    to = to.absolute()
    try:
        manifest = restore_backup(archive, to, identity=identity)
    except RestoreRefused as error:
        raise click.ClickException(str(error)) from error
    except (ArchiveUnusable, KeyUnusable, OSError) as error:
        raise click.ClickException(f"{archive} cannot be restored, and {to} was not made. {error}") from error
    if as_json:
        return print_json({"stateDir": str(to), **manifest_json(manifest)})
    click.echo(f"{to} is as it was at {manifest.made_at}: {counted_files(manifest)}.")
    for place in manifest.places:
        click.echo(
            f"The {place.what} of agent {place.agent_id} was {place.was}, outside of the state folder. It is "
            f"in {to / place.path} now: move it to where the settings name it."
        )
    return 0
