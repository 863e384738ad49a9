"""`storage`: what keeps sessions and notes."""

from typing import Literal

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
