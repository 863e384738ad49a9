"""The command `nacre extensions`: what is installed beside Nacre, what is on, and why something is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.runtime.extensions.listing import Listed


@click.command("extensions")
@json_option("Print a JSON list.")
@shared_options
def command(context: click.Context, as_json: bool) -> int:
    """List installed extensions and whether they are on.

    Nothing of their code is run for this.
    """
    from nacre.runtime.extensions.listing import listed_extensions

    invocation = begin(context)
    listed, missing = listed_extensions(invocation.config)
    if as_json:
        return print_json([_json(item) for item in listed])
    width = max(len(item.id) for item in listed)
    for item in listed:
        about = " · ".join(word for word in (item.version, item.kind, item.description) if word)
        invocation.say(f"{item.id.ljust(width)}  {item.state.ljust(6)}  {about}".rstrip())
        invocation.say(f"{' ' * width}          {item.reason}")
    invocation.warn(*missing)
    return 0


def _json(item: Listed) -> dict[str, Any]:
    return {
        "id": item.id,
        "state": item.state,
        "reason": item.reason,
        "kind": item.kind or None,
        "version": item.version or None,
        "package": item.package or None,
        "description": item.description,
    }
