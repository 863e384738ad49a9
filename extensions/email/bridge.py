"""`EmailBridge`: the assistant in a mailbox.

The cursor is the uid of the last message on disk, with the mailbox's UIDVALIDITY. No server tells whether it
has sent a message on, so a message whose delivery is unclear is sent again with a mark and the same id.
"""

from __future__ import annotations

import asyncio
import contextlib
import imaplib
import json
import logging
import re
import smtplib
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from email.message import EmailMessage
from functools import partial
from typing import Any, TypeVar

from imap_tools import BaseMailBox, ImapToolsError, MailBox, MailBoxUnencrypted, MailMessage

from nacre.bridges.channels.connection import check_password_is_safe, connect_problem, tls_context
from nacre.bridges.channels.messages import FIRST_LOOK_BACK, Ignored
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part
from nacre.bridges.contracts.errors import BridgeError, CannotConnect, DeliveryRefused, NotDelivered
from nacre.extensions.email.messages import CHANNEL, Answered, Identity, compose, read_message, recipients
from nacre.extensions.email.settings import EmailSettings
from nacre.runtime.contracts.clock import Clock

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 60.0
_BROKEN = (OSError, imaplib.IMAP4.error, ImapToolsError)

TLS_PORT = 465
RETRY_SECONDS = 300.0


class Mailbox:
    """A folder of a mailbox. Only the mark of answered messages is ever changed.

    A broken connection raises `ConnectionError`.
    """

    def __init__(self, box: BaseMailBox, settings: EmailSettings) -> None:
        self._box = box
        self._settings = settings
        self.validity = ""
        """The folder's UIDVALIDITY, which changes when the server renumbers its messages."""

    @classmethod
    def open(cls, settings: EmailSettings, *, writes: bool = False) -> Mailbox:
        """Connects and logs in. Raises `CannotConnect`."""
        address = settings.imap
        check_password_is_safe(address)
        try:
            if address.tls:
                context = tls_context(address.ca_file, address.setting)
                box: BaseMailBox = MailBox(
                    address.host, address.port, timeout=TIMEOUT_SECONDS, ssl_context=context
                )
            else:
                box = MailBoxUnencrypted(address.host, address.port, timeout=TIMEOUT_SECONDS)
        except (OSError, imaplib.IMAP4.error) as error:
            why = error if isinstance(error, OSError) else OSError(str(error))
            raise CannotConnect(connect_problem(address, why)) from error
        mailbox = cls(box, settings)
        try:
            mailbox._log_in(writes)
        except BaseException:
            mailbox.close()
            raise
        return mailbox

    def last_uid_before(self, moment: datetime) -> int:
        """The uid of the last message that was answered or arrived before a moment; 0 if there is none."""
        with self._translated_errors():
            for uid in self._box.uids("ALL")[::-1]:
                facts = self._fetch(uid, "(INTERNALDATE FLAGS)")
                arrived = imaplib.Internaldate2tuple(facts)
                if b"\\Answered" in facts or (arrived and time.mktime(arrived) < moment.timestamp()):
                    return int(uid)
        return 0

    def messages_after(self, last: int) -> Iterator[tuple[int, bytes, int]]:
        """The messages after a uid, each as uid, bytes and 0.

        A message over the limit is its uid, its header and its size in bytes.
        """
        limit_bytes = int(self._settings.media_max_mb * 1_000_000)
        with self._translated_errors():
            self._box.client.noop()
            for uid in sorted(int(uid) for uid in self._box.uids(f"UID {last + 1}:*")):
                if uid <= last:  # a range always includes its end, even if that is lower
                    continue
                found = re.search(rb"RFC822\.SIZE (\d+)", self._fetch(str(uid), "(RFC822.SIZE)"))
                size = int(found.group(1)) if found else 0
                is_too_large = size > limit_bytes
                yield uid, self._fetch_body(str(uid), header_only=is_too_large), size if is_too_large else 0

    def wait(self, seconds: float) -> None:
        """Waits up to `seconds` for the server to announce a change."""
        with self._translated_errors():
            if "IDLE" in self._box.client.capabilities:
                self._box.idle.wait(timeout=seconds)
            else:
                self._box.client.sock.settimeout(TIMEOUT_SECONDS)
                self._box.client.noop()

    def answered(self, message_id: str) -> Answered | None:
        """The message with an id, `None` if it is no longer in the folder."""
        with self._translated_errors():
            quoted = message_id.replace("\\", "\\\\").replace('"', '\\"')
            uids = self._box.uids(f'HEADER Message-ID "{quoted}"') if quoted.isascii() else []
            if not uids:
                return None
            mail = MailMessage.from_bytes(self._fetch_body(uids[-1], header_only=True))
        named = " ".join((*mail.headers.get("references", ()), *mail.headers.get("in-reply-to", ())))
        ids = list(dict.fromkeys(re.findall(r"<[^<>\s]+>", named)))
        return Answered(uid=uids[-1], subject=mail.subject, references=ids)

    def mark_answered(self, uid: str) -> None:
        """Marks a message as answered, for people and for a first start with this mailbox."""
        with self._translated_errors():
            self._box.client.uid("store", uid, "+FLAGS.SILENT", "(\\Answered)")

    def interrupt(self) -> None:
        """Ends any call that another thread is waiting for. Safe at any time."""
        with contextlib.suppress(OSError):
            self._box.client.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the connection. Safe to repeat."""
        with contextlib.suppress(*_BROKEN):
            self._box.client.shutdown()

    def _log_in(self, writes: bool) -> None:
        settings = self._settings
        try:
            self._box.login_utf8(settings.login, settings.password.get_secret_value(), initial_folder=None)
        except _BROKEN as error:
            raise CannotConnect(
                f"{settings.imap_host} refuses the login of {settings.login} (channels.email.password)."
            ) from error
        with self._translated_errors():
            _, reply = self._box.client.select(f'"{settings.folder}"', readonly=not writes)
            _, validity = self._box.client.response("UIDVALIDITY")
        if not validity or validity[0] is None:
            reason = b" ".join(word for word in reply if isinstance(word, bytes)).decode(errors="replace")
            raise CannotConnect(
                f"{settings.imap_host} does not open the folder {settings.folder} (channels.email.folder): "
                f"{reason}"
            )
        self.validity = validity[0].decode()

    def _fetch(self, uid: str, what: str) -> bytes:
        items: list[Any] = self._box.client.uid("fetch", uid, what)[1] or []
        return b" ".join(item if isinstance(item, bytes) else item[0] for item in items if item)

    def _fetch_body(self, uid: str, *, header_only: bool) -> bytes:
        what = "(BODY.PEEK[HEADER])" if header_only else "(BODY.PEEK[])"
        items: list[Any] = self._box.client.uid("fetch", uid, what)[1] or []
        return next((item[1] for item in items if isinstance(item, tuple)), b"")

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except _BROKEN as error:
            raise ConnectionError(f"{self._settings.imap_host}: {error or type(error).__name__}") from error


def submit(mail: EmailMessage, to: Sequence[str], settings: EmailSettings) -> None:
    """Sends a message.

    Raises:
        NotDelivered: the server did not accept it and may accept it later.
        DeliveryRefused: the server never will.
        OSError: the connection broke after the message, so nobody knows whether it was sent.
    """
    try:
        server = _logged_in(settings)
    except BridgeError as error:
        raise NotDelivered(str(error), retry_after_seconds=RETRY_SECONDS) from error
    try:
        try:
            server.ehlo_or_helo_if_needed()
            _check_accepted(server.mail(settings.address))
            for address in to:
                _check_accepted(server.rcpt(address))
        except (smtplib.SMTPException, OSError) as error:
            raise NotDelivered(f"the server did not take the message: {error}") from error
        # From here on a failure leaves open whether the message was sent, unless the server says so.
        try:
            _check_accepted(server.data(mail.as_bytes()))
        except smtplib.SMTPDataError as error:
            raise _refusal(error.smtp_code, error.smtp_error) from error
        except smtplib.SMTPServerDisconnected as error:
            raise ConnectionError(f"{settings.smtp_host} closed the connection after the message") from error
    finally:
        with contextlib.suppress(smtplib.SMTPException, OSError):
            server.quit()
        server.close()


def _logged_in(settings: EmailSettings) -> smtplib.SMTP:
    address = settings.smtp
    check_password_is_safe(address)
    context = tls_context(address.ca_file, address.setting) if address.tls else None
    try:
        if context is not None and address.port == TLS_PORT:
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                address.host, address.port, timeout=TIMEOUT_SECONDS, context=context
            )
        else:
            server = smtplib.SMTP(address.host, address.port, timeout=TIMEOUT_SECONDS)
            if context is not None:
                server.starttls(context=context)
        password = settings.password.get_secret_value()
        if password and server.ehlo()[0] == 250 and server.has_extn("auth"):
            server.login(settings.login, password)
    except smtplib.SMTPAuthenticationError as error:
        raise NotDelivered(
            f"{address.host} refuses the login of {settings.login} (channels.email.password)"
        ) from error
    except smtplib.SMTPException as error:
        raise NotDelivered(f"{address.host} does not accept messages: {error}") from error
    except OSError as error:
        raise NotDelivered(connect_problem(address, error)) from error
    return server


def _check_accepted(answer: tuple[int, bytes]) -> None:
    code, reply = answer
    if not 200 <= code < 300:
        raise _refusal(code, reply)


def _refusal(code: int, reply: bytes | str) -> BridgeError:
    why = f"the server says {code} {reply.decode('utf-8', 'replace') if isinstance(reply, bytes) else reply}"
    if code >= 500:
        return DeliveryRefused(why)
    return NotDelivered(why, retry_after_seconds=RETRY_SECONDS, holds_chat=False)


T = TypeVar("T")
RENUMBERED_LOOK_BACK = timedelta(days=1)
"""How far back a mailbox is read after the server has renumbered its messages."""

WINDOW = timedelta(hours=1)


class EmailBridge(Bridge):
    """One mailbox."""

    channel = CHANNEL
    capabilities = Capabilities(greatest_length=100_000)

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
        self._mailbox: Mailbox | None = None

    async def start(self, inbox: Inbox) -> None:
        thread = ThreadPoolExecutor(1, thread_name_prefix="mailbox")
        try:
            mailbox = await _on(thread, lambda: Mailbox.open(self._settings))
            self._mailbox = mailbox
            last = await _on(thread, lambda: self._last_uid(mailbox, inbox.cursor))
            inbox.connected()
            while not self.stopping.is_set():
                found = mailbox.messages_after(last)
                while item := await _on(thread, partial(next, found, None)):
                    last, raw, size = item
                    await self._take(raw, size, inbox, json.dumps({"of": mailbox.validity, "uid": last}))
                await _on(thread, lambda: mailbox.wait(self._settings.poll_seconds))
        except ConnectionError:
            if not self.stopping.is_set():
                raise
        finally:
            opened, self._mailbox = self._mailbox, None
            if opened is not None:
                opened.interrupt()
                thread.submit(opened.close)
            thread.shutdown(wait=False)

    async def stop(self) -> None:
        self.stopping.set()
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
        with contextlib.closing(mailbox):
            try:
                answered = mailbox.answered(part.answers) if part.answers else None
                mail = compose(part, self._settings, answered, self._now)
            except ConnectionError as error:
                raise NotDelivered(str(error)) from error
            except ValueError as error:
                raise DeliveryRefused(str(error)) from error
            submit(mail, recipients(part), self._settings)
            if answered is not None:
                try:
                    mailbox.mark_answered(answered.uid)
                except ConnectionError as error:
                    log.warning("an answered e-mail could not be marked as answered: %s", error)
        return str(mail["Message-ID"])

    def _last_uid(self, mailbox: Mailbox, cursor: str) -> int:
        stored = json.loads(cursor) if cursor else {}
        if stored.get("of") == mailbox.validity:
            return int(stored["uid"])
        if stored:
            log.warning("the server has renumbered the mailbox of %s", self._settings.address)
        return mailbox.last_uid_before(self._now() - (RENUMBERED_LOOK_BACK if stored else FIRST_LOOK_BACK))

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
    """Limits the answered messages of one sender within `WINDOW`, so that two programs do not loop."""

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
