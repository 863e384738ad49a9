"""These tests need the library of the extra `telegram`."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = ["test_*.py"] if find_spec("telegram") is None else []
