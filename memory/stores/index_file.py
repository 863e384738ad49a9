"""An index in a file: opens it, and examines it from outside."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.memory.contracts.index_place import IndexFacts, IndexPlace

if TYPE_CHECKING:
    from nacre.memory.contracts.settings import MemorySearchSettings


def index_in_file(
    index_path: Path, settings: MemorySearchSettings, now: Callable[[], datetime]
) -> IndexPlace:
    """The place of an index in a file. Touches nothing yet."""
    from nacre.memory.stores.sqlite.opening import SqliteIndexPlace

    return SqliteIndexPlace(index_path, settings.store.vector, now, owns_folder=not settings.store.path)


def examined_index(index_path: Path) -> IndexFacts | None:
    """The state of an index in a file, or `None` if there is none. Reads the whole file; call it on a thread.

    The file is not opened for writing, and nothing in it is repaired.
    """
    from nacre.memory.contracts.errors import IndexDamaged, MemoryIndexError
    from nacre.memory.stores.sqlite.opening import examined
    from nacre.memory.stores.sqlite.schema import SCHEMA_VERSION

    if not index_path.exists():
        return None
    try:
        version, damage, paths = examined(index_path)
    except IndexDamaged as error:
        return IndexFacts(known_version=SCHEMA_VERSION, damage=str(error))
    except MemoryIndexError as error:
        return IndexFacts(known_version=SCHEMA_VERSION, problem=str(error))
    return IndexFacts(known_version=SCHEMA_VERSION, version=version, damage=damage, paths=paths)
