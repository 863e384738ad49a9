"""Keys that OpenClaw's sign-in left in `auth-profiles.json`, so that a moved install has them. Edge.

The file is never written. Its format is OpenClaw's: `profiles` by name, each with `type`, `provider` and
`key`, `token` or `access`; `order`, the names that count for a provider; `lastGood`, the one that worked
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
"""Below an agent's folder: where OpenClaw writes it, and where a copy by hand is likely to lie."""

_KEY_FIELDS = {"api_key": "key", "token": "token", "oauth": "access"}
"""What a key stands under, by type; the first types never end by themselves, and go before the others."""
_OTHER_NAMES = {"google": "gemini"}
_MOST_BYTES = 4 * 1024 * 1024


class AuthProfile(Record):
    """One key. `expires_ms` is milliseconds since the epoch, 0 is never; `place` says where it stands."""

    provider: str
    kind: str
    api_key: str = field(repr=False)
    expires_ms: float
    place: str


class AuthProfiles(Record):
    """The keys of one agent, in the order in which they count; `problems` says why there are none."""

    profiles: tuple[AuthProfile, ...] = ()
    problems: tuple[str, ...] = ()

    def find(self, provider: str, *, now_ms: float, with_oauth: bool = True) -> AuthProfile | None:
        """The first key of a provider that has not ended.

        Only OpenClaw can renew an OAuth token, so it serves until it ends; and it is for chats alone, so
        whoever embeds asks without it.
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
        """Whom there are keys for, each once."""
        return tuple(dict.fromkeys(profile.provider for profile in self.profiles))


def plain_provider(provider: object) -> str:
    """A provider's name in small letters, one for those that have two."""
    name = str(provider).strip().lower()
    return _OTHER_NAMES.get(name, name)


def read_auth_profiles(agent_dir: Path) -> AuthProfiles:
    """The keys below an agent's folder; none where there is no file. What cannot be read is told."""
    for name in FILE_NAMES:
        file = agent_dir / name
        try:
            facts = file.stat()
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MOST_BYTES:
                return _unread(file, "it is no plain file of at most 4 MiB")
            stored = json.loads(file.read_text(encoding="utf-8-sig"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, UnicodeDecodeError) as error:
            return _unread(file, getattr(error, "strerror", None) or "it is not UTF-8")
        except (ValueError, RecursionError):
            return _unread(file, "it is not JSON")  # the error's own words may quote a key
        if not isinstance(stored, dict) or not isinstance(stored.get("profiles"), dict):
            return _unread(file, "it has no object 'profiles'")
        return AuthProfiles(profiles=_profiles(stored, file))
    return AuthProfiles()


def _unread(file: Path, why: str) -> AuthProfiles:
    return AuthProfiles(
        problems=(
            f"{file} cannot be read: {why}. Its keys are not used; mend or move it, or set the keys in "
            "models.providers.",
        )
    )


def _profiles(stored: Mapping[str, Any], file: Path) -> tuple[AuthProfile, ...]:
    """The usable profiles, provider by provider: in the owner's order, else the last good one first."""
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
    """A profile that has a provider and a key; another program's additions are passed over."""
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
