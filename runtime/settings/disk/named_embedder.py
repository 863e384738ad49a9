"""Whether a settings file may name an embedder, guessed from its bytes before it is read. Light to import."""

from __future__ import annotations

from pathlib import Path


def may_name_an_embedder(file: Path) -> bool:
    """Whether the settings in `file` may ask for another embedder than the one that ships, or for none.

    A wrong guess costs time: a process for nothing, or one that is begun late.
    """
    try:
        written = file.read_bytes()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return b"memorySearch" in written and (b"provider" in written or b"enabled" in written)
