"""What `nacre backup` and `nacre restore` share: the key's option, and a manifest for people and scripts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nacre.extensions.backup.manifest import Manifest

identity_option = click.option(
    "--identity",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Your key, for an archive that is encrypted: of age-keygen, or of SSH without a passphrase.",
)


def manifest_json(manifest: Manifest) -> dict[str, object]:
    """A manifest without its files, for scripts."""
    return {
        "madeAt": manifest.made_at,
        "counts": manifest.counts,
        "places": [
            {"agentId": each.agent_id, "what": each.what, "was": each.was, "path": each.path}
            for each in manifest.places
        ],
        "leftOut": list(manifest.left_out),
    }


def counted_files(manifest: Manifest) -> str:
    """How much a manifest lists, in words."""
    counts = manifest.counts
    files = counts["file"] + counts["lines"] + counts["database"]
    databases = "1 database" if counts["database"] == 1 else f"{counts['database']} databases"
    return f"{files} files, {databases} among them, {counts['bytes']:,} bytes"
