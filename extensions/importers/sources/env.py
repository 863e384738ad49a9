"""An environment file of another program: the keys of providers in it. Pure, given the files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nacre.extensions.importers.sources.contents import Files, Piece, Skipped, Variable
from nacre.runtime.settings.disk.secrets import variables_in

_MOST_BYTES = 1 << 20


def variables(files: Files, name: str) -> Iterator[Piece]:
    """Its variables that are keys of providers; the others are skipped, and no value is told."""
    if files.size_bytes(name) > _MOST_BYTES:
        yield Skipped(kind="files", name=name, reason="it is too large for an environment file", file=name)
        return
    with files.opened(name) as file:
        found = variables_in(file.read().decode("utf-8-sig", "replace"))
    for variable, value in found.items():
        if value and re.fullmatch(r"[A-Z][A-Z0-9_]*_API_KEY", variable):
            yield Variable(name=variable, secret=value, file=name)
        else:
            reason = "it is no key of a provider" if value else "it is empty"
            yield Skipped(kind="settings", name=variable, reason=reason, file=name)
    if not found:
        yield Skipped(kind="files", name=name, reason="it has no variables", file=name)
