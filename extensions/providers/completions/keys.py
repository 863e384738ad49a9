"""The provider's variables in the environment of this process, such as `OPENAI_API_KEY`. Edge.

They are read when a request is made, so that a key that comes later counts too.
"""

from __future__ import annotations

import os


def from_environment(*variables: str) -> str | None:
    """The value of the first of these variables that has one."""
    return next((value for name in variables if (value := os.environ.get(name, "").strip())), None)


def key_for_litellm(name: str, *, base_url: str | None, api_key: str | None) -> str | None:
    """The key to hand to litellm for the model `name`; `None` lets it look into the environment itself.

    A server of one's own needs none, but most ways of litellm refuse to start without one.
    """
    if api_key is not None or base_url is None:
        return api_key
    # who only reads the environment does not wait for the patterns of providers' failures
    from nacre.extensions.providers.completions.errors import key_variable

    return None if from_environment(key_variable(name)) else "no-key"
