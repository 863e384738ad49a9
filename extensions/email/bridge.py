"""`EmailBridge`: the assistant in a mailbox.

The cursor is the uid of the last message on disk, with the mailbox's UIDVALIDITY. No server tells whether it
has sent a message on, so a message whose delivery is unclear is sent again with a mark and the same id.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TypeVar

from nacre.bridges.channels.messages import FIRST_LOOK_BACK, Ignored
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part
from nacre.bridges.contracts.errors import CannotConnect, DeliveryRefused, NotDelivered
from nacre.extensions.email.messages import CHANNEL, Identity, compose, read_message, recipients
from nacre.extensions.email.servers import Mailbox, submit
from nacre.extensions.email.settings import EmailSettings
from nacre.runtime.contracts.clock import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")
RENUMBERED_LOOK_BACK = timedelta(days=1)
"""How far back a mailbox is read after the server has renumbered its messages."""

WINDOW = timedelta(hours=1)


class EmailBridge(Bridge):
    """One mailbox."""

    channel = CHANNEL
    capabilities = Capabilities(greatest_length=100_000, has_threads=True, takes_attachments=True)

    def __init__(self, settings: EmailSettings, *, now: Clock, account: str = "default") -> None:
        self.account = account
        self._settings = settings
        self._now = now
        self._me = Identity(
            address=settings.address,
            account=account,
            auth_server=settings.auth_server,
            trust_from=settings.trust_from,
        )
        self._loops = LoopGuard(settings.most_per_hour)
        self._stopping = asyncio.Event()
        self._mailbox: Mailbox | None = None

    async def start(self, inbox: Inbox) -> None:
        if self._stopping.is_set():
            return
        thread = ThreadPoolExecutor(1, thread_name_prefix="mailbox")
        try:
            mailbox = await _on(thread, lambda: Mailbox.open(self._settings))
            self._mailbox = mailbox
            last = await _on(thread, lambda: self._last_uid(mailbox, inbox.cursor))
            inbox.connected()
            while not self._stopping.is_set():
                async for uid, raw, size in self._new_messages(thread, mailbox, last):
                    await self._take(raw, size, inbox, json.dumps({"of": mailbox.validity, "uid": uid}))
                    last = uid
                await _on(thread, lambda: mailbox.wait(self._settings.poll_seconds))
        except ConnectionError:
            if not self._stopping.is_set():
                raise
        finally:
            opened, self._mailbox = self._mailbox, None
            if opened is not None:
                opened.interrupt()
                thread.submit(opened.close)
            thread.shutdown(wait=False)

    async def stop(self) -> None:
        self._stopping.set()
        if self._mailbox is not None:
            self._mailbox.interrupt()

    async def deliver(self, part: Part) -> str:
        if self._mailbox is None:
            raise NotDelivered(f"there is no connection to {self._settings.imap_host}")
        return await asyncio.to_thread(self._send, part)

    def _send(self, part: Part) -> str:
        """Finds the message that is answered, sends the answer, and marks the message as answered. Blocks."""
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
                mail = compose(part, self._settings, answered, self._now)
            except ValueError as error:
                raise DeliveryRefused(str(error)) from error
            submit(mail, recipients(part), self._settings)
            if answered is not None:
                try:
                    mailbox.mark_answered(answered.uid)
                except ConnectionError as error:
                    log.warning("an answered e-mail could not be marked as answered: %s", error)
        finally:
            mailbox.close()
        return str(mail["Message-ID"])

    def _last_uid(self, mailbox: Mailbox, cursor: str) -> int:
        """The uid after which messages are new."""
        stored = json.loads(cursor) if cursor else {}
        if stored.get("of") == mailbox.validity:
            return int(stored["uid"])
        if stored:
            log.warning("the server has renumbered the mailbox of %s", self._settings.address)
        return mailbox.last_uid_before(self._now() - (RENUMBERED_LOOK_BACK if stored else FIRST_LOOK_BACK))

    async def _new_messages(
        self, thread: ThreadPoolExecutor, mailbox: Mailbox, last: int
    ) -> AsyncIterator[tuple[int, bytes, int]]:
        found = mailbox.messages_after(last)
        while (item := await _on(thread, lambda: next(found, None))) is not None:
            yield item

    async def _take(self, raw: bytes, too_large_bytes: int, inbox: Inbox, cursor: str) -> None:
        try:
            inbound = await asyncio.to_thread(read_message, raw, self._me, too_large_bytes=too_large_bytes)
            if not self._loops.admits(inbound.sender_id, self._now()):
                limit = self._settings.most_per_hour
                raise Ignored(f"{inbound.sender_id} has received {limit} answers within an hour")
        except Ignored as why:
            log.info("an e-mail was ignored: %s", why)
            return
        await inbox.receive(inbound, cursor=cursor)


async def _on(thread: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, call)


class LoopGuard:
    """Limits how many messages of one sender are answered within `WINDOW`, so that two programs do not
    loop.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: dict[str, deque[datetime]] = {}

    def admits(self, sender: str, now: datetime) -> bool:
        """Whether one more message of a sender is answered. If so, it is counted."""
        for known in [name for name, taken in self._taken.items() if now - taken[-1] > WINDOW]:
            del self._taken[known]
        taken = self._taken.get(sender, deque())
        while taken and now - taken[0] > WINDOW:
            taken.popleft()
        if len(taken) >= self._limit:
            return False
        taken.append(now)
        self._taken[sender] = taken
        return True
