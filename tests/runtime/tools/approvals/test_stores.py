"""Approvals in a folder keep the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nacre.runtime.tools.approvals.approvals import ApprovalFolder
from nacre.runtime.tools.approvals.store import ApprovalStore
from tests.runtime.tools.approvals.store_contract import ApprovalStoreContract


class TestFolder(ApprovalStoreContract):
    """Files."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        """The folder."""
        return tmp_path / "approvals"

    @asynccontextmanager
    async def opened(self, place: Path) -> AsyncIterator[tuple[ApprovalStore, ApprovalStore]]:
        """Two that use it."""
        one, other = (ApprovalFolder(place, now=lambda: datetime.now(UTC)) for _ in range(2))
        yield one, other
