"""Between two turns: a settings file that was changed is read anew. The only file that looks for a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.runtime.contracts.errors import ConfigError, ModelError
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.settings.config import SETTINGS_FILE, Config, StateSettings
from nacre.runtime.settings.disk.settings_file import file_stamp, told_of_emptied

if TYPE_CHECKING:
    from nacre.runtime.settings.settings import Settings


class SettingsInFile:
    """What the settings file said last, and what of its changes the owner was not told yet."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._file = config.state_dir / SETTINGS_FILE
        self._stamp = file_stamp(self._file)
        self._seen: Settings = config.settings
        self._untold: list[str] = []

    def look(self, running: Settings) -> Settings | None:
        """The settings for the next turn if the file has changed: what counts at once over the running ones.

        Settings that cannot be used change nothing, and that is told, too.
        """
        stamp = file_stamp(self._file)
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        if emptied := told_of_emptied(self._file):
            self._untold.append(emptied)
            return None
        # whoever changes no settings does not wait for this
        from nacre.runtime.settings.changes import taken_over

        try:
            now = StateSettings(self._config.environment, self._config.state_dir).of_agent(
                self._config.agent_id
            )
        except ConfigError as error:
            self._untold.append(f"The changed settings cannot be used, and the old ones hold: {error}")
            return None
        changes = taken_over(running, self._seen, now)
        self._seen = now
        self._config.daily_cap.usd = changes.settings.usage.daily_cap_usd
        self._untold += changes.sentences
        return changes.settings

    def unseen(self, error: Exception) -> Exception:
        """An error of a model, which does not quote what the settings took from a variable."""
        if isinstance(error, ModelError) and error.args:
            from nacre.runtime.settings.disk.variables import values_unseen

            told = values_unseen(str(error.args[0]), self._file, self._config.environment)
            error.args = (told, *error.args[1:])
        return error

    def to_tell(self, policy: ChatPolicy | None = None) -> tuple[str, ...]:
        """What is to be told now, once; in a chat, only the owner in private hears of settings."""
        if policy is not None and not (policy.is_owner and policy.is_private):
            return ()
        told, self._untold = tuple(self._untold), []
        return told
