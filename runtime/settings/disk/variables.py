"""Fills in `${NAME}` in the settings from the environment, `.env` and the keyring.

A variable that is not set disables only the part of the settings that needs it: a provider is not asked, a
channel is off, a tool server is left out, any other value has its default. Each is reported in a sentence.
The settings are refused only if a default would not be safe: who may call what, what it may cost, where the
data is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.disk.secrets import KEYRING_SERVICE, from_keyring, with_environment_file

VARIABLE = re.compile(r"\$(?P<literal>\$)?\{(?P<keyring>keyring:)?(?P<name>[A-Z_][A-Z0-9_]*)\}")
_MARK = "\u2060"
"""Marks a `${NAME}` that is not set, unlike the letters `$${NAME}`. It has no width."""
_UNSET = re.compile(r"\$\{((?:keyring:)?[A-Z_][A-Z0-9_]*)\}" + _MARK)
_HARMLESS_CHARS = 2
_ANY = "*"

KeyPath: TypeAlias = tuple[str | int, ...]


class _Unset(Record):
    """A variable without a value, and where the settings name it."""

    path: KeyPath
    problem: str


def filled_in(
    raw: Mapping[str, Any], environment: Mapping[str, str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The settings with each `${NAME}` filled in, and a sentence for each part that was left out.

    As in OpenClaw: names in capitals, anywhere in a text, and `$${NAME}` for the letters themselves.
    `${keyring:NAME}` is looked up in the system's keyring.

    Raises:
        ConfigError: a vital variable is not set.
    """
    missing: list[_Unset] = []
    found = _filled(raw, environment, (), missing)
    # From the end, because removing an item of a list moves those after it.
    notices = [_leave_out(found, each) for each in reversed(missing)]
    return found, tuple(dict.fromkeys(reversed(notices)))


def unset_in(*values: object) -> str:
    """A sentence about unset variables in these values, or an empty string."""
    names = ", ".join(dict.fromkeys(name for value in values for name in _unset_names(value)))
    if not names:
        return ""
    return (
        f"The settings name {names}, which is not set. Set it in the environment or in the file .env beside "
        "nacre.json5, or write the value itself."
    )


@contextmanager
def hidden_values(file: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Replaces values of variables by `${NAME}` in the message of a `ConfigError`."""
    try:
        yield
    except ConfigError as error:
        text = hide_values(str(error), file, environment)
        if text == str(error):
            raise
        raise ConfigError(text) from None


def hide_values(text: str, file: Path, environment: Mapping[str, str]) -> str:
    """The text with the values of variables in the settings replaced by `${NAME}`.

    Values in the environment are often keys. Values of one or two characters stay: they are no secrets, and
    a text without them would be unreadable.
    """
    written = ""
    with suppress(OSError, UnicodeDecodeError):
        written = file.read_text(encoding="utf-8-sig") if file.is_file() else ""
    matches = [match for match in VARIABLE.finditer(written) if not match["literal"]]
    if not matches:
        return text
    values: dict[str, str] = {}
    with suppress(ConfigError):  # a `.env` or a keyring that cannot be read filled nothing in
        found = with_environment_file(environment, file)
        for match in matches:
            held = from_keyring(match["name"]) if match["keyring"] else found.get(match["name"], "").strip()
            values[held] = f"{match['keyring'] or ''}{match['name']}"
    for value in sorted(values, key=len, reverse=True):
        if len(value) > _HARMLESS_CHARS:
            for spelled in (value, repr(value)[1:-1]):
                text = text.replace(spelled, f"${{{values[value]}}}")
    return text


def _filled(value: Any, environment: Mapping[str, str], path: KeyPath, missing: list[_Unset]) -> Any:
    if isinstance(value, Mapping):
        return {key: _filled(item, environment, (*path, str(key)), missing) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, environment, (*path, at), missing) for at, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def text_of(match: re.Match[str]) -> str:
        if match["literal"]:
            return match[0][1:]
        found, problem = (
            _from_keyring(match["name"])
            if match["keyring"]
            else _from_environment(match["name"], environment)
        )
        if problem:
            missing.append(_Unset(path=path, problem=problem))
        return found or f"{match[0]}{_MARK}"

    return VARIABLE.sub(text_of, value)


def _from_environment(name: str, environment: Mapping[str, str]) -> tuple[str, str]:
    text = environment.get(name, "").strip()
    return text, "" if text else f"names the environment variable {name}, which is not set"


def _from_keyring(name: str) -> tuple[str, str]:
    try:
        secret = from_keyring(name)
    except ConfigError as error:
        return "", f"names {name} of the system's keyring ({str(error).rstrip('.')})"
    put = f"put it there with: keyring set {KEYRING_SERVICE} {name}"
    return secret, "" if secret else f"names {name} of the system's keyring, which has no such key; {put}"


def _turn_off(holder: Any, key: str | int) -> None:
    holder[key] = {"enabled": False}


def _remove(holder: Any, key: str | int) -> None:
    del holder[key]


def _remove_key(holder: Any, key: str | int) -> None:
    marks = "".join(f"${{{name}}}{_MARK}" for name in _unset_names(holder[key]))
    known = {name: part for name, part in holder[key].items() if not any(_unset_names(part))}
    holder[key] = {**known, "apiKey": marks}


def _keep_mark(_holder: Any, _key: str | int) -> None:
    """The reader of the value looks for the mark."""


_VITAL: tuple[tuple[str, ...], ...] = (
    *((name,) for name in ("bindings", "session", "storage", "tools", "usage")),
    *(("agents", "defaults", name) for name in ("allowPaths", "tools", "workspace")),
    *(("agents", "list", _ANY, name) for name in ("agentDir", "default", "id", "tools", "workspace")),
    ("memory", "driver"),
    ("memory", "facts"),
    ("memory", "secrets"),
    ("memory", "url"),
    ("memory", "writes"),
)
"""These decide who may do what, at which cost, and where the data is."""
_PARTS: tuple[tuple[tuple[str, ...], str, Callable[[Any, str | int], None]], ...] = (
    (("models", "providers", _ANY), "this provider is not asked", _remove_key),
    (("mcp", "servers", _ANY), "this tool server is left out", _remove),
    (("channels", _ANY, "accounts", _ANY), "this account is off", _turn_off),
    (("channels", _ANY), "this channel is off", _turn_off),
    (("plugins", "entries", _ANY), "this extension is off", _turn_off),
    *(
        (prefix, effect, act)
        for agent in (("agents", "defaults"), ("agents", "list", _ANY))
        for prefix, effect, act in (
            (
                (*agent, "memorySearch", "remote"),
                "new notes are found only by words",
                _keep_mark,
            ),
            ((*agent, "memorySearch", "query", "rerank"), "hits are not ranked again", _remove),
            ((*agent, "model"), "this model is not asked", _keep_mark),
        )
    ),
    (("http",), "there is no HTTP server", _remove),
)
"""The first match says what is left out; otherwise only the value is, and its default applies."""


def _leave_out(raw: dict[str, Any], missing: _Unset) -> str:
    """Removes the part that needs a variable, and returns a sentence.

    Raises:
        ConfigError: the variable is vital.
    """
    path = missing.path
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    remedy = "Set it, put it into the file .env beside the settings, or write the value itself."
    if any(_fits(path, prefix) for prefix in _VITAL):
        raise ConfigError(f"The setting {place} {missing.problem}. {remedy}")
    part, effect, act = next(
        ((path[: len(prefix)], effect, act) for prefix, effect, act in _PARTS if _fits(path, prefix)),
        (path, "its default applies", _remove),
    )
    holder: Any = raw
    for step in part[:-1]:
        holder = holder.get(step) if isinstance(holder, dict) else holder[step]
        if holder is None:
            break
    if holder is not None and (not isinstance(holder, dict) or part[-1] in holder):
        act(holder, part[-1])
    return f"The setting {place} {missing.problem}, so {effect}. {remedy}"


def _fits(path: KeyPath, prefix: tuple[str, ...]) -> bool:
    return len(path) >= len(prefix) and all(
        wanted in (_ANY, step) for step, wanted in zip(path, prefix, strict=False)
    )


def _unset_names(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from _UNSET.findall(value)
    elif hasattr(value, "model_extra"):  # a section of the settings
        yield from _unset_names({**vars(value), **(value.model_extra or {})})
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _unset_names(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _unset_names(item)
