"""The provider's variables in the environment of this process, such as `OPENAI_API_KEY`. Edge.

They are read when a request is made, so that a key that comes later counts too.
"""

from __future__ import annotations

import os


def from_environment(*variables: str) -> str | None:
    """The value of the first of these variables that has one."""
    return next((value for name in variables if (value := os.environ.get(name, "").strip())), None)
