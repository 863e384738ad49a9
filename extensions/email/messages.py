"""What a message says, by whom as the own server vouches for them, and in which thread. Pure.

A thread is named by the message that began it and by its subject, as a hash of each, so that an id which the
assistant gave to an answer says in which thread that is.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from email.utils import getaddresses

from imap_tools import MailMessage

from nacre.extensions.email.senders import Stranger, sender_of
from nacre.extensions.email.words import words_of
from nacre.record import Record
from nacre.runtime.contracts.inbound import Attachment, Inbound

CHANNEL = "email"
OWN_ID = re.compile(r"<[0-9a-f]{24}\.([0-9a-f]{12})@[^<>\s]+>")
"""An id that the assistant gave: the part's key and the thread's first message, as hashes."""
_ID = re.compile(r"<[^<>\s]+>")
_ADDRESS = re.compile(r"[^\s@<>\"(),:;]+@[^\s@<>\"(),:;]+")
_PREFIXES = re.compile(
    r"^(?:\s*(?:re|aw|sv|fwd?|wg|tr|antw|rv|odp|回复|答复|返信)\s*(?:\[\d+\])?\s*[:：])+", re.IGNORECASE
)
_FORWARDS = re.compile(r"\s*(?:fwd?|wg|tr|rv|enc|i|vl|vs|doorst|pd|转发|轉寄)\s*[:：]", re.IGNORECASE)
_NOBODY = re.compile(r"[^:;@<>\"]*:\s*;\s*")
_BULK = ("bulk", "list", "junk", "auto_reply")
_PROGRAMS = ("mailer-daemon", "postmaster", "noreply", "no-reply", "donotreply", "do-not-reply", "bounce")
_MOST_HEADER_CHARS = 20_000
_MOST_HOLDERS = 50
_HOLDER = re.compile(rb"content-type\s*:\s*(?:message|multipart)/[a-z0-9-]+", re.IGNORECASE)
_OPAQUE = b"Content-Type: application/x-too-deep"


class Me(Record):
    """The assistant: its address and the account in the settings, and who vouches for senders."""

    address: str
    account: str = "default"
    auth_server: str = ""
    trust_from: bool = False


def heard(raw: bytes, me: Me, *, too_large_bytes: int = 0) -> Inbound | str:
    """What a message says, or why it is not answered. `too_large_bytes`: `raw` is the head of so many."""
    try:
        sender = sender_of(raw, me.auth_server, trust_from=me.trust_from)
        return _heard(_parsed(raw), sender, me, too_large_bytes)
    except Stranger as why:
        return str(why)
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        return f"it cannot be read: {type(error).__name__}"


def _heard(mail: MailMessage, sender: str, me: Me, too_large_bytes: int) -> Inbound | str:
    if why := _by_a_program(mail):
        return why
    if sender == me.address.lower():
        return "it is the assistant's own"
    if sender.partition("@")[0].startswith(_PROGRAMS):
        return "a program sent it"
    message_id = next(iter(_ids(mail, "message-id")), "")
    if not message_id:
        return "it has no id"
    words = words_of(mail.obj, is_forward=_FORWARDS.match(mail.subject) is not None)
    files = words.files
    if too_large_bytes:
        problem = f"it has {too_large_bytes} bytes, which is more than are fetched"
        files = (Attachment(name="message", mime_type="message/rfc822", data=b"", problem=problem),)
    if not (words.text or words.quoted or files):
        return "it says nothing"
    others = sorted({*_addresses(mail, "to"), *_addresses(mail, "cc")} - {me.address.lower(), sender})
    return Inbound(
        text=words.text,
        quoted=words.quoted,
        # A reader whose address cannot be read is a reader all the same.
        chat_kind="group" if others or _has_odd_readers(mail) else "direct",
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


def _parsed(raw: bytes) -> MailMessage:
    """The message. Parts that lie too deep for the parser are opaque to it in a second attempt."""
    try:
        return MailMessage.from_bytes(raw)
    except RecursionError:
        seen = itertools.count()
        return MailMessage.from_bytes(
            _HOLDER.sub(lambda found: found[0] if next(seen) < _MOST_HOLDERS else _OPAQUE, raw)
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


def _addresses(mail: MailMessage, name: str) -> list[str]:
    values = [value[:_MOST_HEADER_CHARS] for value in mail.headers.get(name, ())]
    found = (address.lower() for _, address in getaddresses(values))
    return list(dict.fromkeys(filter(is_address, found)))


def _has_odd_readers(mail: MailMessage) -> bool:
    """Whether an address in `To` or `Cc` is one that cannot be answered; an empty group has none."""
    values = [str(value) for name in ("to", "cc") for value in mail.headers.get(name, ())]
    listed = [value for value in values if value.strip() and not _NOBODY.fullmatch(value)]
    found = (address for value in listed for _, address in getaddresses([value[:_MOST_HEADER_CHARS]]))
    return not all(is_address(address.lower()) for address in found)


def _ids(mail: MailMessage, name: str) -> list[str]:
    return _ID.findall(_header(mail, name)[:_MOST_HEADER_CHARS])


def _header(mail: MailMessage, name: str) -> str:
    return next(iter(mail.headers.get(name, ())), "").strip()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
