"""`EmailBridge`: the assistant by e-mail.

The cursor is the number of the last message that is on disk, and what the server counts by. Nobody can be
asked what a server sent on, so a message of which nobody knows is sent again with a mark, under the same id.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

from nacre.bridges.contracts.bridge import Bridge, Capabilities, Door, Part
from nacre.bridges.contracts.errors import CannotConnect, DeliveryRefused, NotDelivered
from nacre.extensions.email.composing import composed, recipients
from nacre.extensions.email.loops import LoopGuard
from nacre.extensions.email.mailbox import Mailbox
from nacre.extensions.email.messages import CHANNEL, Me, heard
from nacre.extensions.email.settings import EmailSettings
from nacre.extensions.email.submission import submit
from nacre.runtime.contracts.clock import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")
FIRST_LOOK_BACK = timedelta(minutes=10)
"""How far back a mailbox is read where there is no cursor yet."""
FORGOTTEN_LOOK_BACK = timedelta(days=1)
"""How far back it is read when the server counts its messages anew."""


class EmailBridge(Bridge):
    """One mailbox."""

    channel = CHANNEL
    capabilities = Capabilities(greatest_length=100_000, has_threads=True, takes_attachments=True)

    def __init__(self, settings: EmailSettings, *, now: Clock, account: str = "default") -> None:
        self.account = account
        self._settings = settings
        self._now = now
        self._me = Me(
            address=settings.address,
            account=account,
            auth_server=settings.auth_server,
            trust_from=settings.trust_from,
        )
        self._loops = LoopGuard(settings.most_per_hour)
        self._stopping = asyncio.Event()
        self._mailbox: Mailbox | None = None

    async def start(self, door: Door) -> None:
        """As `Bridge`."""
        if self._stopping.is_set():
            return
        thread = ThreadPoolExecutor(1, thread_name_prefix="mailbox")
        try:
            mailbox = await _on(thread, lambda: Mailbox.open(self._settings))
            self._mailbox = mailbox
            last = await _on(thread, lambda: self._last(mailbox, door.cursor))
            door.connected()
            while not self._stopping.is_set():
                async for number, raw, size in self._news(thread, mailbox, last):
                    await self._take(raw, size, door, json.dumps({"of": mailbox.validity, "uid": number}))
                    last = number
                await _on(thread, lambda: mailbox.wait(self._settings.poll_seconds))
        except ConnectionError:
            if not self._stopping.is_set():
                raise
        finally:
            mailbox_then, self._mailbox = self._mailbox, None
            if mailbox_then is not None:
                mailbox_then.hang_up()
                thread.submit(mailbox_then.close)
            thread.shutdown(wait=False)

    async def stop(self) -> None:
        """As `Bridge`."""
        self._stopping.set()
        if self._mailbox is not None:
            self._mailbox.hang_up()

    async def deliver(self, part: Part) -> str:
        """As `Bridge`."""
        if self._mailbox is None:
            raise NotDelivered(f"there is no connection to {self._settings.imap_host}")
        return await asyncio.to_thread(self._send, part)

    def _send(self, part: Part) -> str:
        """Looks up what is answered, sends, and marks it there; on a thread."""
        try:
            mailbox = Mailbox.open(self._settings, writes=True)
        except (CannotConnect, ConnectionError) as error:
            raise NotDelivered(str(error)) from error
        try:
            try:
                answered = mailbox.answered(part.answers) if part.answers else None
            except ConnectionError as error:
                raise NotDelivered(str(error)) from error
            try:
                mail = composed(part, self._settings, answered, self._now)
            except ValueError as error:
                raise DeliveryRefused(str(error)) from error
            submit(mail, recipients(part), self._settings)
            if answered is not None:
                try:
                    mailbox.mark_answered(answered.uid)
                except ConnectionError as error:
                    log.warning("a message was answered and could not be marked so: %s", error)
        finally:
            mailbox.close()
        return str(mail["Message-ID"])

    def _last(self, mailbox: Mailbox, cursor: str) -> int:
        """The number of the last message that needs not be taken."""
        kept = json.loads(cursor) if cursor else {}
        if kept.get("of") == mailbox.validity:
            return int(kept["uid"])
        if kept:
            log.warning("the mailbox of %s counts its messages anew", self._settings.address)
        return mailbox.newest_before(self._now() - (FORGOTTEN_LOOK_BACK if kept else FIRST_LOOK_BACK))

    async def _news(
        self, thread: ThreadPoolExecutor, mailbox: Mailbox, last: int
    ) -> AsyncIterator[tuple[int, bytes, int]]:
        found = mailbox.behind(last)
        while (item := await _on(thread, lambda: next(found, None))) is not None:
            yield item

    async def _take(self, raw: bytes, too_large_bytes: int, door: Door, cursor: str) -> None:
        message = await asyncio.to_thread(heard, raw, self._me, too_large_bytes=too_large_bytes)
        if not isinstance(message, str) and not self._loops.admits(message.sender_id, self._now()):
            message = f"{message.sender_id} has had {self._settings.most_per_hour} answers within an hour"
        if isinstance(message, str):
            log.info("an e-mail is not answered: %s", message)
            return
        await door.receive(message, cursor=cursor)


async def _on(thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, work)
