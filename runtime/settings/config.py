"""Where settings come from: the only file that reads the environment.

Precedence, first wins: what the caller of `Agent.open` passes, environment, settings file, default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre.runtime.contracts.errors import ConfigError

if TYPE_CHECKING:
    from nacre.runtime.settings.agent_places import AgentPlaces
    from nacre.runtime.settings.disk.agent_folders import AgentFolders
    from nacre.runtime.settings.disk.auth_profiles import AuthProfiles
    from nacre.runtime.settings.sections.agents import AgentsSettings
    from nacre.runtime.settings.settings import Settings

SETTINGS_FILE = "nacre.json5"
STATE_DIR_VARIABLE = "NACRE_STATE_DIR"
WORKSPACE_VARIABLE = "NACRE_WORKSPACE"
MODEL_VARIABLE = "NACRE_MODEL"
AGENT_VARIABLE = "NACRE_AGENT"
DATABASE_VARIABLE = "NACRE_DATABASE_URL"


@dataclass(frozen=True, kw_only=True)
class ListedAgent:
    """One of the agents of a state folder. `name` may be empty, and so is `model_name` without a model."""

    id: str
    name: str
    is_default: bool
    workspace: Path
    model_name: str


@dataclass(kw_only=True)
class DailyCap:
    """`usage.dailyCapUsd` as it counts now; a settings file that is read anew changes it for all who ask."""

    usd: float | None


@dataclass(frozen=True, kw_only=True)
class Config:
    """One agent's settings, `settings.agent` its own, with every path resolved.
    `agents` are in the order of the list, `auth` its keys outside of the settings, `environment` is what it
    was read in. `notices` are sentences for the owner.
    """

    home: Path
    state_dir: Path
    folders: AgentFolders
    agents: tuple[ListedAgent, ...]
    model_name: str
    settings: Settings
    daily_cap: DailyCap
    auth: AuthProfiles
    environment: Mapping[str, str] = field(repr=False)
    notices: tuple[str, ...] = ()

    @property
    def agent_id(self) -> str:
        """Which agent it is."""
        return self.folders.agent_id

    @property
    def database_url(self) -> str:
        """The database that keeps all of it; empty where files do."""
        return self.folders.database_url

    @property
    def workspace(self) -> Path:
        """The folder with its notes, unless they lie in a database."""
        return self.folders.workspace

    @property
    def private_dir(self) -> Path:
        """Where its lanes are locked and what was typed to it is kept: the first agent came before there were
        others, and keeps them in the state folder itself."""
        from nacre.runtime.settings.sections.agents import FIRST_AGENT

        return self.state_dir if self.agent_id == FIRST_AGENT else self.folders.agent_dir


def process_environment() -> Mapping[str, str]:
    """The environment of this process, as a value to hand in."""
    return dict(os.environ)


def load_config(
    environment: Mapping[str, str],
    *,
    state_dir: Path | None = None,
    workspace: Path | None = None,
    model_name: str | None = None,
    agent_id: str | None = None,
) -> Config:
    """Reads the settings of one agent of a state folder; a missing folder or file means all defaults.
    `workspace` is this agent's; the variable of that name is the default agent's, whichever is asked for.

    Raises:
        ConfigError: the file is unreadable, no JSON5, names a variable that is not set, or a value does not
            fit its setting; there is no such agent, or it could reach what is another agent's.
    """
    from nacre.memory.contracts.settings import at_home
    from nacre.runtime.settings.disk import settings_file as disk
    from nacre.runtime.settings.disk.agent_folders import kept_apart
    from nacre.runtime.settings.disk.auth_profiles import read_auth_profiles

    state = (state_dir or _state_dir(environment)).absolute()
    file = state / SETTINGS_FILE
    raw = disk.read_settings_file(file, environment)
    with disk.variables_unseen(file, environment):
        written = _settings(raw, file)
        agents = written.agents
        own_id = _agent_id(agent_id or environment.get(AGENT_VARIABLE, ""), agents, file)
        place = next((place for place, entry in enumerate(agents.entries) if entry.id == own_id), None)
        settings = written if place is None else _settings(disk.with_own_settings(raw, place), file)

        places = _places(environment, state, written)
        folders = {each: places.of(each, workspace if each == own_id else None) for each in agents.ids}
        own = folders[own_id]
        notices = kept_apart(
            own,
            [other for other in folders.values() if other is not own],
            extra_paths=[at_home(path, places.home) for path in settings.agent.memory_search.extra_paths],
            qmd_paths=[
                (at_home(asked.path, places.home), asked.pattern) for asked in settings.memory.read_by_qmd
            ],
            allowed=places.allowed(own_id),
        )
        notices = (*_not_its_workspace(environment, own, agents), *notices)
        auth = read_auth_profiles(own.agent_dir)
        chosen_model = model_name or environment.get(MODEL_VARIABLE, "").strip()
        return Config(
            home=places.home,
            state_dir=state,
            folders=own,
            agents=tuple(_listed(agents, each, chosen_model) for each in folders.values()),
            model_name=chosen_model or settings.agent.model.primary.strip(),
            settings=settings,
            daily_cap=DailyCap(usd=settings.usage.daily_cap_usd),
            auth=auth,
            environment=environment,
            notices=(*_file_notices(file, written), *disk.told_of_sources(raw), *auth.problems, *notices),
        )


def checked_settings(text: str, file: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Sentences about a text that is to stand in the settings file; none when there is nothing to say.

    Raises:
        ConfigError: it is no JSON5, names a variable that is not set, or a value does not fit its setting.
    """
    from nacre.runtime.settings.disk import settings_file as disk

    raw = disk.settings_in(text, file, environment)
    with disk.variables_unseen(file, environment):
        written = _settings(raw, file)
        for place in range(len(written.agents.entries)):
            _settings(disk.with_own_settings(raw, place), file)
    return (*_file_notices(file, written), *disk.told_of_sources(raw))


def settings_anew(config: Config) -> Settings:
    """What the file says now for the agent of a config that was read earlier.

    Raises:
        ConfigError: as `load_config`, or the list of agents names this one no more.
    """
    from nacre.runtime.settings.disk import settings_file as disk

    file = config.state_dir / SETTINGS_FILE
    raw = disk.read_settings_file(file, config.environment)
    with disk.variables_unseen(file, config.environment):
        written = _settings(raw, file)
        ids = [entry.id for entry in written.agents.entries]
        _agent_id(config.agent_id, written.agents, file)
        return _settings(disk.with_own_settings(raw, ids.index(config.agent_id)), file) if ids else written


def settings_file(environment: Mapping[str, str]) -> Path:
    """Where the settings of the environment's state folder stand, if there are any.

    Raises:
        ConfigError: the state folder is in another user's home.
    """
    return _state_dir(environment) / SETTINGS_FILE


def _places(environment: Mapping[str, str], state: Path, written: Settings) -> AgentPlaces:
    from nacre.runtime.settings.agent_places import AgentPlaces

    return AgentPlaces(
        named=environment.get(WORKSPACE_VARIABLE, ""),
        database_url=written.storage.database(environment.get(DATABASE_VARIABLE, "")),
        home=_home(environment),
        state=state,
        settings=written,
    )


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or Path.home())


def _state_dir(environment: Mapping[str, str]) -> Path:
    from nacre.runtime.settings.agent_places import owners_path

    home = _home(environment)
    return owners_path(environment.get(STATE_DIR_VARIABLE), home) or home / ".nacre"


def _agent_id(wanted: str, agents: AgentsSettings, file: Path) -> str:
    """The agent that is asked for, by any spelling of its id; without one the default agent."""
    from nacre.sessions.contracts.keys import normalise_agent_id

    if not wanted.strip():
        return agents.default_id
    found = normalise_agent_id(wanted)
    if found in agents.ids and found == wanted.strip().lower():
        return found
    is_one = len(agents.ids) == 1
    raise ConfigError(
        f"There is no agent {wanted!r}. {'The only one is' if is_one else 'The agents are'} "
        f"{', '.join(agents.ids)}; agents.list in {file} names them."
    )


def _listed(agents: AgentsSettings, folders: AgentFolders, chosen_model: str) -> ListedAgent:
    entry = agents.entry(folders.agent_id)
    own_model = entry.model.primary.strip() if entry else ""
    return ListedAgent(
        id=folders.agent_id,
        name=entry.name.strip() if entry else "",
        is_default=folders.agent_id == agents.default_id,
        workspace=folders.workspace,
        model_name=chosen_model or own_model or agents.defaults.model.primary.strip(),
    )


def _not_its_workspace(
    environment: Mapping[str, str], own: AgentFolders, agents: AgentsSettings
) -> tuple[str, ...]:
    if own.agent_id == agents.default_id or not environment.get(WORKSPACE_VARIABLE, "").strip():
        return ()
    return (
        f"{WORKSPACE_VARIABLE} names the workspace of the default agent {agents.default_id!r}. "
        f"Agent {own.agent_id!r} stays in {own.workspace}; its workspace in agents.list names another.",
    )


def _file_notices(file: Path, settings: Settings) -> tuple[str, ...]:
    from nacre.runtime.settings.disk.settings_file import told_of_other_files
    from nacre.runtime.settings.sections.section import unread_keys

    unread = ", ".join(unread_keys(settings))
    marked = [entry.id for entry in settings.agents.entries if entry.default]
    notices = [f"{file} has settings that Nacre does not read: {unread}."] if unread else []
    notices += told_of_other_files(file)
    if len(marked) > 1:
        notices.append(
            f"Several agents in {file} are marked as the default: {', '.join(marked)}. {marked[0]} is it."
        )
    return tuple(notices)


def _settings(raw: Mapping[str, Any], file: Path) -> Settings:
    # whoever asks for the environment alone waits neither for pydantic nor for the memory room
    from pydantic import ValidationError

    from nacre.runtime.settings.settings import Settings

    try:
        return Settings.of_file(raw)
    except ValidationError as error:
        problems = "; ".join(_problem(dict(item)) for item in error.errors(include_input=False))
        raise ConfigError(f"The settings file {file} has values that do not fit: {problems}.") from error


def _problem(item: Mapping[str, Any]) -> str:
    from nacre.runtime.settings.keys import likely_key, written_key
    from nacre.runtime.settings.settings import Settings

    meant = likely_key(item["loc"], Settings) if item["type"] == "extra_forbidden" else ""
    said = f"there is no such setting (did you mean {meant}?)" if meant else item["msg"]
    return f"{written_key(item['loc'])}: {said}"
