"""The settings of `channels.irc`."""

from __future__ import annotations

from nacre.bridges.channels.connection import Address
from nacre.bridges.contracts.channel import NO_SECRET, AccountSettings, Secret


class IrcSettings(AccountSettings):
    """An account on an IRC network."""

    host: str
    """The server's host name."""
    port: int = 6697
    """The server's port. 6697 is the port for TLS."""
    tls: bool = True
    """Whether to encrypt the connection. Without TLS no password is sent to another machine."""
    tls_ca_file: str = ""
    """The file of the authority that signed the server's certificate. If empty, the system's are used."""
    nick: str
    """The assistant's nick. If it is taken, `_` is appended."""
    real_name: str = "Nacre"
    """The name that the network shows beside the nick."""
    sasl_account: str = ""
    """The account to log in to. If empty, the nick is used."""
    sasl_password: Secret = NO_SECRET
    """The account's password. If empty, the assistant does not log in."""
    server_password: Secret = NO_SECRET
    """The password that some servers require from everybody."""
    join: tuple[str, ...] = ()
    """The channels to join."""
    lines_per_second: float = 1.0
    """How fast to send lines. The first five lines of an answer are sent at once."""

    @property
    def address(self) -> Address:
        return Address(
            host=self.host, port=self.port, tls=self.tls, ca_file=self.tls_ca_file, setting="channels.irc"
        )
