"""The only file that knows sqlite_vec: gives a connection the function `vec_distance_cosine`.

When the extension cannot be loaded, numpy stands in under the same name, with the same results, more slowly;
the answer says which of the two it is and why.
"""

from __future__ import annotations

import struct
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nacre.memory.contracts.store import VectorEngine
from nacre.memory.stores.sqlite.connection import Connection, SqliteError
from nacre.memory.vectors.vector_math import cosine_distance


def add_vector_functions(
    connection: Connection, *, enabled: bool = True, extension_path: str | None = None
) -> VectorEngine:
    """Loads sqlite-vec, from `extension_path` if given, and tries it out; falls back to numpy."""
    problem = _load(connection, extension_path) if enabled else "store.vector.enabled is false"
    if not problem:
        version = str(connection.execute("SELECT vec_version()").get)
        return VectorEngine(name=f"sqlite-vec {version.removeprefix('v')}")
    connection.create_scalar_function("vec_distance_cosine", _distance, 2, deterministic=True)
    return VectorEngine(name="numpy", problem=problem)


def _load(connection: Connection, extension_path: str | None) -> str:
    try:
        extension_path = extension_path or _packaged()
        connection.enable_load_extension(True)
        try:
            connection.load_extension(extension_path)
        finally:
            connection.enable_load_extension(False)
        # An extension that loads without doing anything is a known failure: have it do something.
        one, other = struct.pack("<2f", 1, 0), struct.pack("<2f", 0, 1)
        if abs(connection.execute("SELECT vec_distance_cosine(?, ?)", (one, other)).get - 1.0) > 1e-6:
            return "sqlite-vec was loaded but compares vectors wrongly"
    except (SqliteError, ImportError, OSError) as error:
        return f"sqlite-vec could not be loaded ({type(error).__name__}: {error})"
    return ""


def _packaged() -> str:
    """Where the installed package keeps the extension, as its `loadable_path()` says. To import it for that
    would bring all of numpy along."""
    package = find_spec("sqlite_vec")
    if package is None or package.origin is None:
        raise ImportError("the package sqlite-vec is not installed")
    return str(Path(package.origin).with_name("vec0"))


def _distance(*blobs: Any) -> float:
    left, right = blobs
    return cosine_distance(left, right)
