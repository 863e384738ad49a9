"""`channels.email`: the mailbox, the server that sends, and whose word counts."""

from __future__ import annotations

from nacre.bridges.channels.secure_connection import Address
from nacre.bridges.contracts.channel import NO_SECRET, AccountSettings, Secret


class EmailSettings(AccountSettings):
    """An account for e-mail."""

    address: str
    """The assistant's address: `nacre@example.org`."""
    name: str = "Nacre"
    """The name beside it."""
    user: str = ""
    """The login at both servers; empty is the address."""
    password: Secret = NO_SECRET
    """Its password, at both servers."""
    imap_host: str
    """The server with the mailbox."""
    imap_port: int = 993
    """Its port; 993 is the one for TLS."""
    smtp_host: str
    """The server that sends."""
    smtp_port: int = 465
    """Its port: 465 speaks TLS at once, any other after STARTTLS."""
    tls: bool = True
    """Whether the connections are encrypted. Without it no password is sent to another machine."""
    tls_ca_file: str = ""
    """A file with the certificate of the authority that signed the servers'; empty is those of the system."""
    folder: str = "INBOX"
    """The folder that is read."""
    auth_server: str = ""
    """What the mailbox's server calls itself in `Authentication-Results`, where it says who wrote:
    `mx.example.org`; `*.example.org` for several servers; `-` for one without a name, as Microsoft 365."""
    trust_from: bool = False
    """Whether senders are believed without that. Anybody can write any sender into a message."""
    poll_seconds: float = 60.0
    """How often is looked for news where the server does not say it by itself."""
    most_per_hour: int = 60
    """How many messages of one sender are answered in an hour: two programs have no end."""
    media_max_mb: float = 20.0
    """The largest message that is fetched."""

    @property
    def login(self) -> str:
        """The login at both servers."""
        return self.user or self.address

    @property
    def imap(self) -> Address:
        """Where the mailbox is."""
        return self._at(self.imap_host, self.imap_port)

    @property
    def smtp(self) -> Address:
        """Where messages are handed in."""
        return self._at(self.smtp_host, self.smtp_port)

    def _at(self, host: str, port: int) -> Address:
        return Address(host=host, port=port, tls=self.tls, ca_file=self.tls_ca_file, setting="channels.email")
