"""`channels.xmpp`: the account and its rooms."""

from __future__ import annotations

from nacre.bridges.contracts.channel import NO_SECRET, AccountSettings, Secret


class XmppSettings(AccountSettings):
    """An account on an XMPP server."""

    jid: str
    """The assistant's address: `nacre@example.org`."""
    password: Secret = NO_SECRET
    host: str = ""
    """The server, if it is not the one that the address leads to."""
    port: int = 5222
    """Its port; only with `host`."""
    tls: bool = True
    """Whether the connection is encrypted. Without it no password is sent to another machine."""
    tls_ca_file: str = ""
    """A file with the certificate of the authority that signed the server's; empty is those of the system."""
    rooms: tuple[str, ...] = ()
    """The addresses of the rooms to join: `garden@conference.example.org`."""
    nick: str = "Nacre"
    """The assistant's name in rooms."""
