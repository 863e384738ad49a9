"""One connection to an XMPP server that is logged in, or a sentence why there is none. Edge to slixmpp."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable
from typing import Any, TypeVar

from slixmpp import JID, ClientXMPP

from nacre.bridges.channels.secure_connection import (
    Address,
    check_password_is_safe,
    connect_problem,
    tls_context,
)
from nacre.bridges.contracts.errors import CannotConnect
from nacre.extensions.xmpp.settings import XmppSettings

log = logging.getLogger(__name__)

LOGIN_SECONDS = 60.0
CLOSE_SECONDS = 3.0
PING_SECONDS = 30.0
T = TypeVar("T")
_PLUGINS = ("xep_0045", "xep_0059", "xep_0085", "xep_0199", "xep_0308", "xep_0313", "xep_0334", "xep_0359")


class XmppClient:
    """A connection. `ended` is done when it is over."""

    def __init__(self, settings: XmppSettings) -> None:
        self._settings = settings
        host = settings.host or settings.jid.rpartition("@")[2].partition("/")[0]
        self._address = Address(
            host=host,
            port=settings.port,
            tls=settings.tls,
            ca_file=settings.tls_ca_file,
            setting="channels.xmpp",
        )
        self.stream = ClientXMPP(settings.jid, settings.password.get_secret_value())
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_closed = False
        for name in _PLUGINS:
            self.stream.register_plugin(name)
        self.stream.auto_subscribe = False
        for event, act in (
            ("session_start", self._started),
            ("connection_failed", self._unreachable),
            ("failed_all_auth", self._refused),
            ("ssl_invalid_chain", self._unreachable),
            ("disconnected", self._over),
        ):
            self.stream.add_event_handler(event, act)

    async def log_in(self) -> None:
        """Connects and logs in. Raises `CannotConnect`."""
        check_password_is_safe(self._address)
        stream, settings = self.stream, self._settings
        stream.ssl_context = tls_context(settings.tls_ca_file, "channels.xmpp")
        stream.enable_starttls = stream.enable_direct_tls = settings.tls
        stream.enable_plaintext = not settings.tls
        if not settings.tls:
            stream.plugin["feature_mechanisms"].config.update(unencrypted_plain=True, unencrypted_scram=True)
        stream.connect(*((settings.host, settings.port) if settings.host else ()))
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                await self._ready
        except TimeoutError:
            raise CannotConnect(f"{self._address.host} did not log in {settings.jid} in time.") from None

    async def unless_over(self, work: Awaitable[T]) -> T:
        """Waits for an answer, but no longer than there is a connection. Raises `ConnectionError`."""
        task = asyncio.ensure_future(work)
        ends: set[asyncio.Future[Any]] = {task, self.ended}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        raise ConnectionError(await self.ended)

    async def ping(self) -> None:
        """Waits until the server has gone through what was sent before."""
        domain = JID(self.stream.boundjid.domain)
        await self.stream.plugin["xep_0199"].send_ping(domain, timeout=PING_SECONDS)

    async def close(self) -> None:
        """Hangs up. Safe to repeat."""
        if self._is_closed:
            return
        self._is_closed = True
        self.stream.cancel_connection_attempt()
        if self.stream.is_connected():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.stream.disconnect(wait=1.0)
        self.stream.abort()
        self._over("")

    def _started(self, _event: Any) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def _unreachable(self, error: Any) -> None:
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLCertVerificationError):
            return  # a port for STARTTLS, which is tried next, answers a direct TLS like this
        if isinstance(error, OSError):
            self._fail(connect_problem(self._address, error))
        else:
            self._fail(f"{self._address.host} cannot be reached: {error}.")

    def _refused(self, _event: Any) -> None:
        self._fail(
            f"{self._address.host} refuses the password of {self._settings.jid} (channels.xmpp.password)."
        )

    def _over(self, why: Any) -> None:
        if isinstance(why, OSError):
            self._unreachable(why)
        self._fail(f"{self._address.host} hung up before the login was done: {why}")
        if not self.ended.done():
            self.ended.set_result(f"{self._address.host} hung up{f': {why}' if why else ''}")

    def _fail(self, sentence: str) -> None:
        self.stream.cancel_connection_attempt()
        if not self._ready.done():
            self._ready.set_exception(CannotConnect(sentence))
            self._ready.exception()  # it may be that nobody waits any more
