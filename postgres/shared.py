"""One database for all in a process who name the same url, so that they have one pool of connections."""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

from nacre.postgres.database import Database

_LOCK = threading.Lock()
_OPENED: WeakValueDictionary[str, Database] = WeakValueDictionary()
"""Not kept alive by this: what nobody has any more is let go of."""


def shared_database(url: str) -> Database:
    """The database of this url that others of this process have, or a new one; touches nothing yet.

    Whoever is done may close it: the others connect again when they ask something.
    """
    with _LOCK:
        database = _OPENED.get(url)
        if database is None:
            database = _OPENED[url] = Database(url)
        return database
