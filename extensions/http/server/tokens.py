"""The tokens of programs and browsers: a file of its own that only the owner's account can read.

It holds digests and no token: one is shown when it is made, and never again. A token is random, so that a
plain SHA-256 of it is as hard to turn back as a slow one. Edge: the file.
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
from nacre.sessions.disk.durable import read_plain, replace_file
from nacre.sessions.disk.json_text import indented_json, json_value
from nacre.sessions.disk.locks import locked

TOKENS_FILE = "tokens.json"
PREFIX = "nacre_"
"""So that a scanner of secrets knows one when it sees it."""
TOKEN_BYTES = 32
MOST_NAME_CHARS = 64


class TokensUnusable(Exception):
    """The file of tokens cannot be read or written, or what was asked of it cannot be done."""


class Tokens:
    """The tokens of a state folder. A change by another program holds at the next question."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / TOKENS_FILE
        self._seen: tuple[tuple[int, int], tuple[Token, ...]] | None = None

    def list(self) -> tuple[Token, ...]:
        """All of them by name. Raises `TokensUnusable`."""
        try:
            facts = self.path.stat()
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise TokensUnusable(f"The tokens in {self.path} cannot be read: {error}.") from error
        mark = (facts.st_mtime_ns, facts.st_size)
        if self._seen is None or self._seen[0] != mark:
            self._seen = mark, self._read()
        return self._seen[1]

    def holder_of(self, shown: str) -> Token | None:
        """Whose token this is; `None` for one that is not known. Raises `TokensUnusable`."""
        digest = digest_of(shown).encode()
        found = None
        for token in self.list():  # all of them: how long it takes tells nothing
            if hmac.compare_digest(token.digest.encode(), digest):
                found = token
        return found

    def add(self, name: str, *, agent_id: str, is_owner: bool, now: datetime) -> str:
        """Makes a token and gives it, this once. Raises `TokensUnusable` for a name that is taken or odd."""
        if not name.strip() or len(name) > MOST_NAME_CHARS or not name.isprintable():
            raise TokensUnusable(
                f"A token's name has 1 to {MOST_NAME_CHARS} characters on one line, and {name!r} has not."
            )
        shown = PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        token = Token(
            name=name,
            agent_id=agent_id,
            is_owner=is_owner,
            digest=digest_of(shown),
            created_at=now.isoformat(timespec="seconds"),
        )

        def added(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
            if any(each.name == name for each in tokens):
                raise TokensUnusable(
                    f"There is a token {name!r} already. Choose another name, or revoke that one."
                )
            return tuple(sorted((*tokens, token), key=lambda each: each.name))

        self._change(added)
        return shown

    def revoke(self, name: str) -> None:
        """Takes a token away. Raises `TokensUnusable` when there is none of that name."""

        def without(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
            if all(each.name != name for each in tokens):
                raise TokensUnusable(f"There is no token {name!r}; `nacre token list` names those that are.")
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
            return tuple(_token(item) for item in json_value(found[0])["tokens"])
        except (ValueError, KeyError, TypeError) as error:
            raise TokensUnusable(
                f"The tokens in {self.path} cannot be understood ({error}). Mend the file, or move it away "
                "and make the tokens anew."
            ) from error

    def _change(self, change: Callable[[tuple[Token, ...]], tuple[Token, ...]]) -> None:
        try:
            with locked(self.path):
                tokens = change(self._read())
                replace_file(self.path, indented_json({"tokens": [asdict(token) for token in tokens]}))
        except (SessionError, OSError) as error:
            raise TokensUnusable(f"The tokens in {self.path} cannot be written: {error}.") from error
        self._seen = None


def digest_of(shown: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()


def _token(item: Any) -> Token:
    token = Token(**item)
    texts = (token.name, token.agent_id, token.digest, token.created_at)
    if not all(isinstance(text, str) for text in texts) or not isinstance(token.is_owner, bool):
        raise ValueError("a value has the wrong kind")
    return token
