"""`storage`: where sessions and notes are stored."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.disk.agent_folders import FILES, StorageChoice
from nacre.runtime.settings.sections.plugins import PluginsSettings
from nacre.runtime.settings.sections.section import SettingsSection

POSTGRES = "postgres"
"""The backend that NACRE_DATABASE_URL selects."""
_DRIVERS = {"": FILES, "postgresql": POSTGRES}
"""Other names of drivers, and the default."""


def _driver(value: object) -> object:
    if not isinstance(value, str):
        return value
    written = value.strip()
    return _DRIVERS.get(written.lower(), written)


class StorageSettings(SettingsSection):
    """`storage`: files in the state folder, or a database that several machines share."""

    driver: Annotated[str, BeforeValidator(_driver)] = FILES
    """The backend for sessions, workspace, index, approvals and the ledger of the channels: `files`,
    `postgres` (with that extra), or the id of an [extension](extending.md#write-a-storage-backend)."""
    url: str = ""
    """The database: `postgresql://user:password@host:5432/database`, with libpq's parameters after a `?`.
    Write the password as `${NAME}` to keep it in the environment."""
    workers: bool = False
    """Whether `nacre serve` leaves turns to [workers](workers.md), any number of which run on any
    machines."""

    def chosen(self, named_url: str, plugins: PluginsSettings) -> StorageChoice:
        """The storage of an agent. `named_url` is the value of NACRE_DATABASE_URL, which takes precedence.

        Raises:
            ConfigError: the database is not named, or the chosen extension is switched off.
        """
        url = named_url.strip() or self.url.strip()
        driver = POSTGRES if named_url.strip() and self.driver == FILES else self.driver
        if driver == FILES:
            return StorageChoice()
        if driver == POSTGRES and not url:
            raise ConfigError(
                "storage.driver is PostgreSQL, but no database is named. Set storage.url or "
                "NACRE_DATABASE_URL: postgresql://user:password@host:5432/database."
            )
        if driver in plugins.deny or not (plugins.enabled or driver == POSTGRES):
            raise ConfigError(
                f"storage.driver is {driver!r}, but plugins switches this extension off. Remove it from "
                "plugins.deny and leave plugins.enabled on, or choose another storage.driver."
            )
        entry = plugins.entries.get(driver)
        return StorageChoice(driver=driver, url=url, settings=entry.config if entry is not None else {})


def with_storage(raw: dict[str, Any], file: Path) -> dict[str, Any]:
    """Reads `memory.driver` and `memory.url`, the keys of a published article, as `storage`.

    Raises:
        ConfigError: both are set, to different values.
    """
    memory = raw["memory"] if isinstance(raw.get("memory"), dict) else {}
    named = {key: memory[key] for key in ("driver", "url") if key in memory}
    if not named or not isinstance(raw.get("storage", {}), dict):
        return raw
    if "driver" in named:
        named["driver"] = _driver(named["driver"])
    storage = raw.get("storage", {})
    if any(storage.get(key, value) != value for key, value in named.items()):
        raise ConfigError(
            f"The settings file {file} has different values in memory.{' and memory.'.join(named)} and in "
            "storage. Remove the former: storage says where notes and sessions are."
        )
    kept = {key: value for key, value in memory.items() if key not in named}
    return {**raw, "memory": kept, "storage": {**named, **storage}}
