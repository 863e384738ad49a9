"""The settings of `channels.xmpp`."""

from __future__ import annotations

from nacre.bridges.contracts.channel import NO_SECRET, AccountSettings, Secret


class XmppSettings(AccountSettings):
    """An account on an XMPP server."""

    jid: str
    """The assistant's address: `nacre@example.org`."""
    password: Secret = NO_SECRET
    """The account's password."""
    host: str = ""
    """The server's host name. If empty, it is looked up from the address."""
    port: int = 5222
    """The server's port. Used only together with `host`."""
    tls: bool = True
    """Whether to encrypt the connection. Without TLS no password is sent to another machine."""
    tls_ca_file: str = ""
    """The file of the authority that signed the server's certificate. If empty, the system's are used."""
    rooms: tuple[str, ...] = ()
    """The addresses of the rooms to join: `garden@conference.example.org`."""
    nick: str = "Nacre"
    """The assistant's nick in rooms."""
