"""The device that a server gave to the account, kept across starts. A contract: bytes on disk.

A server knows what was sent before by the device and the transaction's id, so that a program that sends
something a second time has to be the same device. The file holds the access token: the owner alone reads it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from nacre.record import Record

FILE = "login.json"


class Login(Record):
    """A device of an account and the token that it has."""

    user_id: str
    device_id: str
    access_token: str


def kept_login(folder: Path, user_id: str) -> Login | None:
    """What was kept for a user; `None` for nothing, or nothing that can be read: then it is made anew."""
    try:
        kept = json.loads((folder / FILE).read_text(encoding="utf-8"))
        login = Login(**kept)
    except (OSError, ValueError, TypeError):
        return None
    fits = (
        login.user_id == user_id and isinstance(login.device_id, str) and isinstance(login.access_token, str)
    )
    return login if fits else None


def keep_login(folder: Path, login: Login) -> None:
    """Keeps a login, whole or not at all."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f"{FILE}.new"
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(login), file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / FILE)
