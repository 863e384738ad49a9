"""What every section of `nacre.json5` is: frozen, under camel-case names, keeping what it does not know."""

from __future__ import annotations

from pydantic import AliasGenerator, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class SettingsSection(BaseModel):
    """A section of the settings; keys that it does not know stand in `model_extra`."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        hide_input_in_errors=True,  # a key in the wrong place must not stand in a trace
        populate_by_name=True,
        alias_generator=AliasGenerator(validation_alias=to_camel),
        defer_build=True,  # a validator is made when there is something to validate
    )
