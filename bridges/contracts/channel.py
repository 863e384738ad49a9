"""The contract of a channel: its settings, and how an account becomes a bridge. It is public.

    class HonkSettings(AccountSettings):
        server: str
        password: Secret = NO_SECRET

    CHANNEL = Channel(name="honk", settings=HonkSettings, make=make)

The module with the channel should import quickly: `make` imports the module with the bridge and its library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

from pydantic import BeforeValidator, SecretStr, ValidationError, ValidationInfo

from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.errors import ChannelUnusable
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.settings.sections.section import SettingsSection

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


def _from_file(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, Mapping):
        return value
    if set(value) != {"file"} or not isinstance(value["file"], str) or not value["file"].strip():
        raise ValueError('a secret is a string, "${NAME}" from the environment, or {file: "path"}')
    folders: Mapping[str, Path] = info.context or {}
    text = value["file"].strip()
    first, _, rest = text.partition("/")
    home = folders.get("home")
    file = home / rest if first == "~" and home is not None else folders.get("state", Path()) / text
    try:
        secret = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not valid UTF-8"
        raise ValueError(f"the key file {file} cannot be read: {why}") from error
    if not secret:
        raise ValueError(f"the key file {file} is empty")
    return secret


Secret: TypeAlias = Annotated[SecretStr, BeforeValidator(_from_file)]
"""A password or token: a string, `${NAME}` from the environment, or `{file: "path"}` of a file with
nothing else, relative to the state folder. It prints as stars; `get_secret_value()` returns it.
"""
NO_SECRET = SecretStr("")


class AccountSettings(SettingsSection):
    """The settings of a channel's account: the keys of `channels.<name>` with those of the account over them.

    In the settings, keys are written in camel case. Unknown keys are reported to the owner. The keys of
    `AccountRules` (`runtime/settings/sections/channels.py`) about who may speak are not part of it.
    """


def secrets_of(settings: AccountSettings) -> tuple[str, ...]:
    """The passwords and tokens of an account."""
    found = (value.get_secret_value() for _, value in settings if isinstance(value, SecretStr))
    return tuple(secret for secret in found if secret)


S = TypeVar("S", bound=AccountSettings)


@dataclass(frozen=True, kw_only=True)
class AccountHome:
    """What an account's bridge gets besides its settings.

    `folder` is a private folder for what its library stores. The bridge creates it if needed.
    """

    account: str
    folder: Path
    now: Clock


@dataclass(frozen=True, kw_only=True)
class Channel(Generic[S]):
    """A channel that the settings can name.

    `make` creates a bridge that has not connected yet. Its `channel` is `name`, and its `account` that of the
    home. The text of a `ValueError` from `make` is shown to the owner.

    Raises:
        ValueError: the name cannot be part of session keys.
    """

    name: str
    settings: type[S]
    make: Callable[[AccountHome, S], Bridge]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"a channel's name cannot be {self.name!r}; use a-z, 0-9, '_' and '-'")

    def read(self, written: Mapping[str, Any], folders: Mapping[str, Path]) -> S:
        """The settings of one account. `folders` has `home` and `state`, for key files.

        Raises:
            ChannelUnusable: they are invalid. The text names the keys but no values, which may be secrets.
        """
        try:
            return self.settings.model_validate(dict(written), context=dict(folders))
        except ValidationError as error:
            found: list[Mapping[str, Any]] = list(error.errors(include_input=False, include_url=False))
            text = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found)
            raise ChannelUnusable(text) from None
