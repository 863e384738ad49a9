"""What a message says, by whom as the own server vouches for them, and in which thread. Pure.

A thread is named by the message that began it and by its subject, as a hash of each, so that an id which the
assistant gave to an answer says in which thread that is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from email.utils import getaddresses

from imap_tools import MailMessage

from nacre.bridges.channels.email.words import html_text, unquoted
from nacre.records.record import Record
from nacre.runtime.contracts.inbound import Attachment, Inbound

CHANNEL = "email"
OWN_ID = re.compile(r"<[0-9a-f]{24}\.([0-9a-f]{12})@[^<>\s]+>")
"""An id that the assistant gave: the part's key and the thread's first message, as hashes."""
_ID = re.compile(r"<[^<>\s]+>")
_ADDRESS = re.compile(r"[^\s@<>\"(),:;]+@[^\s@<>\"(),:;]+")
_PREFIXES = re.compile(
    r"^(?:\s*(?:re|aw|sv|fwd?|wg|tr|antw|rv|odp|回复|答复|返信)\s*(?:\[\d+\])?\s*[:：])+", re.IGNORECASE
)
_BULK = ("bulk", "list", "junk", "auto_reply")
_PROGRAMS = ("mailer-daemon", "postmaster", "noreply", "no-reply", "donotreply", "do-not-reply", "bounce")
_MOST_HEADER_CHARS = 20_000


class Me(Record):
    """The assistant: its address and the account in the settings, and who vouches for senders."""

    address: str
    account: str = "default"
    auth_server: str = ""
    trust_from: bool = False


def heard(raw: bytes, me: Me, *, too_large_bytes: int = 0) -> Inbound | str:
    """What a message says, or why it is not answered. `too_large_bytes`: `raw` is the head of so many."""
    try:
        return _heard(MailMessage.from_bytes(raw), me, too_large_bytes)
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        return f"it cannot be read: {type(error).__name__}"


def _heard(mail: MailMessage, me: Me, too_large_bytes: int) -> Inbound | str:
    if why := _by_a_program(mail):
        return why
    senders = _addresses(mail, "from")
    if len(senders) != 1:
        return "it has no sender, or several"
    [sender] = senders
    if sender == me.address.lower():
        return "it is the assistant's own"
    if sender.partition("@")[0].startswith(_PROGRAMS):
        return "a program sent it"
    if not (me.trust_from or _is_vouched(mail, me.auth_server)):
        return f"{me.auth_server} does not say that the sender is who it says"
    message_id = next(iter(_ids(mail, "message-id")), "")
    if not message_id:
        return "it has no id"
    text = unquoted(mail.text) if mail.text.strip() else unquoted(html_text(mail.html))
    files = tuple(_files(mail))
    if too_large_bytes:
        problem = f"it has {too_large_bytes} bytes, which is more than are fetched"
        files = (Attachment(name="message", mime_type="message/rfc822", data=b"", problem=problem),)
    if not (text or files):
        return "it says nothing"
    others = sorted({*_addresses(mail, "to"), *_addresses(mail, "cc")} - {me.address.lower(), sender})
    return Inbound(
        text=text,
        chat_kind="group" if others else "direct",
        channel=CHANNEL,
        account=me.account,
        chat_id=",".join(sorted({sender, *others})),
        thread_id=thread_of(mail, message_id),
        sender_id=sender,
        message_id=message_id,
        attachments=files,
        chat_name=mail.subject[:200],
        is_mentioned=me.address.lower() in _addresses(mail, "to"),
    )


def thread_of(mail: MailMessage, message_id: str) -> str:
    """The thread of a message; another subject is another thread."""
    named = [*_ids(mail, "references"), *_ids(mail, "in-reply-to")]
    first = named[0] if named else message_id
    own = OWN_ID.fullmatch(first)
    root = own.group(1) if own else _hash(first)[:12]
    return f"{root}-{_hash(bare_subject(mail.subject).casefold())[:8]}"


def bare_subject(subject: str) -> str:
    """A subject without the signs of answers, and on one line."""
    return " ".join(_PREFIXES.sub("", " ".join(subject.split())).split())


def is_address(text: str) -> bool:
    """Whether a text can be whom a message goes to."""
    return text.isascii() and _ADDRESS.fullmatch(text) is not None


def _by_a_program(mail: MailMessage) -> str:
    """Why a message is by a program, or goes to a list; empty if it is not (RFC 3834, RFC 2919)."""
    if _header(mail, "auto-submitted").lower() not in ("", "no"):
        return "a program sent it (Auto-Submitted)"
    if _header(mail, "precedence").lower() in _BULK:
        return "it went to many (Precedence)"
    if _header(mail, "list-id") or _header(mail, "list-unsubscribe"):
        return "it went to a list"
    if _header(mail, "x-autoreply") or _header(mail, "x-autorespond"):
        return "a program sent it"
    if "return-path" in mail.headers and _header(mail, "return-path") == "<>":
        return "it is a report of a server"
    if str(mail.obj.get_content_type()) == "multipart/report":
        return "it is a report of a server"
    return ""


def _is_vouched(mail: MailMessage, server: str) -> bool:
    """Whether the own server says that the sender's domain sent it: DMARC passed (RFC 8601, RFC 7489).

    Only the topmost word of that server counts: a sender can put others below it.
    """
    for value in mail.headers.get("authentication-results", ()):
        name, _, results = value.partition(";")
        if server and name.split()[:1] == [server]:
            return re.search(r"(?:^|[;\s])dmarc\s*=\s*pass\b", results, re.IGNORECASE) is not None
    return False


def _addresses(mail: MailMessage, name: str) -> list[str]:
    values = [value[:_MOST_HEADER_CHARS] for value in mail.headers.get(name, ())]
    found = (address.lower() for _, address in getaddresses(values))
    return list(dict.fromkeys(filter(is_address, found)))


def _ids(mail: MailMessage, name: str) -> list[str]:
    return _ID.findall(_header(mail, name)[:_MOST_HEADER_CHARS])


def _header(mail: MailMessage, name: str) -> str:
    return next(iter(mail.headers.get(name, ())), "").strip()


def _files(mail: MailMessage) -> Iterator[Attachment]:
    for part in mail.attachments:
        name = part.filename or f"file.{part.content_type.rpartition('/')[2] or 'bin'}"
        yield Attachment(name=name, mime_type=part.content_type, data=part.payload)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
