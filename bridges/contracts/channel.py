"""What a channel is: its settings, and how an account of it becomes a bridge. A public contract.

    class HonkSettings(AccountSettings):
        server: str
        password: Secret = NO_SECRET

    CHANNEL = Channel(name="honk", settings=HonkSettings, make=make)

The module with this is light: `make` imports the module with the bridge, and that the channel's library.
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
    """The text of a key file for `{file: "…"}`; anything else as it is. Pydantic words what it raises."""
    if not isinstance(value, Mapping):
        return value
    if set(value) != {"file"} or not isinstance(value["file"], str) or not value["file"].strip():
        raise ValueError('a secret is a text, "${NAME}" from the environment, or {file: "path"}')
    folders: Mapping[str, Path] = info.context or {}
    text = value["file"].strip()
    first, _, rest = text.partition("/")
    home = folders.get("home")
    file = home / rest if first == "~" and home is not None else folders.get("state", Path()) / text
    try:
        secret = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ValueError(f"the key file {file} cannot be read: {why}") from error
    if not secret:
        raise ValueError(f"the key file {file} is empty")
    return secret


Secret: TypeAlias = Annotated[SecretStr, BeforeValidator(_from_file)]
"""A password or token: a text, `${NAME}` from the environment, or `{file: "path"}` of a file with it alone,
relative to the state folder. It shows as stars; `get_secret_value()` gives it."""
NO_SECRET = SecretStr("")


class AccountSettings(SettingsSection):
    """The keys that a channel reads of `channels.<name>`, with those of an account laid over them.

    Fields are written in camel case there. Keys that it does not know are told to the owner. What
    `AccountRules` (`runtime/settings/sections/channels.py`) says of who may speak is not its affair.
    """


def secrets_of(settings: AccountSettings) -> tuple[str, ...]:
    """The passwords and tokens of an account."""
    found = (value.get_secret_value() for _, value in settings if isinstance(value, SecretStr))
    return tuple(secret for secret in found if secret)


S = TypeVar("S", bound=AccountSettings)


@dataclass(frozen=True, kw_only=True)
class AccountHome:
    """What an account's bridge is made with, beside its settings.

    `folder` is a private folder of its own for what its library keeps, which the bridge makes if it needs it.
    """

    account: str
    folder: Path
    now: Clock


@dataclass(frozen=True, kw_only=True)
class Channel(Generic[S]):
    """A channel that the settings can name.

    `make` gives a bridge that has connected to nothing yet; its `channel` is `name`, its `account` that of
    the home. Whatever it raises as a `ValueError` is told to the owner as a sentence.

    Raises:
        ValueError: the name cannot stand in session keys.
    """

    name: str
    settings: type[S]
    make: Callable[[AccountHome, S], Bridge]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"a channel cannot be named {self.name!r}; use a-z, 0-9, '_' and '-'")

    def read(self, written: Mapping[str, Any], folders: Mapping[str, Path]) -> S:
        """The settings of one account, from its keys. `folders`: `home` and `state`, for key files.

        Raises:
            ChannelUnusable: they do not fit; the text says which keys, and no value: it may be a secret.
        """
        try:
            return self.settings.model_validate(dict(written), context=dict(folders))
        except ValidationError as error:
            found: list[Mapping[str, Any]] = list(error.errors(include_input=False, include_url=False))
            text = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found)
            raise ChannelUnusable(text) from None
