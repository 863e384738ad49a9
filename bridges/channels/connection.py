"""Shared by channels that connect: TLS, error messages, requests in flight, stopping."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

from nacre.bridges.contracts.errors import CannotConnect, NotDelivered
from nacre.closing import stop_tasks
from nacre.record import Record

CONNECT_SECONDS = 30.0
C = TypeVar("C")
T = TypeVar("T")


class Address(Record):
    """A server's address. `ca_file` names the authority that signed its certificate; empty means the
    system's.

    `setting` is the key of the address in the settings, for error messages: `channels.irc`.
    """

    host: str
    port: int
    tls: bool
    ca_file: str
    setting: str


def tls_context(ca_file: str, setting: str) -> ssl.SSLContext:
    """A TLS context that verifies the certificate and the host name.

    Raises:
        CannotConnect: the file has no certificate.
    """
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise CannotConnect(
            f"The certificate authority file in {setting}.tlsCaFile, {ca_file}, cannot be read: {error}."
        ) from error


async def connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Opens a connection, with TLS if the address asks for it.

    Raises:
        CannotConnect: the server does not answer, or its certificate is not accepted.
    """
    context = tls_context(address.ca_file, address.setting) if address.tls else None
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncio.open_connection(address.host, address.port, ssl=context)
    except OSError as error:  # includes timeouts and TLS errors
        raise CannotConnect(connect_problem(address, error)) from error


def connect_problem(address: Address, error: OSError) -> str:
    """A sentence that says why a connection failed and what to do."""
    where = f"{address.host}:{address.port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"The certificate of {where} is not accepted: {error.verify_message.rstrip('.')}. "
            f"Write the server's name in {address.setting} as its certificate does, "
            "or name the file of its certificate authority in tlsCaFile."
        )
    if isinstance(error, ssl.SSLError):
        return f"{where} does not answer with valid TLS ({error.reason}); perhaps it is a port without TLS."
    if isinstance(error, TimeoutError):
        return f"{where} did not answer within {CONNECT_SECONDS:.0f} seconds."
    why = error.strerror or str(error) or "it closed the connection; a port without TLS does that"
    return f"{where} cannot be reached: {why}."


def check_password_is_safe(address: Address) -> None:
    """Refuses to send a password without TLS to another machine.

    Raises:
        CannotConnect: others could read the password.
    """
    if not (address.tls or is_loopback(address.host)):
        raise CannotConnect(
            f"The password for {address.host} is not sent without TLS. Set {address.setting}.tls to true."
        )


def is_loopback(host: str) -> bool:
    """Whether traffic to a host never leaves this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class LiveConnection(Generic[C]):
    """A bridge's connection while there is one, and the requests that use it.

    `service` names the other side in the error for a missing connection.
    """

    def __init__(self, service: str) -> None:
        self._service = service
        self._connection: C | None = None
        self._requests: set[asyncio.Future[None]] = set()

    def open(self, connection: C) -> None:
        """Lets requests use this connection from now on."""
        self._connection = connection

    async def close(self) -> None:
        """Refuses new requests and waits for those in flight.

        If the connection closed under a request, nobody would know whether the request arrived.
        """
        self._connection = None
        if self._requests:
            await asyncio.wait(self._requests)

    @asynccontextmanager
    async def use(self) -> AsyncIterator[C]:
        """The connection, for one request. Raises `NotDelivered` when there is none."""
        if self._connection is None:
            raise NotDelivered(f"there is no connection to {self._service}")
        request: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests.add(request)
        try:
            yield self._connection
        finally:
            request.set_result(None)
            self._requests.discard(request)


async def until_stopped(stopped: asyncio.Event, *work: Coroutine[Any, Any, T]) -> T | None:
    """Runs coroutines until one of them ends or `stopped` is set, and cancels the rest.

    Returns or raises the result of the one that ended, or returns `None` if `stopped` is set.
    """
    tasks = [asyncio.create_task(each) for each in work]
    stopping = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if stopped.is_set():
            return None
        return next(task for task in tasks if task.done()).result()
    finally:
        await stop_tasks(*tasks, stopping)
