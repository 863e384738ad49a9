"""An index in a file looked at from outside: it is not opened for writing, and nothing in it is mended."""

from __future__ import annotations

from pathlib import Path

from nacre.memory.contracts.errors import IndexDamaged, MemoryIndexError
from nacre.memory.contracts.index_place import IndexFacts
from nacre.memory.stores.sqlite.opening import examined
from nacre.memory.stores.sqlite.schema import SCHEMA_VERSION


def examined_index(index_path: Path) -> IndexFacts | None:
    """How an index in a file is; `None` when there is none. Reads the whole file, so call it on a thread."""
    if not index_path.exists():
        return None
    try:
        version, damage, paths = examined(index_path)
    except IndexDamaged as error:
        return IndexFacts(known_version=SCHEMA_VERSION, damage=str(error))
    except MemoryIndexError as error:
        return IndexFacts(known_version=SCHEMA_VERSION, problem=str(error))
    return IndexFacts(known_version=SCHEMA_VERSION, version=version, damage=damage, paths=paths)
