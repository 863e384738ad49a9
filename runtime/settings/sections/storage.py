"""`storage`: what keeps sessions and notes."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.disk.agent_folders import FILES, StorageChoice
from nacre.runtime.settings.sections.plugins import PluginsSettings
from nacre.runtime.settings.sections.section import SettingsSection

POSTGRES = "postgres"
"""The backend that comes with Nacre, and the one that NACRE_DATABASE_URL means."""
_DRIVERS = {"": FILES, "postgresql": POSTGRES}
"""What others call `storage.driver`, and what is meant by a blank one."""


def _driver(value: object) -> object:
    if not isinstance(value, str):
        return value
    written = value.strip()
    return _DRIVERS.get(written.lower(), written)


class StorageSettings(SettingsSection):
    """`storage`: files of the state folder, or a database that several machines share."""

    driver: Annotated[str, BeforeValidator(_driver)] = FILES
    """What keeps sessions, workspace, index, approvals and the channels' ledger: `files`; `postgres`, for
    which the extra `postgres` brings the driver; or the id of an
    [extension](extending.md#a-storage-backend)."""
    url: str = ""
    """`postgresql://user:password@host:5432/database`, with libpq's parameters behind a `?`. Write a password
    as `${NAME}`, so that it stands in the environment."""
    workers: bool = False
    """Whether `nacre serve` leaves turns to [`nacre admin worker`](workers.md), of which many may run,
    on several machines."""

    def chosen(self, told: str, plugins: PluginsSettings) -> StorageChoice:
        """What keeps an agent's data. A database that was `told` of needs no setting.

        Raises:
            ConfigError: the settings want a database and name none, or switch off the extension they choose.
        """
        url = told.strip() or self.url.strip()
        driver = POSTGRES if told.strip() and self.driver == FILES else self.driver
        if driver == FILES:
            return StorageChoice()
        if driver == POSTGRES and not url:
            raise ConfigError(
                "The settings want PostgreSQL (storage.driver) and name no database. Set storage.url or "
                "NACRE_DATABASE_URL: postgresql://user:password@host:5432/database."
            )
        if driver in plugins.deny or not (plugins.enabled or driver == POSTGRES):
            raise ConfigError(
                f"storage.driver is {driver!r}, and plugins switches this extension off. Take it out of "
                "plugins.deny and leave plugins.enabled, or choose another storage.driver."
            )
        entry = plugins.entries.get(driver)
        return StorageChoice(driver=driver, url=url, settings=entry.config if entry is not None else {})


def with_storage(raw: dict[str, Any], file: Path) -> dict[str, Any]:
    """`memory.driver` and `memory.url` as `storage`, which is what a published article calls it.

    Raises:
        ConfigError: both are written, and say something else.
    """
    memory = raw["memory"] if isinstance(raw.get("memory"), dict) else {}
    named = (
        {key: memory[key] for key in ("driver", "url") if key in memory} if isinstance(memory, dict) else {}
    )
    if not named or not isinstance(raw.get("storage", {}), dict):
        return raw
    if "driver" in named:
        named["driver"] = _driver(named["driver"])
    storage = raw.get("storage", {})
    if any(storage.get(key, value) != value for key, value in named.items()):
        raise ConfigError(
            f"The settings file {file} says in memory.{' and memory.'.join(named)} something else than in "
            "storage. Keep storage alone: it says where notes and sessions lie."
        )
    kept = {key: value for key, value in memory.items() if key not in named}
    return {**raw, "memory": kept, "storage": {**named, **storage}}
