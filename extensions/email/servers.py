"""The mailbox (IMAP) and the server that sends (SMTP). All calls block, so they belong on a thread."""

from __future__ import annotations

import contextlib
import imaplib
import re
import smtplib
import socket
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from email.message import EmailMessage
from typing import Any

from imap_tools import BaseMailBox, ImapToolsError, MailBox, MailBoxUnencrypted, MailMessage

from nacre.bridges.channels.connection import (
    check_password_is_safe,
    connect_problem,
    tls_context,
)
from nacre.bridges.contracts.errors import BridgeError, CannotConnect, DeliveryRefused, NotDelivered
from nacre.extensions.email.messages import Answered
from nacre.extensions.email.settings import EmailSettings

TIMEOUT_SECONDS = 60.0
_BROKEN = (OSError, imaplib.IMAP4.error, ImapToolsError)

TIMEOUT_SECONDS = 60.0
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
        _, answer = self._box.client.uid("fetch", uid, what)
        items: list[Any] = answer or []
        return b" ".join(item if isinstance(item, bytes) else item[0] for item in items if item)

    def _fetch_body(self, uid: str, *, header_only: bool) -> bytes:
        what = "(BODY.PEEK[HEADER])" if header_only else "(BODY.PEEK[])"
        _, answer = self._box.client.uid("fetch", uid, what)
        items: list[Any] = answer or []
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
        with _refusals():
            server.ehlo_or_helo_if_needed()
            _check_accepted(server.mail(settings.address))
            for address in to:
                _check_accepted(server.rcpt(address))
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


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (smtplib.SMTPException, OSError) as error:
        raise NotDelivered(f"the server did not take the message: {error}") from error


def _check_accepted(answer: tuple[int, bytes]) -> None:
    code, reply = answer
    if not 200 <= code < 300:
        raise _refusal(code, reply)


def _refusal(code: int, reply: bytes | str) -> BridgeError:
    why = f"the server says {code} {reply.decode('utf-8', 'replace') if isinstance(reply, bytes) else reply}"
    if code >= 500:
        return DeliveryRefused(why)
    return NotDelivered(why, retry_after_seconds=RETRY_SECONDS, holds_chat=False)
