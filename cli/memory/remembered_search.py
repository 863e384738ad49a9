"""Where a search looks and how, kept from the last time that the settings were read as a whole. Edge.

To read and check the settings takes longer than a search: pydantic, and the classes of 70 sections. A command
that searches once therefore keeps what it needed of them, without a key or a provider, beside the index. It
counts for as long as the environment and every file that it came from are as they were, by their marks. What
cannot be kept so is not: several agents, a database, an embedder with a key, settings with something to say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nacre import __version__
from nacre.record import Record
from nacre.runtime.settings.config import (
    AGENT_VARIABLE,
    DATABASE_VARIABLE,
    STATE_DIR_VARIABLE,
    WORKSPACE_VARIABLE,
    settings_file,
)

if TYPE_CHECKING:
    from nacre.memory.contracts.index_settings import Unwritten
    from nacre.memory.contracts.settings import MemorySearchSettings
    from nacre.runtime.settings.config import Config
    from nacre.runtime.settings.disk.agent_folders import AgentFolders

KEPT_FILE = Path("memory", "search.json")
"""Below the state folder. It can be deleted at any time."""

SETTLED_NS = 2_000_000_000
"""How old a file must be: one that changes twice at once may keep its marks, where clocks are coarse."""

_PATHS = (STATE_DIR_VARIABLE, WORKSPACE_VARIABLE)
_VARIABLES = ("HOME", AGENT_VARIABLE, *_PATHS)
_COUNT = ("agents", "session", "memory", "plugins", "storage")
"""The sections that decide where and how is searched."""
_PLACES = ("agent_id", "workspace", "agent_dir", "sessions_file", "index_file")
_SECRET = frozenset({"remote", "api_key", "base_url"})
"""Not kept, whether there is something or not: such a search has no use for them."""


class SearchPlace(Record):
    """What a search of one agent needs of the settings.

    `settings` has every path in place, `places` are the fields of its folders, `time_zone` is `userTimezone`.
    `by_meaning` says that the model that ships embeds the question, else there are words alone.
    """

    state_dir: Path
    places: Mapping[str, str]
    time_zone: str
    by_meaning: bool
    settings: MemorySearchSettings

    @property
    def folders(self) -> AgentFolders:
        """The places of the agent."""
        # whoever embeds a question begins with that before such an import
        from nacre.runtime.settings.disk.agent_folders import AgentFolders

        return AgentFolders(
            agent_id=self.places["agent_id"],
            workspace=Path(self.places["workspace"]),
            agent_dir=Path(self.places["agent_dir"]),
            sessions_file=Path(self.places["sessions_file"]),
            index_file=Path(self.places["index_file"]),
        )


def remembered_search(environment: Mapping[str, str]) -> SearchPlace | None:
    """What was kept, if it still holds.

    Raises:
        ConfigError: the state folder is in another user's home.
    """
    state = settings_file(environment).parent.absolute()
    if environment.get(DATABASE_VARIABLE, "").strip():
        return None
    try:
        kept = json.loads((state / KEPT_FILE).read_bytes())
        if kept["made_by"] != __version__ or kept["environment"] != _of(environment):
            return None
        if any(not environment.get(name) for name in kept["named_variables"]):
            return None
        if any(_marks(Path(path)) != marks for path, marks in kept["files"].items()):
            return None
        return SearchPlace(
            state_dir=state,
            places={name: str(kept["places"][name]) for name in _PLACES},
            time_zone=kept["time_zone"],
            by_meaning=kept["by_meaning"],
            settings=cast("MemorySearchSettings", _values(kept["settings"])),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def last_search_used_model(environment: Mapping[str, str]) -> bool:
    """Whether the last search that was kept asked the model that ships; it may hold no more.

    Raises:
        ConfigError: the state folder is in another user's home.
    """
    try:
        kept = json.loads((settings_file(environment).parent / KEPT_FILE).read_bytes())
        return kept["by_meaning"] is True
    except (OSError, ValueError, TypeError, KeyError):
        return False


def remember_search(config: Config, settings: MemorySearchSettings, *, began_ns: int) -> None:
    """Keeps what a search needs of `config`, if it can be kept, for the next one.

    `settings` are those of the search with every path in place; `began_ns` is a moment before the settings
    were read, in nanoseconds since the epoch. Nothing is said when it cannot be written.
    """
    # whoever finds something that was kept waits for none of these
    from nacre.runtime.settings.disk.settings_file import unfilled_settings
    from nacre.sessions.contracts.errors import SessionError
    from nacre.sessions.disk.durable import make_folder, replace_file

    by_meaning = _embeds_here(settings)
    if by_meaning is None or not _is_plain(config):
        return
    file = settings_file(config.environment)
    files = {str(path): _marks(path) for path in _read(file, config.folders)}
    if any(marks is not None and marks[-1] > began_ns - SETTLED_NS for marks in files.values()):
        return
    raw, named = unfilled_settings(file)
    if any("${" in json.dumps(raw.get(section)) for section in _COUNT):
        return
    kept = {
        "made_by": __version__,
        "environment": _of(config.environment),
        "named_variables": [name for name in named if config.environment.get(name)],
        "files": files,
        "places": {name: str(getattr(config.folders, name)) for name in _PLACES},
        "time_zone": config.settings.agent.user_timezone,
        "by_meaning": by_meaning,
        "settings": _checked(settings),
    }
    with suppress(OSError, SessionError):
        make_folder((config.state_dir / KEPT_FILE).parent)
        text = json.dumps(kept, ensure_ascii=False)
        replace_file(config.state_dir / KEPT_FILE, text.encode(), sync=_not_awaited)


def _is_plain(config: Config) -> bool:
    """Whether one agent keeps files in places that do not depend on the folder one stands in."""
    from nacre.runtime.settings.sections.plugins import MEMORY_CORE

    settings, agents = config.settings, config.settings.agents
    entry = agents.entry(config.agent_id)
    named = [
        *(config.environment.get(name) for name in _PATHS),
        agents.defaults.workspace,
        settings.session.store,
        *(own.memory_search.store.path for own in (agents.defaults, entry) if own is not None),
        *((entry.workspace, entry.agent_dir) if entry is not None else ()),
    ]
    return (
        len(config.agents) == 1
        and not config.notices
        and config.is_in_files
        and not settings.memory.has_backend
        and settings.plugins.slots.memory == MEMORY_CORE
        and all(text.strip().startswith(("/", "~")) for text in named if text and text.strip())
    )


def _embeds_here(settings: MemorySearchSettings) -> bool | None:
    """Whether the model that ships embeds questions; `None` where it takes more than that to search."""
    has_extras = (
        not settings.enabled
        or settings.remote is not None
        or settings.query.rerank.provider not in (None, "", "none")
        or settings.fallback.strip().lower() not in ("", "none")
        or settings.sources != ("memory",)
        or bool(settings.local.model_path)
    )
    by_meaning = {"none": False, "": True, "local": True}.get((settings.provider or "").strip().lower())
    return None if has_extras else by_meaning


def _read(file: Path, folders: AgentFolders) -> Sequence[Path]:
    """Every file that has a part in the settings, whether it is there or not: also Nacre's own defaults."""
    from nacre.memory.contracts import index_settings, settings
    from nacre.runtime.settings.disk.auth_profiles import FILE_NAMES
    from nacre.runtime.settings.disk.secrets import ENVIRONMENT_FILE
    from nacre.runtime.settings.disk.settings_file import OTHER_FILES

    beside = (file, *(file.with_name(name) for name in (ENVIRONMENT_FILE, *OTHER_FILES)))
    keys = (folders.agent_dir / name for name in FILE_NAMES)
    code = (Path(module) for module in (settings.__file__, index_settings.__file__, __file__))
    return (*beside, *keys, *code)


def _not_awaited(_file: int) -> None:
    """What a power cut leaves of it is read as nothing."""


def _marks(path: Path) -> list[int] | None:
    """What changes with a file, its time of change last; `None` when there is none."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return [facts.st_mtime_ns, facts.st_size, facts.st_ino, facts.st_mode, facts.st_ctime_ns]


def _of(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in _VARIABLES if name in environment}


def _checked(settings: Unwritten) -> dict[str, Any]:
    """The values of a section as it holds them. pydantic would make a serialiser for that first."""
    from nacre.memory.contracts.index_settings import Unwritten

    values = {name: getattr(settings, name) for name in type(settings).model_fields}
    return {
        name: None if name in _SECRET else _checked(value) if isinstance(value, Unwritten) else value
        for name, value in values.items()
    }


class _Values:
    """A section of settings that was checked when it was kept: its values, under their names."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update((name, _values(value)) for name, value in values.items())


def _values(kept: object) -> object:
    if isinstance(kept, dict):
        return _Values(kept)
    return tuple(kept) if isinstance(kept, list) else kept
