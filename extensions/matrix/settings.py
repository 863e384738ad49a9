"""The settings of `channels.matrix`."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from nacre.bridges.channels.connection import Address
from nacre.bridges.contracts.channel import NO_SECRET, AccountSettings, Secret


class MatrixSettings(AccountSettings):
    """An account on a Matrix homeserver."""

    homeserver: str
    """The homeserver's URL: `https://matrix.example.org`."""
    user_id: str
    """The assistant's user id: `@nacre:example.org`."""
    password: Secret = NO_SECRET
    """The account's password."""
    access_token: Secret = NO_SECRET
    """An access token, instead of the password."""
    rooms: tuple[str, ...] = ()
    """The rooms to join, by id or alias: `#garden:example.org`."""
    auto_join: Literal["direct", "always", "off"] = "direct"
    """Which invitations to accept: those to private chats, all, or none."""
    media_max_mb: float = 20.0
    """The largest file to fetch, in megabytes."""
    tls_ca_file: str = ""
    """The file of the authority that signed the server's certificate. If empty, the system's are used."""

    @property
    def address(self) -> Address:
        """The homeserver's address. Raises `ValueError` if `homeserver` is not a URL."""
        parts = urlsplit(self.homeserver)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise ValueError(f"homeserver is {self.homeserver!r}; write a URL that begins with https://")
        tls = parts.scheme == "https"
        return Address(
            host=parts.hostname,
            port=parts.port or (443 if tls else 80),
            tls=tls,
            ca_file=self.tls_ca_file,
            setting="channels.matrix",
        )
