"""`channels.matrix`: the account, and the rooms that it is in."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from nacre.bridges.channels.secure_connection import Address
from nacre.bridges.contracts.channel import NO_SECRET, AccountSettings, Secret


class MatrixSettings(AccountSettings):
    """An account on a Matrix homeserver."""

    homeserver: str
    """The homeserver's address: `https://matrix.example.org`."""
    user_id: str
    """The assistant's id: `@nacre:example.org`."""
    password: Secret = NO_SECRET
    """The account's password."""
    access_token: Secret = NO_SECRET
    """An access token in place of the password."""
    rooms: tuple[str, ...] = ()
    """The rooms to join, by id or alias: `#garden:example.org`."""
    auto_join: Literal["direct", "always", "off"] = "direct"
    """Which invitations are accepted: those to private chats, all, or none."""
    media_max_mb: float = 20.0
    """The largest file that is fetched."""
    tls_ca_file: str = ""
    """A file with the certificate of the authority that signed the server's; empty is those of the system."""

    @property
    def address(self) -> Address:
        """Where the server is. Raises `ValueError` when the address is none."""
        parts = urlsplit(self.homeserver)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise ValueError(f"homeserver is {self.homeserver!r}; an address begins with https://")
        tls = parts.scheme == "https"
        return Address(
            host=parts.hostname,
            port=parts.port or (443 if tls else 80),
            tls=tls,
            ca_file=self.tls_ca_file,
            setting="channels.matrix",
        )
