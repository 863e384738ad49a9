"""A store in files, for tests of this room and of others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from nacre.sessions.stores.files import FileSessionStore, SessionPlaces


def file_store(folder: Path, *, now: Callable[[], datetime], new_id: Callable[[], str]) -> FileSessionStore:
    """The store whose index and transcripts lie in `folder`."""
    places = SessionPlaces(
        index=folder / "sessions.json", endings=folder / "endings", lanes=folder / "lanes", cwd=folder
    )
    return FileSessionStore(places, now=now, new_id=new_id)
