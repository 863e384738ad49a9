"""Keys that OpenClaw's sign-in left in `auth-profiles.json`, so that a migrated installation has them.

The file is never written. Its format is OpenClaw's: `profiles` by name, each with `type`, `provider` and
`key`, `token` or `access`; `order`, the names to use for a provider; `lastGood`, the name that worked
last.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from nacre.record import Record

FILE_NAMES = ("agent/auth-profiles.json", "auth-profiles.json")
"""Below an agent's folder: OpenClaw's path, and the likely path of a manual copy."""

_KEY_FIELDS = {"api_key": "key", "token": "token", "oauth": "access"}
"""The field with the key, by type. The first types never expire, and precede the others."""
_OTHER_NAMES = {"google": "gemini"}
_MOST_BYTES = 4 * 1024 * 1024


class AuthProfile(Record):
    """One key. `expires_ms` is in epoch milliseconds, 0 for never; `place` says where it is stored."""

    provider: str
    kind: str
    api_key: str = field(repr=False)
    expires_ms: float
    place: str


class AuthProfiles(Record):
    """The keys of one agent in order of preference; `problems` says why there are none."""

    profiles: tuple[AuthProfile, ...] = ()
    problems: tuple[str, ...] = ()

    def find(self, provider: str, *, now_ms: float, with_oauth: bool = True) -> AuthProfile | None:
        """The first unexpired key of a provider.

        Only OpenClaw can renew an OAuth token, so it serves until it expires; and it is for chats only, so
        embedders ask without it.
        """
        wanted = plain_provider(provider)
        return next(
            (
                profile
                for profile in self.profiles
                if profile.provider == wanted
                and (with_oauth or profile.kind != "oauth")
                and (not profile.expires_ms or now_ms < profile.expires_ms)
            ),
            None,
        )

    @property
    def providers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(profile.provider for profile in self.profiles))


def plain_provider(provider: object) -> str:
    """A provider's name in lower case, without aliases."""
    name = str(provider).strip().lower()
    return _OTHER_NAMES.get(name, name)


def read_auth_profiles(agent_dir: Path) -> AuthProfiles:
    """The keys below an agent's folder; none if there is no file. Problems are reported in the result."""
    for name in FILE_NAMES:
        file = agent_dir / name
        try:
            facts = file.stat()
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MOST_BYTES:
                return _unread(file, "it is not a plain file of at most 4 MiB")
            stored = json.loads(file.read_text(encoding="utf-8-sig"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, UnicodeDecodeError) as error:
            return _unread(file, getattr(error, "strerror", None) or "it is not UTF-8")
        except (ValueError, RecursionError):
            return _unread(file, "it is not JSON")  # the message of the error may quote a key
        if not isinstance(stored, dict) or not isinstance(stored.get("profiles"), dict):
            return _unread(file, "it has no object 'profiles'")
        return AuthProfiles(profiles=_profiles(stored, file))
    return AuthProfiles()


def _unread(file: Path, why: str) -> AuthProfiles:
    return AuthProfiles(
        problems=(
            f"{file} cannot be read: {why}. Its keys are not used; repair or move it, or set the keys in "
            "models.providers.",
        )
    )


def _profiles(stored: Mapping[str, Any], file: Path) -> tuple[AuthProfile, ...]:
    """The usable profiles by provider: in the owner's order, otherwise the last good one first."""
    found = {
        name: profile
        for name, entry in stored["profiles"].items()
        if (profile := _profile(name, entry, file)) is not None
    }
    order = {plain_provider(provider): names for provider, names in _object(stored.get("order")).items()}
    last_good = {plain_provider(provider): name for provider, name in _object(stored.get("lastGood")).items()}
    kept: list[AuthProfile] = []
    for provider in dict.fromkeys(profile.provider for profile in found.values()):
        own = {name: profile for name, profile in found.items() if profile.provider == provider}
        kept += [own[name] for name in _in_order(own, order.get(provider), last_good.get(provider))]
    return tuple(kept)


def _in_order(own: Mapping[str, AuthProfile], order: object, last_good: object) -> Sequence[str]:
    if isinstance(order, list) and order:
        return [name for name in dict.fromkeys(map(str, order)) if name in own]
    kinds = list(_KEY_FIELDS)
    return sorted(own, key=lambda name: (name != last_good, kinds.index(own[name].kind)))


def _profile(name: str, entry: object, file: Path) -> AuthProfile | None:
    """A profile with a provider and a key; `None` for any other entry."""
    facts = _object(entry)
    kind, provider = facts.get("type"), facts.get("provider")
    key = facts.get(_KEY_FIELDS.get(str(kind), ""))
    if not isinstance(provider, str) or not isinstance(key, str) or not key.strip():
        return None
    expires = facts.get("expires")
    return AuthProfile(
        provider=plain_provider(provider),
        kind=str(kind),
        api_key=key.strip(),
        expires_ms=max(0, expires) if isinstance(expires, int | float) else 0,
        place=f"the profile {name!r} in {file}",
    )


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
