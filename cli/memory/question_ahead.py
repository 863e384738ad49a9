"""A search's question is embedded from the first moment on, where no settings can change how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nacre.memory.embedders.minilm_ahead import AskedAhead


def asked_ahead(environment: Mapping[str, str], question: str) -> AskedAhead | None:
    """The embedder that arrives with the install, at work on `question`.

    Nothing when there is a settings file, which may name another embedder.

    Raises:
        ConfigError: the state folder is in another user's home.
    """
    from nacre.runtime.settings.config import settings_file

    if settings_file(environment).exists():
        return None
    from nacre.memory.embedders.minilm_ahead import AskedAhead

    return AskedAhead(question)
