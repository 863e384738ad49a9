"""Where settings come from: the only file that reads the environment.

Precedence, first wins: what the caller of `Agent.open` passes, environment, settings file, default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.runtime.contracts.errors import ConfigError

if TYPE_CHECKING:
    from nacre.runtime.settings.settings import Settings

SETTINGS_FILE = "nacre.json5"
AGENT_ID = "main"
"""The one agent of a state folder."""

STATE_DIR_VARIABLE = "NACRE_STATE_DIR"
WORKSPACE_VARIABLE = "NACRE_WORKSPACE"
MODEL_VARIABLE = "NACRE_MODEL"


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings with every path resolved. `notices` are sentences for the owner about the file."""

    home: Path
    state_dir: Path
    workspace: Path
    sessions_file: Path
    model_name: str
    settings: Settings
    notices: tuple[str, ...] = ()


def process_environment() -> Mapping[str, str]:
    """The environment of this process, as a value to hand in."""
    return dict(os.environ)


def load_config(
    environment: Mapping[str, str],
    *,
    state_dir: Path | None = None,
    workspace: Path | None = None,
    model_name: str | None = None,
) -> Config:
    """Reads the settings of a state folder. A missing folder or file means all defaults.

    Raises:
        ConfigError: the file is unreadable, no JSON5, names a variable that is not set, or a value does not
            fit its setting.
    """
    home = _home(environment)
    state = state_dir or _state_dir(environment)
    file = state / SETTINGS_FILE
    settings = _settings(file, environment)
    chosen = (
        workspace
        or _path(environment.get(WORKSPACE_VARIABLE), home)
        or _path(settings.agent.workspace, home)
        or state / "workspace"
    )
    unread = ", ".join(settings.unread_keys())
    return Config(
        home=home,
        state_dir=state.absolute(),
        workspace=chosen.absolute(),
        sessions_file=_sessions_file(settings.session.store, state=state, home=home).absolute(),
        model_name=model_name
        or environment.get(MODEL_VARIABLE, "").strip()
        or settings.agent.model.primary.strip(),
        settings=settings,
        notices=(f"{file} has settings that Nacre does not read: {unread}.",) if unread else (),
    )


def settings_file(environment: Mapping[str, str]) -> Path:
    """Where the settings of the environment's state folder stand, if there are any.

    Raises:
        ConfigError: the state folder is in another user's home.
    """
    return _state_dir(environment) / SETTINGS_FILE


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or Path.home())


def _state_dir(environment: Mapping[str, str]) -> Path:
    home = _home(environment)
    return _path(environment.get(STATE_DIR_VARIABLE), home) or home / ".nacre"


def _sessions_file(setting: str, *, state: Path, home: Path) -> Path:
    """Where the index of sessions lies; its folder holds the transcripts."""
    chosen = _path(setting.replace("{agentId}", AGENT_ID), home)
    if chosen is None:
        return state / "agents" / AGENT_ID / "sessions" / "sessions.json"
    if chosen.suffix != ".json":
        raise ConfigError(
            f"session.store is {setting!r}. Name a file that ends in .json, such as ~/chats/sessions.json."
        )
    return chosen


def _path(text: str | None, home: Path) -> Path | None:
    if not text or not text.strip():
        return None
    first, _, rest = text.strip().partition("/")
    if first == "~":
        return home / rest
    if first.startswith("~"):
        raise ConfigError(f"The folder {text!r} names another user's home. Write the whole path out.")
    return Path(text.strip())


def _settings(file: Path, environment: Mapping[str, str]) -> Settings:
    # whoever asks for the environment alone waits neither for pydantic nor for the memory room
    from pydantic import ValidationError

    from nacre.runtime.settings.settings import Settings
    from nacre.runtime.settings.settings_file import read_settings_file

    raw = read_settings_file(file, environment, agent_id=AGENT_ID)
    if not raw:
        # Nothing to validate: making a validator would take longer than reading the file.
        return Settings.model_construct()
    try:
        return Settings.model_validate(raw)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors(include_input=False)
        )
        raise ConfigError(f"The settings file {file} has values that do not fit: {problems}.") from error
