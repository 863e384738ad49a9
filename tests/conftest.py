"""What holds for every test: it has a time limit, and a slow example of a property is no failure."""

from __future__ import annotations

import gc

import pytest
from hypothesis import settings

from tests.servers.postgres_server import database_url, postgres_server

__all__ = ["database_url", "postgres_server"]
"""Fixtures for any room whose rows may lie in PostgreSQL."""

SLOW_SECONDS = 900
"""The limit of a test marked as slow, on a machine that is busy; pyproject.toml holds that of the others."""

# A busy machine makes a single example slow; that says nothing about the code.
settings.register_profile("nacre", deadline=None)
settings.load_profile("nacre")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests their longer limit, where they set none themselves."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_SECONDS))


def pytest_collection_finish() -> None:
    """Nothing that was collected is garbage before the end; looking at it again and again takes long."""
    gc.collect()
    gc.freeze()
