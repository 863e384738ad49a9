"""`storage`: what keeps sessions and notes."""

from pathlib import Path
from typing import Any, Literal

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.sections.section import SettingsSection


class StorageSettings(SettingsSection):
    """`storage`: files of the state folder, or a database that several machines share."""

    driver: Literal["files", "postgres"] = "files"
    """What keeps sessions, workspace and index: `files`, or `postgres`, for which `pip install
    'nacre[postgres]'` brings the driver."""
    url: str = ""
    """`postgresql://user:password@host:5432/database`, with libpq's parameters behind a `?`. Write a password
    as `${NAME}`, so that it stands in the environment."""
    workers: bool = False
    """Whether `nacre serve` leaves turns to [`nacre worker`](workers.md), of which many may run, on several
    machines."""

    def database(self, told: str) -> str:
        """Which database is meant, empty where files keep all; one that was `told` needs no setting.

        Raises:
            ConfigError: the settings want a database and nothing names one.
        """
        if self.driver == "files":
            return told.strip()
        url = told.strip() or self.url.strip()
        if not url:
            raise ConfigError(
                "The settings want PostgreSQL (storage.driver) and name no database. Set storage.url or "
                "NACRE_DATABASE_URL: postgresql://user:password@host:5432/database."
            )
        return url


_DRIVERS = {"postgresql": "postgres"}
"""What others call `storage.driver`."""


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
    driver = named.get("driver")
    if driver in _DRIVERS:
        named["driver"] = _DRIVERS[driver]
    storage = raw.get("storage", {})
    if any(storage.get(key, value) != value for key, value in named.items()):
        raise ConfigError(
            f"The settings file {file} says in memory.{' and memory.'.join(named)} something else than in "
            "storage. Keep storage alone: it says where notes and sessions lie."
        )
    kept = {key: value for key, value in memory.items() if key not in named}
    return {**raw, "memory": kept, "storage": {**named, **storage}}
