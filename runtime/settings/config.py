"""Reads the settings of an agent. The only file that reads the environment.

Precedence, first wins: arguments of `Agent.open`, environment, settings file, default.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError, ModelError

if TYPE_CHECKING:
    from nacre.runtime.contracts.clock import Clock
    from nacre.runtime.contracts.policy import ChatPolicy
    from nacre.runtime.settings.disk.agent_folders import AgentFolders, StorageChoice
    from nacre.runtime.settings.disk.auth_profiles import AuthProfiles
    from nacre.runtime.settings.sections.agents import AgentsSettings
    from nacre.runtime.settings.settings import DailyCap, Settings

SETTINGS_FILE = "nacre.json5"
STATE_DIR_VARIABLE = "NACRE_STATE_DIR"
WORKSPACE_VARIABLE = "NACRE_WORKSPACE"
MODEL_VARIABLE = "NACRE_MODEL"
AGENT_VARIABLE = "NACRE_AGENT"
DATABASE_VARIABLE = "NACRE_DATABASE_URL"
OFFLINE_NAMES = ("offline", "offline/extractive")
"""The names of the built-in offline responder, which answers when no model is named."""
USER_PREFIX = "user-"
"""How the id of a user's agent begins."""


class ListedAgent(Record):
    """An agent of a state folder. `name` may be empty, and so may `model_name`."""

    id: str
    name: str
    is_default: bool
    workspace: Path
    model_name: str


class Config(Record):
    """One agent's settings (`settings.agent`) with every path resolved.

    `agents` are in the order of the list, `auth` are its keys outside of the settings, `environment` is
    what it was read with. `notices` are sentences for the owner. `profile` is the one that a program chose.
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
    profile: str = ""
    left_out: tuple[str, ...] = ()
    """The notices about parts that cannot be used, because a variable is not set."""

    @property
    def agent_id(self) -> str:
        return self.folders.agent_id

    @property
    def clock(self) -> Clock:
        """The clock in the owner's time zone. Raises `ConfigError` if the machine does not know that."""
        from nacre.runtime.contracts.clock import owner_clock

        return owner_clock(self.settings.agent.user_timezone)

    @property
    def is_in_files(self) -> bool:
        """Whether files keep all data, and no database."""
        return self.folders.is_in_files

    @property
    def workspace(self) -> Path:
        """The folder with the notes, unless they are in a database."""
        return self.folders.workspace


def process_environment() -> Mapping[str, str]:
    return dict(os.environ)


def load_config(
    environment: Mapping[str, str],
    *,
    state_dir: Path | None = None,
    workspace: Path | None = None,
    model_name: str | None = None,
    agent_id: str | None = None,
    profile: str = "",
) -> Config:
    """Reads the settings of one agent of a state folder. A missing folder or file means all defaults.

    `workspace` is this agent's; the variable `NACRE_WORKSPACE` is the default agent's, whichever is
    requested. `profile` replaces `agents.defaults.profile`.

    Raises:
        ConfigError: the file is unreadable or not JSON5, a value is invalid, or a vital variable
            is not set; there is no such agent, or it could reach another agent's data.
    """
    read = StateSettings(environment, state_dir, profile=profile)
    return read.config(agent_id or "", workspace=workspace, model_name=model_name)


class StateSettings:
    """The settings file of a state folder, read once for all of its agents.

    Raises:
        ConfigError: as `load_config`, for the file as a whole.
    """

    def __init__(
        self, environment: Mapping[str, str], state_dir: Path | None = None, *, profile: str = ""
    ) -> None:
        # Imported here, because reading the environment needs neither pydantic nor the memory room.
        from nacre.runtime.settings.disk.settings_file import read_text, settings_in
        from nacre.runtime.settings.disk.variables import hidden_values
        from nacre.runtime.settings.sections.agents import Profile
        from nacre.runtime.settings.sections.storage import with_storage
        from nacre.runtime.settings.settings import valid_settings

        self._environment = environment
        self._state = (state_dir or _state_dir(environment)).absolute()
        self._file = self._state / SETTINGS_FILE
        self._read_at = self._stamps()
        read, unset = settings_in(read_text(self._file), self._file, environment)
        self._profile = profile
        if profile:
            if profile not in get_args(Profile):
                known = ", ".join(map(repr, get_args(Profile)))
                raise ConfigError(f"profile={profile!r} does not exist. The profiles are {known}.")
            agents = read.get("agents") or {}
            defaults = {**(agents.get("defaults") or {}), "profile": profile}
            read = {**read, "agents": {**agents, "defaults": defaults}}
        with hidden_values(self._file, environment):
            self._raw = with_storage(read, self._file)
            self._written = valid_settings(self._raw, self._file)
            self._places = _places(environment, self._state, self._written)
            self._left_out = unset
            self._notices = (*unset, *_notices(self._raw, self._written, self._file))
        self._listed: dict[str, tuple[ListedAgent, ...]] = {}

    @property
    def is_current(self) -> bool:
        """Whether the file, and the file with keys beside it, are unchanged."""
        return self._stamps() == self._read_at

    def config(
        self,
        agent_id: str,
        *,
        workspace: Path | None = None,
        model_name: str | None = None,
        new_user: bool = False,
    ) -> Config:
        """The settings of one agent, or of the default agent. With `new_user`, `agent_id` is a
        `user_agent_id`, and its folder may be missing.

        Raises:
            ConfigError: as `load_config`, for this agent.
        """
        from nacre.runtime.settings.disk.auth_profiles import read_auth_profiles
        from nacre.runtime.settings.disk.variables import hidden_values
        from nacre.runtime.settings.settings import DailyCap

        environment, agents, home = self._environment, self._written.agents, self._places.home
        with hidden_values(self._file, environment):
            own_id = self._known_id(agent_id or environment.get(AGENT_VARIABLE, ""), new_user=new_user)
            is_listed = own_id in agents.ids
            settings = self.of_agent(own_id) if is_listed else self._written
            own = self._folders[own_id] if is_listed and not workspace else self._places.of(own_id, workspace)
            notices = self._kept_apart(own, settings, is_listed=is_listed)
            if is_listed:
                notices = (*_workspace_notice(environment, own, agents), *notices)
            with_keys = own if is_listed else self._folders[agents.default_id]
            auth = read_auth_profiles(with_keys.agent_dir)
        chosen_model = model_name or environment.get(MODEL_VARIABLE, "").strip()
        used_model = chosen_model or settings.agent.model.primary.strip()
        used_model = "" if used_model in OFFLINE_NAMES else used_model
        if "://" in used_model:
            from nacre.runtime.settings.sections.models import named_by_address

            used_model, models = named_by_address(used_model, settings.models)
            chosen_model = chosen_model and used_model
            settings = settings.model_copy(update={"models": models})
        return Config(
            home=home,
            state_dir=self._state,
            folders=own,
            agents=self._all_agents(own, chosen_model),
            model_name=used_model,
            settings=settings,
            daily_cap=DailyCap(usd=settings.usage.daily_cap_usd),
            auth=auth,
            environment=environment,
            notices=(*self._notices, *auth.problems, *notices),
            left_out=self._left_out,
            profile=self._profile,
        )

    def _stamps(self) -> tuple[object, object]:
        from nacre.runtime.settings.disk.secrets import ENVIRONMENT_FILE

        return file_stamp(self._file), file_stamp(self._state / ENVIRONMENT_FILE)

    @cached_property
    def _folders(self) -> Mapping[str, AgentFolders]:
        return {each: self._places.of(each, None) for each in self._written.agents.ids}

    def of_agent(self, agent_id: str) -> Settings:
        """The settings of one agent alone; those of all for the agent of a user.

        Raises:
            ConfigError: there is no such agent.
        """
        from nacre.runtime.settings.disk.settings_file import with_own_settings
        from nacre.runtime.settings.disk.variables import hidden_values
        from nacre.runtime.settings.settings import valid_settings

        agents = self._written.agents
        own_id = self._known_id(agent_id)
        if agents.by_id.get(own_id) is None:
            return self._written
        with hidden_values(self._file, self._environment):
            return valid_settings(with_own_settings(self._raw, agents.ids.index(own_id)), self._file)

    def _kept_apart(self, own: AgentFolders, settings: Settings, *, is_listed: bool) -> tuple[str, ...]:
        from nacre.memory.contracts.settings import at_home
        from nacre.runtime.settings.disk.agent_folders import kept_apart

        home, users = self._places.home, self._places.users
        return kept_apart(
            own,
            [other for each, other in self._folders.items() if each != own.agent_id],
            users=users if not is_listed or users.is_dir() else None,
            extra_paths=[at_home(path, home) for path in settings.agent.memory_search.extra_paths],
            qmd_paths=[(at_home(asked.path, home), asked.pattern) for asked in settings.memory.read_by_qmd],
            skill_dirs=[at_home(path, home) for path in settings.skills.load.extra_dirs],
            allowed=self._places.allowed(own.agent_id),
        )

    def _known_id(self, wanted: str, *, new_user: bool = False) -> str:
        from nacre.sessions.contracts.keys import normalize_agent_id

        agents, found = self._written.agents, wanted.strip().lower()
        if found.startswith(USER_PREFIX) and found == normalize_agent_id(found):
            if new_user and found in agents.ids:
                raise ConfigError(
                    f"The agent of this user would be {found!r}, and agents.list in {self._file} has one "
                    f"of that name. Give the listed one an id that does not begin with {USER_PREFIX!r}."
                )
            if found not in agents.ids and (new_user or (self._places.users / found).is_dir()):
                return found
        return listed_id(wanted, agents, self._file)

    def _all_agents(self, own: AgentFolders, chosen_model: str) -> tuple[ListedAgent, ...]:
        agents, folders = self._written.agents, self._folders
        if own is not folders.get(own.agent_id, own):  # its workspace was an argument
            changed = {**folders, own.agent_id: own}.values()
            return tuple(_listed(agents, each, chosen_model) for each in changed)
        if chosen_model not in self._listed:
            self._listed[chosen_model] = tuple(
                _listed(agents, each, chosen_model) for each in folders.values()
            )
        return self._listed[chosen_model]


def checked_settings(text: str, file: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Checks a text for the settings file, and returns sentences about it.

    Raises:
        ConfigError: as `load_config`, for the file as a whole.
    """
    from nacre.runtime.settings.disk import settings_file as disk
    from nacre.runtime.settings.disk.variables import hidden_values
    from nacre.runtime.settings.sections.storage import with_storage
    from nacre.runtime.settings.settings import valid_settings

    read, unset = disk.settings_in(text, file, environment)
    with hidden_values(file, environment):
        raw = with_storage(read, file)
        written = valid_settings(raw, file)
        for place in range(len(written.agents.entries)):
            valid_settings(disk.with_own_settings(raw, place), file)
        return (*unset, *_notices(raw, written, file))


def _notices(raw: Mapping[str, Any], written: Settings, file: Path) -> tuple[str, ...]:
    from nacre.runtime.settings.disk.settings_file import other_files_notice, sources_notice
    from nacre.runtime.settings.settings import key_notices

    return (*key_notices(written, file), *other_files_notice(file), *sources_notice(raw))


def settings_file(environment: Mapping[str, str]) -> Path:
    """The settings file of the environment's state folder, which may not exist.

    Raises:
        ConfigError: the state folder is in another user's home.
    """
    return _state_dir(environment) / SETTINGS_FILE


def _places(environment: Mapping[str, str], state: Path, written: Settings) -> AgentPlaces:
    return AgentPlaces(
        named=environment.get(WORKSPACE_VARIABLE, ""),
        storage=written.storage.chosen(environment.get(DATABASE_VARIABLE, ""), written.plugins),
        home=home_folder(environment),
        state=state,
        settings=written,
    )


def home_folder(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or Path.home())


def _state_dir(environment: Mapping[str, str]) -> Path:
    home = home_folder(environment)
    return owners_path(environment.get(STATE_DIR_VARIABLE), home) or home / ".nacre"


def _listed(agents: AgentsSettings, folders: AgentFolders, chosen_model: str) -> ListedAgent:
    entry = agents.by_id.get(folders.agent_id)
    own_model = entry.model.primary.strip() if entry else ""
    return ListedAgent(
        id=folders.agent_id,
        name=entry.name.strip() if entry else "",
        is_default=folders.agent_id == agents.default_id,
        workspace=folders.workspace,
        model_name=chosen_model or own_model or agents.defaults.model.primary.strip(),
    )


def _workspace_notice(
    environment: Mapping[str, str], own: AgentFolders, agents: AgentsSettings
) -> tuple[str, ...]:
    if own.agent_id == agents.default_id or not environment.get(WORKSPACE_VARIABLE, "").strip():
        return ()
    return (
        f"{WORKSPACE_VARIABLE} names the workspace of the default agent {agents.default_id!r}. "
        f"Agent {own.agent_id!r} uses {own.workspace}; set its workspace in agents.list to change that.",
    )


class AgentPlaces(Record):
    """Where the agents of a state folder keep their data, by the settings as they were written.

    `named` is the default agent's workspace from the environment, and takes precedence over the settings.
    """

    named: str
    storage: StorageChoice
    home: Path
    state: Path
    settings: Settings

    def of(self, agent_id: str, workspace: Path | None) -> AgentFolders:
        """The places of one agent; `workspace` replaces its workspace.

        Raises:
            ConfigError: a path names another user's home, or `session.store` is not a JSON file.
        """
        from nacre.memory.contracts.settings import index_path
        from nacre.runtime.settings.disk.agent_folders import AgentFolders

        agents = self.settings.agents
        entry = agents.by_id.get(agent_id)
        is_listed = agent_id in agents.ids
        usual = (self.state / "agents" if is_listed else self.users) / agent_id
        sessions_file = owners_path(self.settings.session.store.replace("{agentId}", agent_id), self.home)
        search = agents.defaults.memory_search
        if entry is not None and entry.memory_search.store.path:
            search = entry.memory_search
        return AgentFolders(
            agent_id=agent_id,
            workspace=(workspace or self._workspace(agent_id)).absolute(),
            agent_dir=(owners_path(entry.agent_dir if entry else "", self.home) or usual).absolute(),
            sessions_file=(sessions_file or usual / "sessions" / "sessions.json").absolute(),
            index_file=index_path(
                search, state_dir=self.state if is_listed else usual, agent_id=agent_id, home=self.home
            ).absolute(),
            storage=self.storage,
        )

    @property
    def users(self) -> Path:
        """The folder of the users' agents, which are not in `agents.list`."""
        return self.state / "users"

    def allowed(self, agent_id: str) -> list[Path]:
        """The places of other agents that an agent may read."""
        entry = self.settings.agents.by_id.get(agent_id)
        found = (owners_path(text, self.home) for text in (entry.allow_paths if entry else ()))
        return [path.absolute() for path in found if path is not None]

    def _workspace(self, agent_id: str) -> Path:
        agents = self.settings.agents
        entry, is_default = agents.by_id.get(agent_id), agent_id == agents.default_id
        texts = [
            self.named if is_default else None,
            entry.workspace if entry else None,
            agents.defaults.workspace if is_default else None,
        ]
        usual = self.state / ("workspace" if is_default else f"workspace-{agent_id}")
        if agent_id not in agents.ids:
            usual = self.users / agent_id / "workspace"
        return next((path for text in texts if (path := owners_path(text, self.home))), usual)


def listed_id(wanted: str, agents: AgentsSettings, file: Path) -> str:
    """The id of the requested agent, in any spelling; the default agent if `wanted` is blank.

    Raises:
        ConfigError: there is no such agent.
    """
    from nacre.sessions.contracts.keys import normalize_agent_id

    if not wanted.strip():
        return agents.default_id
    found = normalize_agent_id(wanted)
    if found in agents.ids and found == wanted.strip().lower():
        return found
    is_one = len(agents.ids) == 1
    raise ConfigError(
        f"There is no agent {wanted!r}. {'The only one is' if is_one else 'The agents are'} "
        f"{', '.join(agents.ids)}; agents.list in {file} names them."
    )


def user_agent_id(user: str) -> str:
    """The id of a user's agent. Different users have different ids, whatever their names consist of.

    >>> user_agent_id("ann"), user_agent_id("Ann@example.com")
    ('user-ann', 'user-ann-example-com-e3535a54578d4c128096')

    Raises:
        ConfigError: the name is blank.
    """
    from nacre.sessions.contracts.keys import normalize_agent_id

    if not user.strip():
        raise ConfigError("A user needs a name that stays the same, such as the id in your own database.")
    if re.fullmatch(r"[a-z0-9_]{1,40}", user):  # no hyphen: it would look like a name with a digest
        return f"{USER_PREFIX}{user}"
    digest = hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()[:20]
    return f"{USER_PREFIX}{normalize_agent_id(user)[:32].strip('-_') or 'x'}-{digest}"


def owners_path(text: str | None, home: Path) -> Path | None:
    """A path as an owner writes it, with `~` for the home folder; `None` if blank.

    Raises:
        ConfigError: it is in another user's home.
    """
    if not text or not text.strip():
        return None
    first, _, rest = text.strip().partition("/")
    if first == "~":
        return home / rest
    if first.startswith("~"):
        raise ConfigError(f"The folder {text!r} names another user's home. Write the whole path out.")
    return Path(text.strip())


def file_stamp(file: Path) -> tuple[int, int, int] | None:
    """A value that changes when a file is written; `None` if there is no file."""
    try:
        facts = file.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


class SettingsInFile:
    """The settings file's last content, and the changes that were not reported yet."""

    def __init__(self, config: Config) -> None:
        self.config = config
        """The settings with which the agent was opened."""
        self._file = config.state_dir / SETTINGS_FILE
        self._stamp = file_stamp(self._file)
        self._seen: Settings = config.settings
        self._unreported: list[str] = []

    def look(self, running: Settings) -> Settings | None:
        """The settings for the next turn if the file has changed, otherwise `None`.

        Invalid settings change nothing, and are reported.
        """
        stamp = file_stamp(self._file)
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        from nacre.runtime.settings.changes import apply_changes
        from nacre.runtime.settings.disk.settings_file import emptied_notice

        if emptied := emptied_notice(self._file):
            self._unreported.append(emptied)
            return None
        try:
            config = self.config
            read = StateSettings(config.environment, config.state_dir, profile=config.profile)
            now = read.of_agent(config.agent_id)
        except ConfigError as error:
            self._unreported.append(f"The changed settings cannot be used, so the old ones apply: {error}")
            return None
        changes = apply_changes(running, self._seen, now)
        self._seen = now
        self.config.daily_cap.usd = changes.settings.usage.daily_cap_usd
        self._unreported += changes.sentences
        return changes.settings

    def hide_values(self, error: Exception) -> Exception:
        """The error of a model, with values from variables replaced by the variables' names."""
        if isinstance(error, ModelError) and error.args:
            from nacre.runtime.settings.disk.variables import hide_values

            text = hide_values(str(error.args[0]), self._file, self.config.environment)
            error.args = (text, *error.args[1:])
        return error

    def take_notices(self, policy: ChatPolicy | None = None) -> tuple[str, ...]:
        """Returns unreported sentences once; in a chat, only to the owner in private."""
        if policy is not None and not (policy.is_owner and policy.is_private):
            return ()
        notices, self._unreported = tuple(self._unreported), []
        return notices
