"""Puts the answers of a first run where they belong, and nothing over what is there. Edge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre.cli.setup.config.changing import change_file
from nacre.cli.setup.config.editing import example
from nacre.runtime.settings.disk.json5_edits import with_value
from nacre.runtime.settings.disk.secrets import ENVIRONMENT_FILE, keep_in_file, keep_in_keyring
from nacre.runtime.settings.disk.settings_file import settings_as_written
from nacre.runtime.settings.keys import at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nacre.memory.contracts.workspace import Workspace
    from nacre.runtime.agent.insight.trial import Key

OWNERS_FILE = "USER.md"
_NAME_LINE = "- **Name:**"
TELEGRAM_VARIABLE = "TELEGRAM_BOT_TOKEN"
_MODEL = ("agents", "defaults", "model", "primary")
_FALLBACKS = ("agents", "defaults", "model", "fallbacks")
_TIME_ZONE = ("agents", "defaults", "userTimezone")


async def knows_no_name(workspace: Workspace) -> bool:
    """Whether USER.md has its line for the owner's name, and nobody filled it in."""
    found = (await workspace.read_many((OWNERS_FILE,)))[OWNERS_FILE]
    return not isinstance(found, Exception) and _NAME_LINE in _lines(found.data)


async def keep_name(workspace: Workspace, name: str) -> None:
    """Fills in the line for the owner's name, if it is still empty.

    Raises:
        OSError: the file cannot be written.
    """

    def change(old: bytes | None) -> bytes:
        lines = _lines(old or b"")
        if _NAME_LINE in lines:
            lines[lines.index(_NAME_LINE)] = f"{_NAME_LINE} {' '.join(name.split())}"
        return "\n".join(lines).encode("utf-8", errors="surrogateescape")

    await workspace.change(OWNERS_FILE, change)


def keep_key(key: Key, state_dir: Path) -> None:
    """Puts a key where the owner wants it.

    Raises:
        ConfigError: it cannot be put there, or another one of its name is there already.
    """
    if key.place == "file":
        keep_in_file(state_dir / ENVIRONMENT_FILE, key.variable, key.secret)
    elif key.place == "keyring":
        keep_in_keyring(key.variable, key.secret)


def keep_settings(
    file: Path,
    environment: Mapping[str, str],
    *,
    model_name: str,
    is_chosen: bool,
    time_zone: str,
    key: Key | None,
    base_url: str = "",
    fallbacks: Sequence[str] = (),
) -> None:
    """Writes what was chosen into the settings, which begin with a commented example if there are none.

    A value that stands there stays. Without `is_chosen` only the model's provider is written.

    Raises:
        ConfigError: the settings cannot be read or changed.
    """
    provider = ("models", "providers", model_name.partition("/")[0])
    wanted: list[tuple[tuple[str, ...], Any]] = [(_TIME_ZONE, time_zone)]
    wanted += [(_MODEL, model_name)] if is_chosen else []
    wanted += [((*provider, "baseUrl"), base_url), (_FALLBACKS, list(fallbacks))]
    if key is not None:
        wanted.append(((*provider, "apiKey"), key.in_settings))
    _keep_missing(file, environment, wanted)


def keep_telegram(state_dir: Path, settings: Path, environment: Mapping[str, str], token: str) -> None:
    """Keeps the token of a bot apart, and has the settings name it.

    Raises:
        ConfigError: one of both cannot be written.
    """
    keep_in_file(state_dir / ENVIRONMENT_FILE, TELEGRAM_VARIABLE, token)
    named = (("channels", "telegram", "botToken"), f"${{{TELEGRAM_VARIABLE}}}")
    _keep_missing(settings, {**environment, TELEGRAM_VARIABLE: token}, [named])


def _keep_missing(
    file: Path, environment: Mapping[str, str], wanted: Sequence[tuple[tuple[str, ...], Any]]
) -> None:
    written = settings_as_written(file)
    missing = [(path, value) for path, value in wanted if value and not at(written, path)]
    if not missing:
        return

    def change(text: str) -> str:
        text = text if text.strip() else example()
        for path, value in missing:
            text = with_value(text, path, value)
        return text

    change_file(file, environment, change)


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", errors="surrogateescape").split("\n")
