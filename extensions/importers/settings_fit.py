"""Which settings and keys of another program Nacre takes over. Pure, but for a check that is handed in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from nacre.extensions.importers.planning import Outcome
from nacre.extensions.importers.sources.contents import Setting, Variable
from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.disk.json5_edits import with_value
from nacre.runtime.settings.keys import at, field_of, hidden
from nacre.runtime.settings.settings import Settings

_REFERENCE = re.compile(r"\$\{[^}]*\}")


class SettingStep(Record):
    """What becomes of a setting or a key. `secret` goes where keys are kept, under `variable`."""

    outcome: Outcome
    value: Any = None
    variable: str = ""
    secret: str = field(default="", repr=False)
    reason: str = ""


def plan_variable(variable: Variable, environment: Mapping[str, str]) -> SettingStep:
    """A key of a provider; one of its name that is here already stays."""
    present = environment.get(variable.name, "")
    if present:
        return _kept(present == variable.secret, f"another {variable.name} is here already")
    return SettingStep(outcome="imported", variable=variable.name, secret=variable.secret)


def plan_setting(
    setting: Setting,
    text: str,
    written: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    check: Callable[[str, Mapping[str, str]], object],
) -> SettingStep:
    """A value that Nacre knows, takes and does not have yet. `written` are the values of the file's `text`.

    `check` raises `ConfigError` for a text that Nacre could not start with, given its variables.
    """
    key, value = setting.key, setting.value
    try:
        found = field_of(key, Settings)
    except ConfigError:
        found = None
    if found is None:
        return _skipped("Nacre has no such setting")
    present = at(written, key)
    if present is not None:
        return _kept(found.is_secret or present == value, "it is set to something else here")
    step = SettingStep(outcome="imported", value=value)
    if isinstance(value, str) and found.is_secret and value and not _REFERENCE.fullmatch(value):
        name = _variable(key)
        if environment.get(name, value) != value:
            return _skipped(f"another {name} is here already")
        step = SettingStep(
            outcome="imported",
            value=f"${{{name}}}",
            variable="" if name in environment else name,
            secret=value,
        )
    elif hidden(value, str(key[-1])) != value and not _REFERENCE.fullmatch(str(value)):
        return _skipped("a password stands in it")
    try:
        new = with_value(text, key, step.value)
    except ValueError:
        return _skipped("something else is set above it here")
    try:
        check(new, {**environment, **({step.variable: step.secret} if step.variable else {})})
    except ConfigError:
        return _skipped("Nacre does not take this value")
    return step


def _variable(key: tuple[str, ...]) -> str:
    """The variable that a secret is kept under: of a provider its usual one."""
    if key[:2] == ("models", "providers") and key[3:] == ("apiKey",):
        return f"{_upper(key[2])}_API_KEY"
    return "_".join(_upper(step) for step in key if step not in ("agents", "defaults"))


def _upper(step: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", step)
    return re.sub(r"[^A-Z0-9]+", "_", words.upper()).strip("_")


def _kept(is_same: bool, otherwise: str) -> SettingStep:
    return SettingStep(outcome="here") if is_same else _skipped(otherwise)


def _skipped(reason: str) -> SettingStep:
    return SettingStep(outcome="skipped", reason=reason)
