"""The ACP extension, which is a terminal command and adds nothing to an agent."""

from __future__ import annotations

from nacre.runtime.extensions.host import ExtensionHost


def register(_host: ExtensionHost) -> None:
    """Registers nothing."""
