"""Every key that `nacre.json5` may hold, with its default, read off the settings classes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.alias_generators import to_camel


def settings_keys(
    model: type[BaseModel], prefix: str = "", *, is_entry: bool = False
) -> Iterator[tuple[str, str]]:
    """Dotted key and default as JSON; `<name>` stands for a key that the owner chooses, `[]` for an entry.

    What an entry of a list has from a section that is listed itself is not said again, and neither is what a
    section has a whole table of below itself: an account of a channel.
    """
    for name, field in (_own_fields(model) if is_entry else model.model_fields).items():
        key = prefix + (field.alias or to_camel(name))
        below = _section(field.annotation)
        if below is None:
            is_needed = field.is_required()
            yield key, "" if is_needed else json.dumps(_plain(field.get_default(call_default_factory=True)))
        elif get_origin(field.annotation) is tuple:
            yield from settings_keys(below, f"{key}[].", is_entry=True)
        elif get_origin(field.annotation) is Mapping and below in model.__bases__:
            yield key, "{}"
        elif get_origin(field.annotation) is Mapping:
            yield from settings_keys(below, f"{key}.<name>.")
        else:
            yield from settings_keys(below, f"{key}.")


def _own_fields(model: type[BaseModel]) -> dict[str, Any]:
    (base,) = model.__bases__
    shared = base.model_fields if issubclass(base, BaseModel) else {}
    return {name: field for name, field in model.model_fields.items() if name not in shared}


def _section(annotation: Any) -> type[BaseModel] | None:
    kinds = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type)]
    return next((kind for kind in kinds if issubclass(kind, BaseModel)), None)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
