"""`channels.irc`: which server, as whom, and where."""

from __future__ import annotations

from nacre.bridges.channels.secure_connection import Address
from nacre.bridges.contracts.channel import NO_SECRET, AccountSettings, Secret


class IrcSettings(AccountSettings):
    """An account on an IRC network."""

    host: str
    """The server."""
    port: int = 6697
    """Its port; 6697 is the one for TLS."""
    tls: bool = True
    """Whether the connection is encrypted. Without it no password is sent to another machine."""
    tls_ca_file: str = ""
    """A file with the certificate of the authority that signed the server's; empty is those of the system."""
    nick: str
    """The assistant's nick. If it is taken, `_` is added until it is free."""
    real_name: str = "Nacre"
    """What the network shows beside the nick."""
    sasl_account: str = ""
    """The account to log in to; empty is the nick."""
    sasl_password: Secret = NO_SECRET
    """The account's password; empty is no login."""
    server_password: Secret = NO_SECRET
    """The password that some servers want of everybody."""
    join: tuple[str, ...] = ()
    """The channels to join."""
    lines_per_second: float = 1.0
    """How fast lines are sent; the first five of an answer go at once."""

    @property
    def address(self) -> Address:
        """Where the server is."""
        return Address(
            host=self.host, port=self.port, tls=self.tls, ca_file=self.tls_ca_file, setting="channels.irc"
        )
