"""The settings of `channels.email`."""

from __future__ import annotations

from nacre.bridges.channels.connection import Address
from nacre.bridges.contracts.channel import NO_SECRET, AccountSettings, Secret


class EmailSettings(AccountSettings):
    """A mailbox and the server that sends."""

    address: str
    """The assistant's address: `nacre@example.org`."""
    name: str = "Nacre"
    """The display name of the address."""
    user: str = ""
    """The login at both servers. If empty, the address is used."""
    password: Secret = NO_SECRET
    """The password at both servers."""
    imap_host: str
    """The host name of the IMAP server."""
    imap_port: int = 993
    """The port of the IMAP server. 993 is the port for TLS."""
    smtp_host: str
    """The host name of the SMTP server."""
    smtp_port: int = 465
    """The port of the SMTP server. Port 465 uses TLS from the start, all others STARTTLS."""
    tls: bool = True
    """Whether to encrypt the connections. Without TLS no password is sent to another machine."""
    tls_ca_file: str = ""
    """The file of the authority that signed the servers' certificates. If empty, the system's are used."""
    folder: str = "INBOX"
    """The folder to read."""
    auth_server: str = ""
    """The name of the mailbox's server in `Authentication-Results`, where it verifies senders:
    `mx.example.org`, `*.example.org` for several servers, or `-` for a server without a name, such as
    Microsoft 365.
    """
    trust_from: bool = False
    """Whether to believe senders without verification. Anybody can write any sender into an e-mail."""
    poll_seconds: float = 60.0
    """How often to look for new messages if the server does not announce them."""
    most_per_hour: int = 60
    """How many messages of one sender to answer in an hour, so that two programs do not loop."""
    media_max_mb: float = 20.0
    """The largest message to fetch, in megabytes."""

    @property
    def login(self) -> str:
        return self.user or self.address

    @property
    def imap(self) -> Address:
        return self._at(self.imap_host, self.imap_port)

    @property
    def smtp(self) -> Address:
        return self._at(self.smtp_host, self.smtp_port)

    def _at(self, host: str, port: int) -> Address:
        return Address(host=host, port=port, tls=self.tls, ca_file=self.tls_ca_file, setting="channels.email")
