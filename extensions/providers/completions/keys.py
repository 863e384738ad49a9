"""The providers' variables in the environment of this process, such as `OPENAI_API_KEY`.

They are read for each request, because a key may be set later.
"""

from __future__ import annotations

import os


def from_environment(*variables: str) -> str | None:
    """The value of the first of these variables that has one."""
    return next((value for name in variables if (value := os.environ.get(name, "").strip())), None)


def key_for_litellm(name: str, *, base_url: str | None, api_key: str | None) -> str | None:
    """The key to pass to litellm for the model `name`; `None` lets litellm read the environment.

    The owner's server needs none, but most of litellm's clients refuse to start without one.
    """
    if api_key is not None or base_url is None:
        return api_key
    # Imported here, because callers that only read the environment need no patterns of providers' errors.
    from nacre.extensions.providers.completions.errors import key_variable

    return None if from_environment(key_variable(name)) else "no-key"
