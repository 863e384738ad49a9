"""The server that the tests of embedders ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.extensions.providers.embedding.embedding_server import EmbeddingServer


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    """A server on loopback."""
    with EmbeddingServer() as server:
        yield server
