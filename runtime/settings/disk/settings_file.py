"""`nacre.json5` as plain values: parsed, its variables filled in, one agent's own settings laid over the
rest.

The only reader of the file. The sections decide what the values mean, and whether they are valid.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nacre.memory.contracts.settings import merged_settings
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.disk.secrets import with_environment_file
from nacre.runtime.settings.disk.variables import VARIABLE, filled_in

_WHO_AND_WHERE = frozenset({"id", "default", "name", "workspace", "agentDir", "allowPaths"})
"""What an entry of `agents.list` says about its agent, and `agents.defaults` cannot."""
_KINDS: Mapping[type, str] = {type(None): "null", bool: "true or false", str: "a text", list: "a list"}
_YAML = re.compile(r"^\w+:[ \t]*\n[ \t]+\w+:", re.MULTILINE)
OTHER_FILES = ("nacre.json", "nacre.yaml", "nacre.yml", "openclaw.json", "clawdbot.json", "clawdbot.yaml")
"""Settings under other names, which are not read."""
_PROBLEM = re.compile(
    r"(?P<kind>Unclosed|Expected|Stray|Extra data)?(?P<what>.*?),? (?:starting )?near (?P<near>\d+).*",
    re.DOTALL,
)
_NAMES = {
    "JSON5Value": "a value",
    "IdentifierStart": "a name",
    "array": "The array […]",
    "colon": "a colon",
    "comma": "a comma",
    "comment": "The comment",
    "hexadecimal character": "a hexadecimal digit",
    "object": "The object {…}",
    "string": "The string",
}


def settings_in(
    text: str, file: Path, environment: Mapping[str, str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The values of a text for the file, and a sentence for each variable that is not set.

    Raises:
        ConfigError: the text is not JSON5 or not an object, or a vital variable is not set.
    """
    raw = _decoded(text, file)
    if not isinstance(raw, dict):
        held = _KINDS.get(type(raw), "a number")
        raise ConfigError(f"The settings file {file} contains {held} instead of an object {{…}}.")
    return filled_in(raw, with_environment_file(environment, file))


def unfilled_settings(file: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A file's values before variables are filled in, and the names of the environment variables.

    Raises:
        ConfigError: the file cannot be read.
    """
    raw = _decoded(read_text(file), file)
    written = json.dumps(raw)  # the comments of the file name variables that nothing uses
    named = (
        found["name"] for found in VARIABLE.finditer(written) if not found["literal"] and not found["keyring"]
    )
    return raw, tuple(dict.fromkeys(named))


def other_files_notice(file: Path) -> list[str]:
    """A sentence about settings under other names beside the file, if there are any."""
    others = [name for name in OTHER_FILES if file.with_name(name).exists()]
    if not others:
        return []
    return [
        f"Settings are read from {file} alone, and not from {', '.join(others)} beside it. Move them there."
    ]


def sources_notice(raw: Mapping[str, Any]) -> list[str]:
    """A sentence if a valid file names conversations as a source without enabling them."""
    agents = raw.get("agents") or {}
    defaults = (agents.get("defaults") or {}).get("memorySearch") or {}
    searches = [defaults, *((entry.get("memorySearch") or {}) for entry in agents.get("list") or ())]
    for own in searches:
        search = merged_settings(defaults, own)
        is_on = (search.get("experimental") or {}).get("sessionMemory")
        if "sessions" in (search.get("sources") or ()) and not is_on:
            return [
                "memorySearch.sources names 'sessions', and past conversations are not searched: set "
                "memorySearch.experimental.sessionMemory to true to allow it."
            ]
    return []


def with_own_settings(raw: Mapping[str, Any], place: int) -> dict[str, Any]:
    """A valid file in which `agents.defaults` are those of one agent: the entry at `place` of
    `agents.list`.

    That entry becomes the only one, so that an agent among many does not hold all of them. As in OpenClaw,
    the entry overrides the defaults field by field, and a null in it counts as missing. A model as
    plain text is the primary one, and keeps the fallbacks of all; `extraPaths` and `tools.deny` of both are
    joined.
    """
    agents = raw["agents"]
    defaults, entry = agents.get("defaults") or {}, agents["list"][place]
    own = {key: value for key, value in entry.items() if key not in _WHO_AND_WHERE}
    merged = merged_settings(_with_whole_model(defaults), _with_whole_model(own))
    search = "memorySearch"
    if isinstance(own.get(search), Mapping):
        merged[search] = merged_settings(defaults.get(search) or {}, own[search])
    denied = [(part.get("tools") or {}).get("deny") or () for part in (defaults, own)]
    if any(denied):
        merged["tools"] = {**merged["tools"], "deny": [*denied[0], *denied[1]]}
    return {**raw, "agents": {**agents, "defaults": merged, "list": [entry]}}


def settings_as_written(file: Path) -> Mapping[str, Any]:
    """The file's values with each `${NAME}` as it is; empty if it is not an object.

    Raises:
        ConfigError: the file is unreadable or not JSON5.
    """
    raw = _decoded(read_text(file), file)
    return raw if isinstance(raw, dict) else {}


def read_text(file: Path) -> str:
    """The file's text; empty if there is none. Raises `ConfigError` if it cannot be read."""
    try:
        kind = file.stat().st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            # Reading a pipe could block forever.
            raise ConfigError(f"The settings file {file} is a pipe or a device. Put a plain file there.")
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The settings file {file} cannot be read: {error}. Repair or move it.") from error


def _decoded(text: str, file: Path) -> Any:
    import pyjson5

    try:
        return pyjson5.decode(text) if text.strip() else {}
    except pyjson5.Json5Exception as error:
        # Published settings are often shown without the braces around them.
        with suppress(pyjson5.Json5Exception):
            return pyjson5.decode(f"{{{text}\n}}")
        problem = _json5_problem(text, str(error.args[0]), getattr(error, "character", None))
        if _YAML.search(text):
            problem += (
                " It looks like YAML; as JSON5, `memory:` with `driver:` and `url:` below it is "
                '{ storage: { driver: "…", url: "…" } }.'
            )
        raise ConfigError(f"The settings file {file} is not JSON5. {problem} Repair or move it.") from error


def _json5_problem(text: str, message: str, character: object) -> str:
    """A sentence with line and column for pyjson5's `message`, or the message itself if it is unknown.

    pyjson5 counts characters, gives the position only in its message, and words it for programs: "Expected
    b'comma' or U+007d near 12". The `character` that it found is at that position, or after a word there.
    """
    match = _PROBLEM.fullmatch(message)
    if match is None:
        return f"{message}."
    kind, at = match["kind"], int(match["near"]) - 1
    what = re.sub(r"b'([^']*)'", lambda name: _NAMES.get(name[1], name[1]), match["what"].strip())
    what = re.sub(r"U\+([0-9A-Fa-f]{4,6})", lambda code: f"{chr(int(code[1], 16))!r}", what)
    if isinstance(character, str):
        at = max(at, text.find(character, at + 1 if kind == "Extra data" else at))
    elif kind == "Unclosed" and what == "The comment":
        at -= 1  # the place is that of its second character
    before = text[: max(0, at)]
    place = f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
    match kind:
        case "Unclosed":
            return f"{what} that begins in {place} is never closed."
        case "Extra data":
            return f"In {place}, {character!r} is after the end."
        case "Stray":
            return f"In {place}, there is {what} too many."
        case "Expected" if character:
            return f"In {place}, {what} is expected instead of {character!r}."
    return f"{kind or ''} {what}, in {place}.".strip()


def _with_whole_model(agent: Mapping[str, Any]) -> Mapping[str, Any]:
    model = agent.get("model")
    return {**agent, "model": {"primary": model}} if isinstance(model, str) else agent


def emptied_notice(file: Path) -> str | None:
    """A sentence if the settings file became blank or was removed while a program runs, or `None`.

    A killed editor or a full disk leaves such a file. An owner who wants all defaults writes `{}`.
    """
    try:
        is_emptied = not file.read_bytes().strip()
    except FileNotFoundError:
        is_emptied = True
    except OSError:
        return None
    if not is_emptied:
        return None
    return (
        f"{file} is empty or gone, so the settings that were read before still apply. "
        "Restore it, or write {} for all defaults."
    )


def may_name_an_embedder(file: Path) -> bool:
    """Whether the settings in `file` may ask for another embedder than the built-in one, or for none.

    A wrong guess costs time: an unneeded process, or one that starts late.
    """
    try:
        written = file.read_bytes()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return b"memorySearch" in written and (b"provider" in written or b"enabled" in written)
