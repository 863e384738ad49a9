"""Optional libraries of the tests: whether they are there, without the seconds that importing one takes."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def needs(*names: str, why: str) -> None:
    """Skips the module that calls it where one of these packages is not installed."""
    if None in map(find_spec, names):
        pytest.skip(why, allow_module_level=True)
