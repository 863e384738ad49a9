"""The connection to an XMPP server, from the login on, and requests to archives (XEP-0313).

Each room has an archive, named by its address. The account's own archive has an empty name. Archives return
stanzas with a `mam_result`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from slixmpp import JID, ClientXMPP
from slixmpp.exceptions import IqError, IqTimeout

from nacre.bridges.channels.connection import (
    Address,
    check_password_is_safe,
    connect_problem,
    tls_context,
)
from nacre.bridges.channels.messages import FIRST_LOOK_BACK
from nacre.bridges.contracts.errors import CannotConnect
from nacre.extensions.xmpp.settings import XmppSettings

log = logging.getLogger(__name__)

LOGIN_SECONDS = 60.0
CLOSE_SECONDS = 3.0
PING_SECONDS = 30.0
T = TypeVar("T")
_PLUGINS = ("xep_0045", "xep_0059", "xep_0085", "xep_0199", "xep_0308", "xep_0313", "xep_0334", "xep_0359")

ANSWER_SECONDS = 30.0
FORGOTTEN_LOOK_BACK = timedelta(days=1)
"""How far back an archive is read if it no longer knows the cursor."""
PAGE = 50


class XmppClient:
    """A connection. `ended` is done, with a reason, when the connection is over."""

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
        for event, handler in (
            ("session_start", self._on_start),
            ("connection_failed", self._on_failure),
            ("failed_all_auth", self._on_refusal),
            ("ssl_invalid_chain", self._on_failure),
            ("disconnected", self._on_end),
        ):
            self.stream.add_event_handler(event, handler)

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
            raise CannotConnect(
                f"{self._address.host} did not log in {settings.jid} within {LOGIN_SECONDS:.0f} seconds."
            ) from None

    async def while_connected(self, request: Awaitable[T]) -> T:
        """Waits for an answer while the connection lasts. Raises `ConnectionError` when it ends."""
        task = asyncio.ensure_future(request)
        waiting: set[asyncio.Future[Any]] = {task, self.ended}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        raise ConnectionError(await self.ended)

    async def ping(self) -> None:
        """Waits until the server has processed what was sent before."""
        domain = JID(self.stream.boundjid.domain)
        await self.stream.plugin["xep_0199"].send_ping(domain, timeout=PING_SECONDS)

    async def close(self) -> None:
        """Closes the connection. Safe to repeat."""
        if self._is_closed:
            return
        self._is_closed = True
        self.stream.cancel_connection_attempt()
        if self.stream.is_connected():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.stream.disconnect(wait=1.0)
        self.stream.abort()
        self._on_end("")

    def _on_start(self, _event: Any) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def _on_failure(self, error: Any) -> None:
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLCertVerificationError):
            return  # a port for STARTTLS, which is tried next, answers direct TLS like this
        if isinstance(error, OSError):
            self._fail(connect_problem(self._address, error))
        else:
            self._fail(f"{self._address.host} cannot be reached: {error}.")

    def _on_refusal(self, _event: Any) -> None:
        self._fail(
            f"{self._address.host} refuses the password of {self._settings.jid} (channels.xmpp.password)."
        )

    def _on_end(self, why: Any) -> None:
        if isinstance(why, OSError):
            self._on_failure(why)
        self._fail(f"{self._address.host} closed the connection during the login: {why}")
        if not self.ended.done():
            self.ended.set_result(f"{self._address.host} closed the connection{f': {why}' if why else ''}")

    def _fail(self, sentence: str) -> None:
        self.stream.cancel_connection_attempt()
        if not self._ready.done():
            self._ready.set_exception(CannotConnect(sentence))
            self._ready.exception()  # nobody may be waiting any more


async def archived_since(
    client: XmppClient, archive: str, *, after: str, now: datetime
) -> AsyncIterator[Any]:
    """The messages of an archive after an id, the oldest first."""
    start = None if after else now - FIRST_LOOK_BACK
    while True:
        try:
            page, last, is_last = await _page(
                client, archive, start=start, rsm={"after": after} if after else {}
            )
        except IqError as error:
            if not after or error.condition != "item-not-found":
                log.warning("the archive of %s does not answer: %s", archive or "the account", error)
                return
            after, start = "", now - FORGOTTEN_LOOK_BACK
            continue
        for result in page:
            yield result
        if is_last or not last:
            return
        after, start = last, None


async def newest_first(client: XmppClient, archive: str, *, with_jid: str) -> AsyncIterator[Any]:
    """The messages of a chat in an archive, the newest first."""
    results = client.stream.plugin["xep_0313"].iterate(
        jid=JID(archive) if archive else None,
        with_jid=JID(with_jid) if with_jid else None,
        reverse=True,
        rsm={"max": PAGE},
    )
    while (result := await client.while_connected(anext(results, None))) is not None:
        if result["from"].bare in _own(client, archive):
            yield result


async def has_archive(client: XmppClient, jid: str) -> bool:
    """Whether an account or a room keeps an archive."""
    request = client.stream.plugin["xep_0030"].get_info(jid=JID(jid), timeout=ANSWER_SECONDS)
    try:
        info = await client.while_connected(request)
    except (IqError, IqTimeout):
        return False
    return "urn:xmpp:mam:2" in info["disco_info"]["features"]


async def _page(
    client: XmppClient,
    archive: str,
    *,
    rsm: dict[str, str],
    start: datetime | None = None,
) -> tuple[list[Any], str, bool]:
    """One page: its messages, the id to continue after, and whether it is the last one."""
    found: list[Any] = []
    request = client.stream.plugin["xep_0313"].retrieve(
        jid=JID(archive) if archive else None,
        start=start,
        rsm={"max": PAGE, **rsm},
        callback=lambda iq: found.extend(iq["mam"]["results"]),
        timeout=ANSWER_SECONDS,
    )
    answer = await client.while_connected(request)
    page = [result for result in found if result["from"].bare in _own(client, archive)]
    fin = answer["mam_fin"]
    return page, fin["rsm"]["last"] or "", fin.xml.get("complete") == "true" or not found


def _own(client: XmppClient, archive: str) -> set[str]:
    """The addresses that may answer for an archive. Anybody who guesses a request's id could send a false
    answer.
    """
    return {archive} if archive else {"", client.stream.boundjid.bare}
