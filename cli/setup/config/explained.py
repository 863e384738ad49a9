"""What a setting is, what holds for one agent, and where that comes from. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre.runtime.settings.changes import counts_at_next_turn, is_taken_over_by_serve
from nacre.runtime.settings.config import DATABASE_VARIABLE, MODEL_VARIABLE, WORKSPACE_VARIABLE
from nacre.runtime.settings.disk.json5_text import outermost
from nacre.runtime.settings.keys import (
    Field,
    Key,
    at,
    default_of,
    field_of,
    hidden,
    plain,
    section_below,
    written_key,
)
from nacre.runtime.settings.meanings import kind_of, meaning_of, without_links
from nacre.runtime.settings.sections.section import written_name
from nacre.runtime.settings.settings import Settings

if TYPE_CHECKING:
    from nacre.runtime.settings.config import Config

_ENTRY = ("agents", "list")
_VARIABLES: Mapping[Key, str] = {
    ("agents", "defaults", "model", "primary"): MODEL_VARIABLE,
    ("agents", "defaults", "workspace"): WORKSPACE_VARIABLE,
    ("storage", "url"): DATABASE_VARIABLE,
}
"""The keys that a variable of the environment goes before."""


def explained(key: Key, config: Config, *, text: str, raw: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """What is known of a key: `key`, `value`, `default`, `type` (in words), `from` (a sentence), `counts`
    (from when on a change does), `meaning`; of a section also `below`, what each key in it is for.
    Secrets are hidden.

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
        "type": "" if found is None else kind_of(found).replace("`", ""),
        "from": source,
        "counts": _counts(key),
        "meaning": "" if found is None or found.info is None else without_links(meaning_of(found)),
        "below": {} if found is None or found.info is None else _below(found),
    }


def value_of(key: Key, config: Config, raw: Mapping[str, Any]) -> Any:
    """What holds for a key, as plain JSON values, secrets hidden.

    Raises:
        ConfigError: there is no such setting.
    """
    return explained(key, config, text="", raw=raw, file=Path())["value"]


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


def _counts(key: Key) -> str:
    name = ".".join(str(step) for step in (("agents", "defaults", *key[3:]) if key[:2] == _ENTRY else key))
    if counts_at_next_turn(name):
        return "at the next turn"
    return "in nacre serve within seconds" if is_taken_over_by_serve(name) else "at the next start"


def _below(above: Field) -> dict[str, str]:
    section, told = above.below, dict[str, str]()
    if section is not None:
        for name, info in section.model_fields.items():
            written = written_name(section, name)
            field = Field(section=section, name=written, info=info, below=section_below(info.annotation))
            told[written] = without_links(meaning_of(field)) or "see the keys below it"
    return told


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
