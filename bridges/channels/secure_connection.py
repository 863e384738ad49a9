"""TCP with TLS to the server of a chat, and sentences for what goes wrong on the way. Edge."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl

from nacre.bridges.contracts.errors import CannotConnect
from nacre.record import Record

CONNECT_SECONDS = 30.0


class Address(Record):
    """Where a server is. `ca_file` names the authority of its certificate, empty for those of the system.

    `setting` is where all this stands in the settings, for sentences: `channels.irc`.
    """

    host: str
    port: int
    tls: bool
    ca_file: str
    setting: str


def tls_context(ca_file: str, setting: str) -> ssl.SSLContext:
    """TLS that checks certificate and name.

    Raises:
        CannotConnect: there is no certificate in the file.
    """
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise CannotConnect(
            f"The certificate of the authority in {setting}.tlsCaFile, {ca_file}, cannot be read: {error}."
        ) from error


async def connect(
    address: Address, *, limit: int = 2**16
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection, with TLS where the address says so.

    Raises:
        CannotConnect: nobody answers, or the certificate is not accepted.
    """
    context = tls_context(address.ca_file, address.setting) if address.tls else None
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncio.open_connection(address.host, address.port, ssl=context, limit=limit)
    except OSError as error:  # a timeout and all that TLS says are such errors too
        raise CannotConnect(connect_problem(address, error)) from error


def connect_problem(address: Address, error: OSError) -> str:
    """A sentence about an attempt to connect that failed. Pure."""
    where = f"{address.host}:{address.port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"The certificate of {where} is not accepted: {error.verify_message.rstrip('.')}. "
            f"Name the server in {address.setting} as its certificate does, "
            "or give the file of its authority in tlsCaFile."
        )
    if isinstance(error, ssl.SSLError):
        return f"{where} does not speak TLS as it should ({error.reason}). Is this the port for TLS?"
    if isinstance(error, TimeoutError):
        return f"{where} did not answer within {CONNECT_SECONDS:.0f} seconds."
    why = error.strerror or str(error) or "it hung up; a port that is not for TLS does that"
    return f"{where} cannot be reached: {why}."


def check_password_is_safe(address: Address) -> None:
    """Holds that a password may be sent.

    Raises:
        CannotConnect: others on the way could read it.
    """
    if not (address.tls or is_this_machine(address.host)):
        raise CannotConnect(
            f"The password for {address.host} is not sent without TLS. Set {address.setting}.tls to true."
        )


def is_this_machine(host: str) -> bool:
    """Whether what is sent to a host never leaves the machine. Pure."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
