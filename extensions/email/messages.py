"""Conversion of e-mails to `Inbound`, and of parts to e-mails.

A thread is named by hashes of the id of its first message and of its subject. The ids that the assistant
gives to answers contain the former, so each answer tells its thread.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator, Sequence
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, formataddr, getaddresses
from typing import NamedTuple

from imap_tools import MailMessage

from nacre.bridges.channels.messages import Ignored
from nacre.bridges.contracts.bridge import Part
from nacre.extensions.email.settings import EmailSettings
from nacre.extensions.email.words import words_of
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.inbound import Attachment, Inbound

MOST_HEADER_CHARS = 20_000
MOST_FROM_CHARS = 1_000
UNNAMED = "-"
"""The value of `authServer` for a server that writes no name into its results, such as Microsoft 365."""

_FIELD = re.compile(rb"([!-9;-~]+):(.*)", re.DOTALL)
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}", re.IGNORECASE)
_ATEXT = r"[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]"
_LOCAL = rf"{_ATEXT}+(?:\.{_ATEXT}+)*"
_ADDRESS = rf"(?P<local>{_LOCAL})@(?P<domain>[A-Za-z0-9.-]+)"
_NAME = rf"(?:(?:{_ATEXT}|\.)+|\"(?:[^\"\\\x00-\x1f\x7f]|\\[\"\\])*\")"
_BARE_FROM = re.compile(rf"[ \t]*{_ADDRESS}[ \t]*")
_NAMED_FROM = re.compile(rf"[ \t]*(?:{_NAME}(?:[ \t]+{_NAME})*[ \t]*)?<{_ADDRESS}>[ \t]*")

_VALUE = r"(?:\"(?:[^\"\\]|\\.)*\"(?:@[^\s;\"()=]+)?|[^\s;\"()]*)"
_KEYWORD = r"[A-Za-z][A-Za-z0-9_-]*"
_PROPERTY = rf"({_KEYWORD}(?:\.{_KEYWORD})?)=({_VALUE})"
_RESULT = re.compile(rf"\s*({_KEYWORD})(?:/1)?=({_KEYWORD})((?:\s+{_PROPERTY})*)\s*")
_PROPERTIES = re.compile(rf"\s+{_PROPERTY}")
_SERVER = re.compile(r"\s*([A-Za-z0-9._-]+)(?:\s+(\d+))?\s*")


class UnverifiedSender(Ignored):
    """The sender of an e-mail cannot be verified. The text says why."""


def verified_sender(raw: bytes, auth_server: str, *, trust_from: bool = False) -> str:
    """The sender's address in lower case.

    `trust_from` skips the verification. `From` must be unambiguous all the same.

    Raises:
        UnverifiedSender: it is not certain who wrote the e-mail.
    """
    fields = list(_fields(raw))
    address = _from_address(fields)
    if trust_from:
        return address
    if not auth_server:
        raise UnverifiedSender("no server is configured that verifies senders")
    _check_results(fields, auth_server, address.rpartition("@")[2])
    return address


def _fields(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """The header fields, with names in lower case and unfolded values. Nothing is repaired."""
    field: bytes | None = None
    for line in raw.split(b"\n"):
        line = line.removesuffix(b"\r")
        if b"\r" in line or b"\0" in line:
            raise UnverifiedSender("its header has a NUL or an invalid line end")
        if not line:
            break
        if line[:1] in b" \t":
            if field is None or not line.strip():
                raise UnverifiedSender("its header is folded in an invalid way")
            field += line
            continue
        if field is not None:
            yield _split(field)
        field = line
    if field is None:
        raise UnverifiedSender("it has no header")
    yield _split(field)


def _split(field: bytes) -> tuple[str, bytes]:
    found = _FIELD.fullmatch(field)
    if found is None:
        raise UnverifiedSender("its header has a line that is not a field")
    return found[1].decode("ascii").lower(), found[2]


def _values(fields: Sequence[tuple[str, bytes]], name: str, most_chars: int) -> list[str]:
    values = [value for each, value in fields if each == name]
    if any(len(value) > most_chars or not value.isascii() for value in values):
        raise UnverifiedSender(f"its {name} is too long or contains characters other than ASCII")
    return [value.decode("ascii") for value in values]


def _from_address(fields: Sequence[tuple[str, bytes]]) -> str:
    values = _values(fields, "from", MOST_FROM_CHARS)
    if len(values) != 1:
        raise UnverifiedSender("it has no sender, or several")
    found = _BARE_FROM.fullmatch(values[0]) or _NAMED_FROM.fullmatch(values[0])
    if found is None:
        raise UnverifiedSender("it has no sender, or several, or one in an unusual form")
    if not _DOMAIN.fullmatch(found["domain"]):
        raise UnverifiedSender("its sender's domain is invalid")
    return f"{found['local']}@{found['domain']}".lower()


def _check_results(fields: Sequence[tuple[str, bytes]], auth_server: str, domain: str) -> None:
    """Raises `UnverifiedSender` unless the server's topmost results verify a domain without contradiction."""
    values = _values(fields, "authentication-results", MOST_HEADER_CHARS)
    is_named = auth_server != UNNAMED
    found = map(_pieces, values if is_named else values[:1])
    results = [_dmarc(pieces, is_named=is_named) for pieces in found if _is_own(pieces, auth_server)]
    server = auth_server if is_named else "the mailbox's server"
    verified = [("pass", (domain,))]
    if results[:1] != [verified]:
        raise UnverifiedSender(f"{server} does not verify the sender")
    if any(each not in ([], verified) for each in results[1:]):
        raise UnverifiedSender(f"{server} contradicts itself about the sender")


def _is_own(pieces: Sequence[str], auth_server: str) -> bool:
    """Whether the configured server wrote results: `mx.example.org`, or `*.example.org` for all below it."""
    found = _SERVER.fullmatch(pieces[0])
    if auth_server == UNNAMED:
        return found is None
    name, own = (found[1].lower() if found else ""), auth_server.lower()
    return name.endswith(own[1:]) if own.startswith("*.") else name == own


def _dmarc(pieces: Sequence[str], *, is_named: bool) -> list[tuple[str, tuple[str, ...]]]:
    """One server's DMARC results, each with its values of `header.from`, in lower case."""
    if is_named:
        server = _SERVER.fullmatch(pieces[0])
        if server is None or server[2] not in (None, "1"):
            raise UnverifiedSender("the results of its own server have an unknown version")
    results: list[tuple[str, tuple[str, ...]]] = []
    found_results = pieces[1:] if is_named else pieces
    for number, piece in enumerate(found_results, 1):
        is_last = number == len(found_results)
        if piece.strip().lower() == "none" or (is_last and number > 1 and not piece.strip()):
            continue
        found = _RESULT.fullmatch(piece)
        if found is None:
            raise UnverifiedSender("the results of its own server cannot be read")
        if found[1].lower() == "dmarc":
            named = _PROPERTIES.findall(found[3])
            domains = tuple(v.lower() for k, v in named if k.lower() == "header.from")
            results.append((found[2].lower(), domains))
    return results


def _pieces(value: str) -> list[str]:
    """Splits a value at its semicolons and replaces comments with spaces.

    Raises `UnverifiedSender` for unbalanced quotes and parentheses, and for quotes and backslashes in
    comments, which servers escape in different ways.
    """
    pieces: list[list[str]] = [[]]
    depth, is_quoted, is_escaped = 0, False, False
    for char in value:
        if is_quoted:
            pieces[-1].append(char)
            is_quoted = is_escaped or char != '"'
            is_escaped = char == "\\" and not is_escaped
        elif char == "\\" or (depth and char == '"') or (not depth and char == ")"):
            break
        elif char in "()":
            depth += 1 if char == "(" else -1
            pieces[-1].append(" ")
        elif char == ";" and not depth:
            pieces.append([])
        elif not depth:
            pieces[-1].append(char)
            is_quoted = char == '"'
    else:
        if not (depth or is_quoted):
            return ["".join(piece) for piece in pieces]
    raise UnverifiedSender("the results of a server cannot be read")


CHANNEL = "email"
OWN_ID = re.compile(r"<[0-9a-f]{24}\.([0-9a-f]{12})@[^<>\s]+>")
"""The id of an assistant's e-mail: hashes of the part's key and of the thread's first message."""
_ID = re.compile(r"<[^<>\s]+>")
_PLAIN_ADDRESS = re.compile(r"[^\s@<>\"(),:;]+@[^\s@<>\"(),:;]+")
_PREFIXES = re.compile(
    r"^(?:\s*(?:re|aw|sv|fwd?|wg|tr|antw|rv|odp|回复|答复|返信)\s*(?:\[\d+\])?\s*[:：])+", re.IGNORECASE
)
_FORWARDS = re.compile(r"\s*(?:fwd?|wg|tr|rv|enc|i|vl|vs|doorst|pd|转发|轉寄)\s*[:：]", re.IGNORECASE)
_NOBODY = re.compile(r"[^:;@<>\"]*:\s*;\s*")
_BULK = ("bulk", "list", "junk", "auto_reply")
_PROGRAMS = ("mailer-daemon", "postmaster", "noreply", "no-reply", "donotreply", "do-not-reply", "bounce")
_MOST_HOLDERS = 50
_HOLDER = re.compile(rb"content-type\s*:\s*(?:message|multipart)/[a-z0-9-]+", re.IGNORECASE)
_OPAQUE = b"Content-Type: application/x-too-deep"

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
MOST_REFERENCES = 30


class Identity(Record):
    """The assistant: its address, the account in the settings, and whose word about senders counts."""

    address: str
    account: str = "default"
    auth_server: str = ""
    trust_from: bool = False


def read_message(raw: bytes, me: Identity, *, too_large_bytes: int = 0) -> Inbound:
    """The message in an e-mail.

    If the e-mail is too large to fetch, `raw` is only its header and `too_large_bytes` its size.

    Raises:
        Ignored: it is not a message to answer.
    """
    try:
        sender = verified_sender(raw, me.auth_server, trust_from=me.trust_from)
        return _read(_parsed(raw), sender, me, too_large_bytes)
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        raise Ignored(f"it cannot be read: {type(error).__name__}") from None


def _read(mail: MailMessage, sender: str, me: Identity, too_large_bytes: int) -> Inbound:
    if why := _automation(mail):
        raise Ignored(why)
    if sender == me.address.lower():
        raise Ignored("it is the assistant's own")
    if sender.partition("@")[0].startswith(_PROGRAMS):
        raise Ignored("a program sent it")
    message_id = next(iter(_ids(mail, "message-id")), "")
    if not message_id:
        raise Ignored("it has no id")
    named = [*_ids(mail, "references"), *_ids(mail, "in-reply-to")]
    keeps_end = bool(named) and not any(map(OWN_ID.fullmatch, named))  # the answered message is unknown here
    words = words_of(mail.obj, is_forward=_FORWARDS.match(mail.subject) is not None, keeps_end=keeps_end)
    files = words.files
    if too_large_bytes:
        problem = f"it has {too_large_bytes} bytes, which is over the limit"
        files = (Attachment(name="message", mime_type="message/rfc822", data=b"", problem=problem),)
    text, subject = words.text, "" if named or words.quoted else " ".join(mail.subject.split())
    if subject and not (_PREFIXES.match(subject) or text.startswith(("/", subject))):
        text = f"Subject: {subject}\n\n{text}" if text or files else subject
    if not (text or words.quoted or files):
        raise Ignored("it has no readable content")
    others = sorted({*_addresses(mail, "to"), *_addresses(mail, "cc")} - {me.address.lower(), sender})
    return Inbound(
        text=text,
        quoted=words.quoted,
        # Recipients with malformed addresses count as recipients too.
        chat_kind="group" if others or _has_malformed_recipients(mail) else "direct",
        channel=CHANNEL,
        account=me.account,
        chat_id=",".join(sorted({sender, *others})),
        thread_id=_thread((named or [message_id])[0], mail.subject),
        sender_id=sender,
        sender_name=mail.from_values.name if mail.from_values else "",
        message_id=message_id,
        attachments=files,
        chat_name=mail.subject[:200],
        is_mentioned=me.address.lower() in _addresses(mail, "to"),
    )


def _parsed(raw: bytes) -> MailMessage:
    """The parsed e-mail. A second attempt treats parts that are nested too deeply as opaque."""
    try:
        return MailMessage.from_bytes(raw)
    except RecursionError:
        seen = itertools.count()
        return MailMessage.from_bytes(
            _HOLDER.sub(lambda found: found[0] if next(seen) < _MOST_HOLDERS else _OPAQUE, raw)
        )


def _thread(first: str, subject: str) -> str:
    """The thread that begins with the id `first`. A different subject makes a different thread."""
    own = OWN_ID.fullmatch(first)
    root = own.group(1) if own else _hash(first)[:12]
    return f"{root}-{_hash(bare_subject(subject).casefold())[:8]}"


def bare_subject(subject: str) -> str:
    """A subject without reply prefixes, on one line."""
    return " ".join(_PREFIXES.sub("", " ".join(subject.split())).split())


def is_address(text: str) -> bool:
    return text.isascii() and _PLAIN_ADDRESS.fullmatch(text) is not None


def _automation(mail: MailMessage) -> str:
    """Why an e-mail comes from a program or a list (RFC 3834, RFC 2919); empty if it does not."""
    if _header(mail, "auto-submitted").lower() not in ("", "no"):
        return "a program sent it (Auto-Submitted)"
    if _header(mail, "precedence").lower() in _BULK:
        return "it is a bulk e-mail (Precedence)"
    if _header(mail, "list-id") or _header(mail, "list-unsubscribe"):
        return "it comes from a list"
    if _header(mail, "x-autoreply") or _header(mail, "x-autorespond"):
        return "a program sent it"
    if _header(mail, "return-path") == "<>" or mail.obj.get_content_type() == "multipart/report":
        return "it is a report of a server"
    return ""


def _addresses(mail: MailMessage, name: str) -> list[str]:
    values = [value[:MOST_HEADER_CHARS] for value in mail.headers.get(name, ())]
    found = (address.lower() for _, address in getaddresses(values))
    return list(dict.fromkeys(filter(is_address, found)))


def _has_malformed_recipients(mail: MailMessage) -> bool:
    """Whether `To` or `Cc` has an address that cannot be answered. An empty group has none."""
    values = [str(value) for name in ("to", "cc") for value in mail.headers.get(name, ())]
    listed = [value for value in values if value.strip() and not _NOBODY.fullmatch(value)]
    found = (address for value in listed for _, address in getaddresses([value[:MOST_HEADER_CHARS]]))
    return not all(is_address(address.lower()) for address in found)


def _ids(mail: MailMessage, name: str) -> list[str]:
    return _ID.findall(_header(mail, name)[:MOST_HEADER_CHARS])


def _header(mail: MailMessage, name: str) -> str:
    return next(iter(mail.headers.get(name, ())), "").strip()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


class Answered(NamedTuple):
    """The message that a part answers, with its uid in the mailbox."""

    uid: str
    subject: str
    references: Sequence[str]


def compose(part: Part, settings: EmailSettings, answered: Answered | None, now: Clock) -> EmailMessage:
    """The e-mail for a part. Raises `ValueError` if the chat is not a list of addresses.

    Without `answered` the subject is unknown, but the e-mail still belongs to the thread.
    """
    mail = EmailMessage(policy=SMTP.clone(max_line_length=900))
    name, subject = _one_line(settings.name), _one_line(bare_subject(answered.subject)) if answered else ""
    root = part.place.thread_id.partition("-")[0] or _hash(part.key)[:12]
    domain = settings.address.rpartition("@")[2]
    mail["From"] = formataddr((name, settings.address))
    mail["To"] = ", ".join(recipients(part))
    mail["Subject"] = f"Re: {subject}".strip() if part.answers else name
    mail["Date"] = format_datetime(now())
    mail["Message-ID"] = f"<{_hash(part.key)[:24]}.{root}@{domain}>"
    if _ID.fullmatch(part.answers):
        known = [each for each in (answered.references if answered else ()) if each != part.answers]
        kept = [*known[:1], *known[1:][-MOST_REFERENCES:]]
        mail["In-Reply-To"] = part.answers
        mail["References"] = " ".join([*kept, part.answers])
    # Programs that follow RFC 3834 do not answer this, so there is no loop.
    mail["Auto-Submitted"] = "auto-replied"
    mail["X-Auto-Response-Suppress"] = "All"
    mail.set_content(_CONTROLS.sub("", part.text))
    return mail


def recipients(part: Part) -> list[str]:
    """The people of the chat that a part goes to. Raises `ValueError` if they are not addresses."""
    people = part.place.chat_id.split(",")
    if not all(is_address(person) for person in people):
        raise ValueError(f"{part.place.chat_id!r} is not a list of addresses")
    return people


def _one_line(text: str) -> str:
    return " ".join(_CONTROLS.sub(" ", text).split())
