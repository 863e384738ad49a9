"""Loads httpx, without the command line that it brings along."""

from __future__ import annotations

import sys
from importlib import import_module
from threading import Lock
from typing import Any

_COMMAND_LINE = "httpx._main"
"""It imports rich and pygments, which take as long as the rest. httpx works without it."""
_loading = Lock()


def load_client() -> Any:
    """httpx, imported on first use. Any thread may call it."""
    with _loading:
        if "httpx" not in sys.modules:
            sys.modules[_COMMAND_LINE] = None  # type: ignore[assignment]  # makes its import fail
            try:
                return import_module("httpx")
            finally:
                sys.modules.pop(_COMMAND_LINE, None)
    return import_module("httpx")
