"""Which key a model wants, and the places where one can be kept. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from nacre.record import Record
from nacre.runtime.models.completions.errors import key_variable
from nacre.runtime.models.openai_compatible.providers import PROVIDERS

KeyPlace: TypeAlias = Literal["environment", "file", "keyring"]
"""The environment that Nacre is started in, the file `.env` of the state folder, the system's keyring."""

_MORE_VARIABLES: Mapping[str, tuple[str, ...]] = {"gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY")}


class Key(Record):
    """A key: the variable it is known by, what it is, and where it is to be kept."""

    variable: str
    secret: str = field(repr=False)
    place: KeyPlace

    @property
    def in_settings(self) -> str:
        """How the settings name it; empty where the provider finds it by itself."""
        return {
            "environment": "",
            "file": f"${{{self.variable}}}",
            "keyring": f"${{keyring:{self.variable}}}",
        }[self.place]


def key_variables(model_name: str) -> tuple[str, ...]:
    """The variables that a model's key is looked up in; none where it wants none, or more than a key."""
    provider_name = model_name.partition("/")[0]
    provider = PROVIDERS.get(provider_name)
    if provider is not None:
        return provider.key_variables if provider.needs_key else ()
    names = _MORE_VARIABLES.get(provider_name, (key_variable(model_name),))
    return names if names[0].endswith("_API_KEY") else ()
