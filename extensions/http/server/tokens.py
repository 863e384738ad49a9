"""The tokens of programs and browsers, in a file that only the owner's account can read.

The file holds digests only: a token is shown once, when it is created. A token is random, so a plain SHA-256
digest of it is as hard to invert as a slow hash.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from nacre.runtime.extensions.service import Token
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.disk.durable import locked, read_plain, replace_file
from nacre.sessions.disk.json_text import indented_json, json_value

TOKENS_FILE = "tokens.json"
PREFIX = "nacre_"
"""Lets secret scanners recognize a token."""
TOKEN_BYTES = 32
MOST_NAME_CHARS = 64


class TokensUnusable(Exception):
    """The tokens cannot be read or written, or the request cannot be carried out."""


class Tokens:
    """The tokens of a state folder. A change by another program takes effect at the next call."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / TOKENS_FILE
        self._cached: tuple[tuple[int, int], tuple[Token, ...]] | None = None

    def list(self) -> tuple[Token, ...]:
        """All tokens by name. Raises `TokensUnusable`."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise TokensUnusable(f"The tokens in {self.path} cannot be read: {error}.") from error
        stamp = (status.st_mtime_ns, status.st_size)
        if self._cached is None or self._cached[0] != stamp:
            self._cached = stamp, self._read()
        return self._cached[1]

    def holder_of(self, text: str, *, is_admin: bool = False) -> Token | None:
        """The token with this text, of an agent or `is_admin`; `None` if there is none. Raises
        `TokensUnusable`.
        """
        digest = digest_of(text).encode()
        found = None
        for token in self.list():  # compare with every token, so that the time reveals nothing
            if hmac.compare_digest(token.digest.encode(), digest):
                found = token
        return found if found is not None and found.is_admin == is_admin else None

    def add(self, name: str, *, agent_id: str, is_owner: bool, now: datetime, is_admin: bool = False) -> str:
        """Creates a token and returns its text. Raises `TokensUnusable` if the name is taken or not valid."""
        if not name.strip() or len(name) > MOST_NAME_CHARS or not name.isprintable():
            raise TokensUnusable(
                f"A token's name must have 1 to {MOST_NAME_CHARS} printable characters, unlike {name!r}."
            )
        text = PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        token = Token(
            name=name,
            agent_id=agent_id,
            is_owner=is_owner,
            digest=digest_of(text),
            created_at=now.isoformat(timespec="seconds"),
            is_admin=is_admin,
        )

        def added(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
            if any(each.name == name for each in tokens):
                raise TokensUnusable(
                    f"A token {name!r} already exists. Choose another name, or revoke that one."
                )
            return tuple(sorted((*tokens, token), key=lambda each: each.name))

        self._change(added)
        return text

    def revoke(self, name: str) -> None:
        """Removes a token. Raises `TokensUnusable` if there is none with that name."""

        def without(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
            if all(each.name != name for each in tokens):
                raise TokensUnusable(
                    f"There is no token {name!r}. `nacre admin access token list` shows the existing ones."
                )
            return tuple(each for each in tokens if each.name != name)

        self._change(without)

    def _read(self) -> tuple[Token, ...]:
        try:
            found = read_plain(self.path)
        except SessionError as error:
            raise TokensUnusable(str(error)) from error
        if found is None:
            return ()
        try:
            return tuple(_parse_token(item) for item in json_value(found[0])["tokens"])
        except (ValueError, KeyError, TypeError) as error:
            raise TokensUnusable(
                f"The tokens in {self.path} are not valid ({error}). Repair the file, or move it away "
                "and create the tokens again."
            ) from error

    def _change(self, change: Callable[[tuple[Token, ...]], tuple[Token, ...]]) -> None:
        try:
            with locked(self.path):
                tokens = change(self._read())
                replace_file(self.path, indented_json({"tokens": [*map(_token_json, tokens)]}))
        except (SessionError, OSError) as error:
            raise TokensUnusable(f"The tokens in {self.path} cannot be written: {error}.") from error
        self._cached = None


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _token_json(token: Token) -> dict[str, Any]:
    """A program of an older version knows no `is_admin`, and refuses a file that has it."""
    stored = asdict(token)
    return stored if token.is_admin else {name: value for name, value in stored.items() if name != "is_admin"}


def _parse_token(item: Any) -> Token:
    token = Token(**item)
    strings = (token.name, token.agent_id, token.digest, token.created_at)
    if not all(isinstance(each, str) for each in strings) or not all(
        isinstance(each, bool) for each in (token.is_owner, token.is_admin)
    ):
        raise ValueError("a value has the wrong type")
    return token
