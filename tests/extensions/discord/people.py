"""Who and what there is on the loopback Discord."""

from __future__ import annotations

from datetime import UTC, datetime

TOKEN = "MTE.test-token.of-nobody"
ME, ANN, EVE = "1000000000000000001", "7000000000000000007", "8000000000000000008"
PRIVATE, GROUP, THREAD, SERVER = "2001", "3001", "3002", "3000"
STARTED = datetime(2026, 9, 1, tzinfo=UTC)
"""Before anything is said."""
CONTENT_INTENT = 1 << 15
