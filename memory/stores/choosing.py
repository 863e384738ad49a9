"""Which database holds an index. The one place that chooses a member of `Store`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.memory.contracts.index_place import IndexPlace, SharedIndex

if TYPE_CHECKING:
    from nacre.memory.contracts.settings import MemorySearchSettings


def index_place(
    index_path: Path,
    settings: MemorySearchSettings,
    now: Callable[[], datetime],
    shared: SharedIndex | None,
) -> IndexPlace:
    """A file, unless the index is a shared one; touches nothing yet."""
    if shared is not None:
        # psycopg is an extra
        from nacre.memory.stores.postgres.opening import PostgresIndexPlace
        from nacre.postgres.shared import shared_database

        return PostgresIndexPlace(shared_database(shared.url), shared.agent_id)
    from nacre.memory.stores.sqlite.opening import SqliteIndexPlace

    return SqliteIndexPlace(index_path, settings.store.vector, now, owns_folder=not settings.store.path)
