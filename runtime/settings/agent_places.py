"""Where the agents of a state folder live: what the settings name, and the usual places. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError

if TYPE_CHECKING:
    from nacre.runtime.settings.disk.agent_folders import AgentFolders, StorageChoice
    from nacre.runtime.settings.sections.agents import AgentsSettings
    from nacre.runtime.settings.settings import Settings


class AgentPlaces(Record):
    """Where the agents of a state folder live, by settings that are as they were written.

    `named` is the default agent's workspace where it is not blank, whatever the settings say.
    """

    named: str
    storage: StorageChoice
    home: Path
    state: Path
    settings: Settings

    def of(self, agent_id: str, workspace: Path | None) -> AgentFolders:
        """The places of one agent; a `workspace` that is given is its workspace.

        Raises:
            ConfigError: a path names another user's home, or `session.store` no JSON file.
        """
        from nacre.memory.contracts.settings import index_path
        from nacre.runtime.settings.disk.agent_folders import AgentFolders

        agents = self.settings.agents
        entry = agents.entry(agent_id)
        usual = self.state / "agents" / agent_id
        search = agents.defaults.memory_search
        if entry is not None and entry.memory_search.store.path:
            search = entry.memory_search
        return AgentFolders(
            agent_id=agent_id,
            workspace=(workspace or self._workspace(agent_id)).absolute(),
            agent_dir=(owners_path(entry.agent_dir if entry else "", self.home) or usual).absolute(),
            sessions_file=self._sessions_file(agent_id, usual).absolute(),
            index_file=index_path(search, state_dir=self.state, agent_id=agent_id, home=self.home).absolute(),
            storage=self.storage,
        )

    def allowed(self, agent_id: str) -> list[Path]:
        """What an agent may reach although it is another's."""
        entry = self.settings.agents.entry(agent_id)
        found = (owners_path(text, self.home) for text in (entry.allow_paths if entry else ()))
        return [path.absolute() for path in found if path is not None]

    def _workspace(self, agent_id: str) -> Path:
        agents = self.settings.agents
        entry, is_default = agents.entry(agent_id), agent_id == agents.default_id
        texts = [
            self.named if is_default else None,
            entry.workspace if entry else None,
            agents.defaults.workspace if is_default else None,
        ]
        usual = self.state / ("workspace" if is_default else f"workspace-{agent_id}")
        return next((path for text in texts if (path := owners_path(text, self.home))), usual)

    def _sessions_file(self, agent_id: str, usual: Path) -> Path:
        """Where the index of sessions lies; its folder holds the transcripts."""
        setting = self.settings.session.store
        chosen = owners_path(setting.replace("{agentId}", agent_id), self.home)
        if chosen is None:
            return usual / "sessions" / "sessions.json"
        if chosen.suffix != ".json":
            raise ConfigError(
                f"session.store is {setting!r}. "
                "Name a file that ends in .json, such as ~/chats/sessions.json."
            )
        return chosen


def listed_id(wanted: str, agents: AgentsSettings, file: Path) -> str:
    """The agent that is asked for, by any spelling of its id; without one the default agent.

    Raises:
        ConfigError: there is no such agent.
    """
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


def owners_path(text: str | None, home: Path) -> Path | None:
    """A path as an owner writes it, with `~` for the home folder; `None` for a blank one.

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
