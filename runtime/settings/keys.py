"""Parses keys as people write them, and finds what the sections say about each.

A key is `agents.defaults.model.primary`. `agents.list[work]` and `agents.list[0]` are entries of a list, by
id and by position; a name with dots is quoted: `agents.defaults.models."openai/gpt-4.1".alias`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.sections.section import SettingsSection, key_names, nearest_key, written_name

Key: TypeAlias = tuple[str | int, ...]

_STEP = re.compile(
    r"""(?:^|\.)(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<name>[^."\[\]]+))|\[(?P<entry>[^\[\]]+)\]"""
)
_SECRET = re.compile(r"(?:(?<!main)key|token|password|secret)$", re.IGNORECASE)
_PASSWORD = re.compile(r"(?<=://)([^:/@\s]*):[^@\s]+@")
"""A password in an address, such as that of a database."""


class Field(Record):
    """A key of `section`; `info` is `None` for a name that the owner chose, as in a table."""

    section: type[BaseModel]
    name: str
    info: FieldInfo | None
    below: type[BaseModel] | None

    @property
    def is_secret(self) -> bool:
        """Whether its value is never shown."""
        return bool(_SECRET.search(self.name)) or (self.info is not None and self.info.repr is False)


def key_of(text: str, raw: Mapping[str, Any]) -> Key:
    """Parses a written key; `raw` are the file's values, in which entries are found by id.

    Raises:
        ConfigError: it is not a key, or no entry has that id.
    """
    steps: list[str | int] = []
    place = 0
    while place < len(text):
        match = _STEP.match(text, place)
        if match is None or match.end() == place:
            break
        place = match.end()
        if match["entry"] is None:
            steps.append(match["name"] or json.loads(f'"{match["quoted"]}"'))
        else:
            steps.append(_entry(match["entry"], at(raw, steps), text))
    if place < len(text) or not steps:
        raise ConfigError(
            f"{text!r} is not a key. Write it as agents.defaults.model.primary, entries of a list as "
            'agents.list[work], and put names with dots into quotes: models.providers."a.b".baseUrl.'
        )
    return tuple(steps)


def written_key(key: Sequence[str | int]) -> str:
    parts = [
        f"[{step}]" if isinstance(step, int) else f'."{step}"' if re.search(r'[."\[\]]', step) else f".{step}"
        for step in key
    ]
    return "".join(parts).removeprefix(".")


def at(values: Any, key: Sequence[str | int]) -> Any:
    for step in key:
        if isinstance(values, Mapping):
            values = values.get(step)
        elif isinstance(values, list | tuple) and isinstance(step, int) and 0 <= step < len(values):
            values = values[step]
        else:
            return None
    return values


def field_of(key: Key, root: type[BaseModel]) -> Field | None:
    """What the sections say about a key.

    `None` is a key below a section whose keys somebody else reads: a channel's, an extension's.

    Raises:
        ConfigError: no section has such a key; the message names the nearest ones.
    """
    found = Field(section=root, name="", info=None, below=root)
    place = 0
    while place < len(key):
        section, step = found.below, key[place]
        if section is None:
            plain_type = _plain(found.info.annotation) if found.info is not None else None
            if get_origin(plain_type) in (Mapping, dict) or plain_type in (dict, Any):
                return None
            raise ConfigError(f"{written_key(key[:place])} is a single value and has no keys below it.")
        name = next(
            (name for name in section.model_fields if step in (name, written_name(section, name))), ""
        )
        if not name:
            if issubclass(section, SettingsSection) and section.others_keys:
                return None
            raise ConfigError(_unknown(key[:place], str(step), section))
        info = section.model_fields[name]
        below = section_below(info.annotation)
        found = Field(section=section, name=written_name(section, name), info=info, below=below)
        place += 1
        if below is not None and get_origin(_plain(info.annotation)) in (tuple, Mapping) and place < len(key):
            found = Field(section=section, name=str(key[place]), info=None, below=below)
            place += 1
    return found


def likely_key(key: Key, root: type[BaseModel]) -> str:
    """The key that a mistyped one may mean, or an empty string."""
    above = field_of(key[:-1], root)
    near = nearest_key(str(key[-1]), above.below) if above and above.below else ""
    return written_key((*key[:-1], near)) if near else ""


def default_of(found: Field) -> Any:
    """The default of a key as plain JSON values, or `None`."""
    if found.info is None or found.info.is_required():
        return None
    return plain(found.info.get_default(call_default_factory=True))


def plain(value: Any) -> Any:
    """Settings as plain JSON values, with the keys of the file."""
    if isinstance(value, BaseModel):
        own = {
            written_name(type(value), name): plain(getattr(value, name)) for name in type(value).model_fields
        }
        return {**own, **{name: plain(item) for name, item in (value.model_extra or {}).items()}}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def hidden(value: Any, name: str = "") -> Any:
    """Plain values in which keys, tokens and passwords are hidden, wherever they are."""
    if isinstance(value, Mapping):
        return {key: hidden(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [hidden(item, name) for item in value]
    if not isinstance(value, str):
        return value
    return "[hidden]" if value and _SECRET.search(name) else _PASSWORD.sub(r"\1:[hidden]@", value)


def _unknown(above: Key, step: str, section: type[BaseModel]) -> str:
    near = nearest_key(step, section)
    place = f"in {written_key(above)}" if above else "at the top"
    meant = (
        f" Did you mean {written_key((*above, near))}?"
        if near
        else f" There are: {', '.join(key_names(section))}."
    )
    return f"There is no setting {step!r} {place}.{meant}"


def _entry(text: str, holder: Any, key: str) -> int:
    if text.isdecimal():
        return int(text)
    for place, item in enumerate(holder if isinstance(holder, list) else ()):
        if isinstance(item, Mapping) and str(item.get("id", "")).lower() == text.lower():
            return place
    raise ConfigError(f"In {key!r}, no entry has the id {text!r}. Use an existing id, or a position: [0].")


def _plain(annotation: Any) -> Any:
    """An annotation without `| None` and validators."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    return _plain(kinds[0]) if type(None) in get_args(annotation) and len(kinds) == 1 else annotation


def section_below(annotation: Any) -> type[BaseModel] | None:
    """The section of a field, of its list items or of its table values; `None` for a plain value."""
    kinds = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type)]
    kinds += [each for kind in get_args(annotation) for each in get_args(kind) if isinstance(each, type)]
    return next((kind for kind in kinds if issubclass(kind, BaseModel)), None)
