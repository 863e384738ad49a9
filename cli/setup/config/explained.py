"""What a setting is, what holds and where that comes from; and all settings as a JSON Schema. Pure but for
reading the sections' own source, where the meaning of each key stands."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from nacre.runtime.settings.config import DATABASE_VARIABLE, MODEL_VARIABLE, WORKSPACE_VARIABLE
from nacre.runtime.settings.disk.json5_text import outermost
from nacre.runtime.settings.disk.keys import (
    Field,
    Key,
    at,
    default_of,
    field_of,
    hidden,
    plain,
    written_key,
)
from nacre.runtime.settings.settings import Settings

if TYPE_CHECKING:
    from nacre.runtime.settings.config import Config

_VARIABLES: Mapping[Key, str] = {
    ("agents", "defaults", "model", "primary"): MODEL_VARIABLE,
    ("agents", "defaults", "workspace"): WORKSPACE_VARIABLE,
    ("storage", "url"): DATABASE_VARIABLE,
}
"""The keys that a variable of the environment goes before."""


def explained(key: Key, config: Config, *, text: str, raw: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """What is known of a key: `key`, `value`, `default`, `from` (a sentence), `meaning`. Secrets are hidden.

    `text` and `raw` are the file's text and its values, `config` what one agent has of them.

    Raises:
        ConfigError: there is no such setting.
    """
    found = field_of(key, Settings)
    default = None if found is None else default_of(found)
    value, source = _holding(key, config, text=text, raw=raw, file=file, default=default)
    shown = "[hidden]" if value and found and found.is_secret else hidden(value, str(key[-1]))
    return {
        "key": written_key(key),
        "value": shown,
        "default": default,
        "from": source,
        "meaning": "" if found is None or found.info is None else meaning_of(found),
    }


def value_of(key: Key, config: Config, raw: Mapping[str, Any]) -> Any:
    """What holds for a key, as plain JSON values, secrets hidden.

    Raises:
        ConfigError: there is no such setting.
    """
    return explained(key, config, text="", raw=raw, file=Path())["value"]


def meaning_of(found: Field) -> str:
    """What a setting is for, in the words that stand below it in its section."""
    for kind in found.section.__mro__:
        if issubclass(kind, BaseModel) and kind is not BaseModel:
            for name in found.section.model_fields:
                if found.info is found.section.model_fields[name] and name in (told := _meanings(kind)):
                    return told[name]
    return ""


def schema() -> dict[str, Any]:
    """All settings as a JSON Schema, for editors that complete and check `nacre.json5`."""
    made = Settings.model_json_schema(by_alias=True, mode="validation")
    sections = {kind.__name__: kind for kind in _sections(Settings, set())}
    for name, definition in (*made.get("$defs", {}).items(), ("Settings", made)):
        kind = sections.get(name)
        told = {_name(kind, field): text for field, text in _all_meanings(kind).items()} if kind else {}
        for written, about in definition.get("properties", {}).items():
            if text := told.get(written):
                about["description"] = text
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": "nacre.json5"}


def _holding(
    key: Key, config: Config, *, text: str, raw: Mapping[str, Any], file: Path, default: Any
) -> tuple[Any, str]:
    variable = _VARIABLES.get(key, "")
    if variable and (value := config.environment.get(variable, "").strip()):
        return value, f"the environment variable {variable}"
    own = ("agents", "list", _place(config, raw), *key[2:])
    if key[:2] == ("agents", "defaults") and at(raw, own) is not None:
        return at(plain(config.settings), key), f"{_line(text, own, file)}, for agent {config.agent_id!r}"
    written = at(raw, key)
    if written is None:
        held = at(plain(config.settings), key)
        return (default if held is None else held), "the default"
    held = at(plain(config.settings), key)
    return (written if held is None else held), _line(text, key, file)


def _place(config: Config, raw: Mapping[str, Any]) -> int:
    entries = at(raw, ("agents", "list")) or ()
    ids = [str(entry.get("id", "")).strip().lower() for entry in entries]
    return ids.index(config.agent_id) if config.agent_id in ids else -1


def _line(text: str, key: Key, file: Path) -> str:
    shift = 0
    try:
        root = outermost(text)
        if not root.opens_with:
            raise ValueError
    except ValueError:
        root, shift = outermost(f"{{{text}\n}}"), 1
    found = root.at(key)
    return f"{file}, line {text.count(chr(10), 0, found.start - shift) + 1}" if found else str(file)


def _sections(kind: type[BaseModel], seen: set[type[BaseModel]]) -> set[type[BaseModel]]:
    from nacre.runtime.settings.disk.keys import section_below

    if kind not in seen:
        seen.add(kind)
        for info in kind.model_fields.values():
            if below := section_below(info.annotation):
                _sections(below, seen)
    return seen


def _all_meanings(kind: type[BaseModel]) -> dict[str, str]:
    told: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            told |= _meanings(base)
    return told


@cache
def _meanings(kind: type[BaseModel]) -> Mapping[str, str]:
    """The text below each field of a class; without its source there is none."""
    try:
        [body] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    assert isinstance(body, ast.ClassDef)
    told = {}
    for item, below in zip(body.body, body.body[1:], strict=False):
        match item, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                told[name] = inspect.cleandoc(text)
    return told


def _name(kind: type[BaseModel], field: str) -> str:
    from nacre.runtime.settings.section import written_name

    return written_name(kind, field) if field in kind.model_fields else field
