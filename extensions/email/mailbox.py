"""One connection to a mailbox. Each call blocks, so it is for a thread. Edge to imap-tools."""

from __future__ import annotations

import contextlib
import imaplib
import re
import socket
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from imap_tools import BaseMailBox, ImapToolsError, MailBox, MailBoxUnencrypted, MailMessage

from nacre.bridges.channels.secure_connection import (
    check_password_is_safe,
    connect_problem,
    tls_context,
)
from nacre.bridges.contracts.errors import CannotConnect
from nacre.extensions.email.composing import Answered
from nacre.extensions.email.settings import EmailSettings

TIMEOUT_SECONDS = 60.0
_BROKEN = (OSError, imaplib.IMAP4.error, ImapToolsError)


class Mailbox:
    """A folder; nothing in it is changed but the mark of what was answered.

    What breaks on the way raises `ConnectionError`.
    """

    def __init__(self, box: BaseMailBox, settings: EmailSettings) -> None:
        self._box = box
        self._settings = settings
        self.validity = ""
        """What changes when the server counts its messages anew."""

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

    def newest_before(self, moment: datetime) -> int:
        """The number of the last message that was answered, or came before a moment; 0 if there is none."""
        with self._told():
            for uid in self._box.uids("ALL")[::-1]:
                facts = self._asked(uid, "(INTERNALDATE FLAGS)")
                came = imaplib.Internaldate2tuple(facts)
                if b"\\Answered" in facts or (came and time.mktime(came) < moment.timestamp()):
                    return int(uid)
        return 0

    def behind(self, last: int) -> Iterator[tuple[int, bytes, int]]:
        """The messages behind a number: number and bytes; of one that is too large the head, and its size."""
        most = int(self._settings.media_max_mb * 1_000_000)
        with self._told():
            self._box.client.noop()
            numbers = sorted(int(uid) for uid in self._box.uids(f"UID {last + 1}:*"))
            for number in numbers:
                if number <= last:  # a range has its end in it, whatever that is
                    continue
                found = re.search(rb"RFC822\.SIZE (\d+)", self._asked(str(number), "(RFC822.SIZE)"))
                size = int(found.group(1)) if found else 0
                what = "(BODY.PEEK[])" if size <= most else "(BODY.PEEK[HEADER])"
                _, answer = self._box.client.uid("fetch", str(number), what)
                raw = next((item[1] for item in answer or () if isinstance(item, tuple)), b"")
                yield number, raw, size if size > most else 0

    def wait(self, seconds: float) -> None:
        """Waits until the server says that there is something, so long at most."""
        with self._told():
            if "IDLE" in self._box.client.capabilities:
                self._box.idle.wait(timeout=seconds)
            else:
                self._box.client.sock.settimeout(TIMEOUT_SECONDS)
                self._box.client.noop()

    def answered(self, message_id: str) -> Answered | None:
        """The message of an id; `None` when it is not in the folder any more."""
        with self._told():
            quoted = message_id.replace("\\", "\\\\").replace('"', '\\"')
            uids = self._box.uids(f'HEADER Message-ID "{quoted}"') if quoted.isascii() else []
            if not uids:
                return None
            _, answer = self._box.client.uid("fetch", uids[-1], "(BODY.PEEK[HEADER])")
            raw = next((item[1] for item in answer or () if isinstance(item, tuple)), b"")
        mail = MailMessage.from_bytes(raw)
        named = " ".join((*mail.headers.get("references", ()), *mail.headers.get("in-reply-to", ())))
        ids = list(dict.fromkeys(re.findall(r"<[^<>\s]+>", named)))
        return Answered(uid=uids[-1], subject=mail.subject, references=ids)

    def mark_answered(self, uid: str) -> None:
        """Marks a message as answered, for people and for a first start over this mailbox."""
        with self._told():
            self._box.client.uid("store", uid, "+FLAGS.SILENT", "(\\Answered)")

    def hang_up(self) -> None:
        """Ends whatever another thread waits for. Safe at any time."""
        with contextlib.suppress(OSError):
            self._box.client.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the connection. Safe to repeat."""
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
        with self._told():
            _, words = self._box.client.select(f'"{settings.folder}"', readonly=not writes)
            _, validity = self._box.client.response("UIDVALIDITY")
        if not validity or validity[0] is None:
            said = b" ".join(word for word in words if isinstance(word, bytes)).decode(errors="replace")
            raise CannotConnect(
                f"{settings.imap_host} opens no folder {settings.folder} (channels.email.folder). "
                f"It says: {said}"
            )
        self.validity = validity[0].decode()

    def _asked(self, uid: str, what: str) -> bytes:
        _, answer = self._box.client.uid("fetch", uid, what)
        items: list[Any] = answer or []
        return b" ".join(item if isinstance(item, bytes) else item[0] for item in items if item)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except _BROKEN as error:
            raise ConnectionError(f"{self._settings.imap_host}: {error or type(error).__name__}") from error
