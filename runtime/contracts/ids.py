"""New ids. The only file that uses randomness."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from uuid import uuid4

NewId: TypeAlias = Callable[[], str]
"""Returns a new unique id, a lower-case UUID of 36 characters."""


def random_id() -> str:
    return str(uuid4())
