"""The settings that a search needs, cached by the last command that read all settings.

Reading the settings takes longer than a search, because it needs pydantic and the classes of 70 sections. So
a search keeps what it needed, without keys and providers, beside the index. This is valid while the
environment and the fingerprints of the files that it came from are unchanged. Nothing is kept with several
agents, a database, an embedder with a key, or notices about the settings.
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
    from nacre.memory.contracts.settings import MemorySearchSettings, Unwritten
    from nacre.runtime.settings.config import Config
    from nacre.runtime.settings.disk.agent_folders import AgentFolders

KEPT_FILE = Path("memory", "search.json")
"""A file in the state folder, which can be deleted at any time."""

SETTLED_NS = 2_000_000_000
"""The required age of a file: with a coarse clock, two quick changes can have the same fingerprint."""

_PATHS = (STATE_DIR_VARIABLE, WORKSPACE_VARIABLE)
_VARIABLES = ("HOME", AGENT_VARIABLE, *_PATHS)
_SECTIONS = ("agents", "session", "memory", "plugins", "storage")
"""The sections that affect a search."""
_PLACES = ("agent_id", "workspace", "agent_dir", "sessions_file", "index_file")
_SECRET = frozenset({"remote", "api_key", "base_url"})
"""Never kept, because such a search does not use them."""


class SearchPlace(Record):
    """What a search of one agent needs of the settings.

    `settings` has all paths filled in, `places` are the fields of the agent's folders, `time_zone` is
    `userTimezone`. `by_meaning` means that the shipped model embeds the query; otherwise the search is by
    words only.
    """

    state_dir: Path
    places: Mapping[str, str]
    time_zone: str
    by_meaning: bool
    settings: MemorySearchSettings

    @property
    def folders(self) -> AgentFolders:
        # imported here, because the query is embedded first
        from nacre.runtime.settings.disk.agent_folders import AgentFolders

        return AgentFolders(
            agent_id=self.places["agent_id"],
            workspace=Path(self.places["workspace"]),
            agent_dir=Path(self.places["agent_dir"]),
            sessions_file=Path(self.places["sessions_file"]),
            index_file=Path(self.places["index_file"]),
        )


def remembered_search(environment: Mapping[str, str]) -> SearchPlace | None:
    """The cached settings, if they are still valid.

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
        if any(_fingerprint(Path(path)) != known for path, known in kept["files"].items()):
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
    """Whether the last cached search used the shipped model; the cache may be outdated.

    Raises:
        ConfigError: the state folder is in another user's home.
    """
    try:
        kept = json.loads((settings_file(environment).parent / KEPT_FILE).read_bytes())
        return kept["by_meaning"] is True
    except (OSError, ValueError, TypeError, KeyError):
        return False


def remember_search(config: Config, settings: MemorySearchSettings, *, began_ns: int) -> None:
    """Keeps what a search needs of `config` for the next one, if possible.

    `settings` are those of the search with all paths filled in; `began_ns` is a time before the settings were
    read, in nanoseconds since the epoch. Failures to write are ignored.
    """
    # imported here, because a search by the cache does not need them
    from nacre.runtime.settings.disk.settings_file import unfilled_settings
    from nacre.sessions.contracts.errors import SessionError
    from nacre.sessions.disk.durable import make_folder, replace_file

    by_meaning = _embeds_here(settings)
    if by_meaning is None or not _is_plain(config):
        return
    file = settings_file(config.environment)
    files = {str(path): _fingerprint(path) for path in _read(file, config.folders)}
    if any(found is not None and found[-1] > began_ns - SETTLED_NS for found in files.values()):
        return
    raw, named = unfilled_settings(file)
    if any("${" in json.dumps(raw.get(section)) for section in _SECTIONS):
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
        replace_file(config.state_dir / KEPT_FILE, text.encode(), sync=_skip_sync)


def _is_plain(config: Config) -> bool:
    from nacre.runtime.settings.sections.plugins import MEMORY_CORE

    settings, agents = config.settings, config.settings.agents
    entry = agents.by_id.get(config.agent_id)
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
    """Whether the shipped model embeds queries; `None` if a search needs other settings, too."""
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
    from nacre.memory.contracts import settings
    from nacre.runtime.settings.disk.auth_profiles import FILE_NAMES
    from nacre.runtime.settings.disk.secrets import ENVIRONMENT_FILE
    from nacre.runtime.settings.disk.settings_file import OTHER_FILES

    beside = (file, *(file.with_name(name) for name in (ENVIRONMENT_FILE, *OTHER_FILES)))
    keys = (folders.agent_dir / name for name in FILE_NAMES)
    code = (Path(module) for module in (settings.__file__, __file__))
    return (*beside, *keys, *code)


def _skip_sync(_file: int) -> None:
    """A power failure may leave an incomplete file, which is ignored."""


def _fingerprint(path: Path) -> list[int] | None:
    """A fingerprint of a file, with its change time last; `None` without a file."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return [facts.st_mtime_ns, facts.st_size, facts.st_ino, facts.st_mode, facts.st_ctime_ns]


def _of(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in _VARIABLES if name in environment}


def _checked(settings: Unwritten) -> dict[str, Any]:
    """The values of a section. pydantic would first build a serializer."""
    from nacre.memory.contracts.settings import Unwritten

    values = {name: getattr(settings, name) for name in type(settings).model_fields}
    return {
        name: None if name in _SECRET else _checked(value) if isinstance(value, Unwritten) else value
        for name, value in values.items()
    }


class _Values:
    """The values of a section that was validated before it was kept."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update((name, _values(value)) for name, value in values.items())


def _values(kept: object) -> object:
    if isinstance(kept, dict):
        return _Values(kept)
    return tuple(kept) if isinstance(kept, list) else kept
