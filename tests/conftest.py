"""Holds for every test: it never sees the owner's environment (`tests/isolation.py`), it has a time limit,
and a slow example of a property is no failure."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

from nacre.memory.embedders.e5 import loaded_model
from nacre.memory.embedders.e5_model import E5Model
from tests.isolation import isolate, refuse_base_folder
from tests.servers.postgres_server import database_url, postgres_server

__all__ = ["database_url", "postgres_server"]
"""Fixtures for any room whose rows may lie in PostgreSQL."""

SLOW_SECONDS = 900
"""The limit of a test marked as slow, on a machine that is busy; pyproject.toml holds that of the others."""

_MODEL = pytest.StashKey[E5Model]()
"""Kept by a process that runs many tests, for the tests share what is loaded."""

isolate()

# A busy machine makes a single example slow; that says nothing about the code.
settings.register_profile("nacre", deadline=None)
settings.load_profile("nacre")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to empty a folder in which the owner's assistant lies."""
    if config.option.basetemp:
        refuse_base_folder(Path(config.option.basetemp))
    if "PYTEST_XDIST_WORKER" in os.environ:
        config.stash[_MODEL] = loaded_model()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests their longer limit, where they set none themselves."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_SECONDS))


def pytest_collection_finish() -> None:
    """Nothing that was collected is garbage before the end; looking at it again and again takes long."""
    gc.collect()
    gc.freeze()
