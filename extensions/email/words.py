"""Whose words an e-mail contains, and which are the sender's own.

The sender's own words stand above the first forward or quotation, and between quotations. Forwards, attached
messages and quotations between own words are the words of others. A quotation below all own words is the
message that is answered. The conversation already contains it, so it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from email.message import Message

from imap_tools.message import MailAttachment
from imap_tools.utils import decode_value

from nacre.extensions.email.html_text import HIDDEN_TEXT, html_text
from nacre.record import Record
from nacre.runtime.contracts.inbound import Attachment, Quoted, QuoteKind

MOST_QUOTED_CHARS = 50_000
MOST_DEPTH = 3
"""How deeply messages attached to attached messages are read."""
MOST_ATTACHED = 20
MOST_INTRODUCTION_LINES = 3
"""How many lines the introduction of a quotation may have: `On Monday, somebody <…> wrote:`."""

_SENDERS = re.compile(
    r"from|von|vom|de|da|van|från|fra|od|от|від|lähettäjä|gönderen|kimden|feladó|odesílatel|expeditor|από|מאת|من"
    r"|发件人|寄件者|差出人|보낸|보낸사람"
)
"""What mail clients call `From` in the header of a forwarded message."""
_WROTE = re.compile(
    r"wrote|schrieb|écrit|escribió|scritto|escreveu|schreef|skrev|napisał|napisal|kirjoitti|yazdı|írta|писал|пише"
    r"|έγραψε|כתב|كتب|写道|寫道|書きました|작성"
)
_ORIGINAL = re.compile(
    r"\s*(?:-{2,}\s*(?:original message|reply message|ursprüngliche nachricht|message d'origine"
    r"|mensaje original|messaggio originale|mensagem original|oorspronkelijk bericht|исходное сообщение"
    r"|original appointment)\s*-{2,}|_{20,})\s*",
    re.IGNORECASE,
)
"""The line above a message that is answered, and in some clients above one that is forwarded."""
_FORWARDED = re.compile(
    r"[\s*]*(?:begin forwarded message|anfang der weitergeleiteten (?:nachricht|e-mail)"
    r"|début du (?:message|mail) (?:réexpédié|transféré)|inicio del mensaje reenviado"
    r"|inizio messaggio inoltrato|início da mensagem (?:encaminhada|reencaminhada)|begin doorgestuurd bericht"
    r"|vidarebefordrat brev|videresendt (?:melding|besked)|początek przekazywanej wiadomości"
    r"|начало переадресованного сообщения|開始轉寄郵件|以下是转发的邮件|下面是被转发的邮件"
    r"|転送されたメッセージ)"
    r"\s*[:：]?[\s*]*",
    re.IGNORECASE,
)
_RULED = re.compile(r"\s*[-=_*]{2,}\s*(?=\S*\w)[^-=_*\n]{3,60}?\s*[-=_*]{2,}\s*")
"""A line of words between dashes: `---------- Forwarded message ---------` in any language."""
_HEADER = re.compile(r"[>\s*]*([^\s:：*<@]{1,20}(?: [^\s:：*<@]{1,20}){0,2})\s?\*?\s?[:：]\*?\s*(\S.*)")
_FORWARD_WORDS = re.compile(
    r"forward|weitergeleitet|transféré|réexpédié|reenviad|inoltrat|encaminhad|doorgestuurd|vidarebefordra"
    r"|videresend|przekazan|przesłan|пересыла|переслан|переадрес|转发|轉寄|転送|전달",
    re.IGNORECASE,
)


class Words(Record):
    """The words and files of an e-mail: the sender's own, and those of others."""

    text: str
    quoted: tuple[Quoted, ...] = ()
    files: tuple[Attachment, ...] = ()


def words_of(mail: Message, *, is_forward: bool = False) -> Words:
    """The words and files of an e-mail. `is_forward` tells that its subject marks it as a forward."""
    plain, html, holders, files = _parts(mail)
    text, notice = _text_of(plain, html)
    own = split(text, is_forward=is_forward)
    if is_forward and own.text and not (own.quoted or holders):
        # It forwards something, and nothing tells where that begins.
        own = Words(text="", quoted=(Quoted(text=own.text, kind="forward"),))
    quoted, others_files = list(own.quoted), [*_attachments(files, "")]
    for each in holders[:MOST_ATTACHED]:
        attached = _attached(each, 1)
        quoted += attached.quoted
        others_files += attached.files
    if len(holders) > MOST_ATTACHED:
        left = f"[{len(holders) - MOST_ATTACHED} more attached messages are not shown]"
        quoted.append(Quoted(text=left, kind="attached message"))
    return Words(
        text="\n\n".join(filter(None, (own.text, notice))), quoted=tuple(quoted), files=tuple(others_files)
    )


def split(text: str, *, is_forward: bool = False) -> Words:
    """Splits a text into the sender's own words and those of others.

    The message that is answered and the signature are left out. A mark such as `[quote 1]` replaces a
    quotation between own words.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    start, is_marked_forward = _passed_on(lines)
    own, below = _without_signature(lines[:start]), lines[start:]
    said, quoted = _between(own)
    is_kept = is_forward or is_marked_forward or not said
    if is_kept and any(line.strip() for line in below):
        kind: QuoteKind = "forward" if is_forward or is_marked_forward else "quote"
        words = _cut("\n".join(below).strip())
        quoted = (*quoted, Quoted(text=words, kind=kind, said_by=_named_sender(below)))
    return Words(text=said, quoted=quoted)


def _passed_on(lines: Sequence[str]) -> tuple[int, bool]:
    """Where somebody else's message begins, and whether it is marked as forwarded."""
    for number, line in enumerate(lines):
        if _FORWARDED.fullmatch(line):
            return number, True
        is_headed = _is_header(lines, number + 1) or _is_header(lines, number + 2)
        if _ORIGINAL.fullmatch(line) and (line.strip("_ ") or is_headed):
            return number, False
        if _RULED.fullmatch(line) and (_FORWARD_WORDS.search(line) or is_headed):
            return number, True
        if _is_header(lines, number) and not line.lstrip().startswith(">"):
            return number, True  # it says nothing of the kind, but words that may be own are not left out
    return len(lines), False


def _is_header(lines: Sequence[str], start: int) -> bool:
    """Whether a message header starts here: three lines with a field name, one of the first two `From`."""
    found = [_HEADER.fullmatch(line) for line in lines[start : start + 3]]
    names = [each[1].casefold().split()[0] for each in found if each is not None]
    return len(names) == 3 and any(map(_SENDERS.fullmatch, names[:2]))


def _named_sender(lines: Sequence[str]) -> str:
    for line in lines[:8]:
        found = _HEADER.fullmatch(line)
        if found is not None and _SENDERS.fullmatch(found[1].casefold().split()[0]):
            return found[2].strip("* ")
    return ""


def _without_signature(lines: Sequence[str]) -> list[str]:
    end = next((number for number, line in enumerate(lines) if line in ("-- ", "--")), len(lines))
    return list(lines[:end])


def _between(lines: list[str]) -> tuple[str, tuple[Quoted, ...]]:
    """The own words with marks for quotations, and the quotations.

    A quotation below the own words is left out, unless there are no own words.
    """
    end = len(lines)
    while end and (not lines[end - 1].strip() or _is_quoted(lines[end - 1])):
        end -= 1
    if any(map(_is_quoted, lines[end:])):
        end = _introduction(lines, end, is_any=True)
    if end and any(line.strip() for line in lines[:end]):
        lines = lines[:end]
    own: list[str] = []
    quoted: list[Quoted] = []
    number = 0
    while number < len(lines):
        if not _is_quoted(lines[number]):
            own.append(lines[number])
            number += 1
            continue
        first = number
        while number < len(lines) and _is_quoted(lines[number]):
            number += 1
        start = _introduction(own, len(own), is_any=False)
        author = " ".join(" ".join(own[start:]).split()).rstrip(":：")
        label = f"[quote {len(quoted) + 1}]"
        own[start:] = [label]
        words = "\n".join(re.sub(r"^\s*>\s?", "", line) for line in lines[first:number])
        quoted.append(Quoted(text=_cut(words), kind="quote", said_by=author, label=label))
    text = "\n".join(own).strip()
    return ("" if text in {quote.label for quote in quoted} else text), tuple(quoted)


def _is_quoted(line: str) -> bool:
    return line.lstrip().startswith(">")


def _introduction(lines: Sequence[str], end: int, *, is_any: bool) -> int:
    """Where the own words end if the sentence above a quotation, which ends with a colon, introduces it.

    Unless `is_any` is set, the sentence must say that somebody wrote, or contain an address or a time.
    """
    above = end
    while above and not lines[above - 1].strip():
        above -= 1
    if not above or end - above > 1 or not lines[above - 1].rstrip().endswith((":", "：")):
        return end
    start = above - 1
    while start and lines[start - 1].strip() and above - start < MOST_INTRODUCTION_LINES:
        start -= 1
    # A colon right below the words, with no blank line between, introduces nothing but its own line.
    start = start if not start or not lines[start - 1].strip() else above - 1
    sentence = " ".join(lines[start:above]).casefold()
    if is_any or re.search(r"[@<\d]", sentence) or _WROTE.search(sentence):
        return start
    return end


def _parts(mail: Message) -> tuple[list[str], list[str], list[Message], list[Message]]:
    """Plain texts, HTML texts, attached messages and files, without the content of attached messages."""
    plain, html, holders, files = list[str](), list[str](), list[Message](), list[Message]()
    for part in _walked(mail):
        kind = part.get_content_type()
        if part.get_content_maintype() == "message" and part.is_multipart():
            holders.append(part)
        elif _is_file(part):
            files.append(part)
        elif kind in ("text/plain", "text/"):
            plain.append(decode_value(part.get_payload(decode=True), part.get_content_charset()))
        elif kind == "text/html":
            html.append(decode_value(part.get_payload(decode=True), part.get_content_charset()))
    return plain, html, holders, files


def _text_of(plain: Sequence[str], html: Sequence[str]) -> tuple[str, str]:
    text = "".join(plain)
    if text.strip():
        return text, ""
    page = html_text("".join(html))
    return page.text, HIDDEN_TEXT if page.hides_text else ""


def _is_file(part: Message) -> bool:
    """Whether a part is a file. Some clients give even the text a `Content-ID`."""
    if part.get_filename() or part.get_content_disposition() == "attachment":
        return True
    return part.get("Content-ID") is not None and part.get_content_maintype() != "text"


def _walked(mail: Message) -> Iterator[Message]:
    """The leaf parts of an e-mail. An attached message is one leaf."""
    waiting = [mail]
    while waiting:
        part = waiting.pop()
        payload = part.get_payload()
        if part.get_content_maintype() != "message" and isinstance(payload, list):
            waiting += reversed([each for each in payload if isinstance(each, Message)])
        elif part.get_content_maintype() != "multipart":
            yield part


def _attached(part: Message, depth: int) -> Words:
    payload = part.get_payload()
    inner = payload[0] if isinstance(payload, list) and payload else None
    if not isinstance(inner, Message):
        return Words(text="")
    author, subject = (_shown(inner, name) for name in ("From", "Subject"))
    plain, html, holders, files = _parts(inner)
    lines = [f"Subject: {subject}\n"] if subject else []
    lines += [each.strip() for each in _text_of(plain, html)]
    found: list[Quoted] = []
    deeper: list[Words] = []
    if depth < MOST_DEPTH:
        deeper = [_attached(each, depth + 1) for each in holders[:MOST_ATTACHED]]
    elif holders:
        lines.append("[a message is attached to this one, too deep to be read]")
    found.append(Quoted(text=_cut("\n".join(lines).strip()), kind="attached message", said_by=author))
    found += [quote for each in deeper for quote in each.quoted]
    of_deeper = [file for each in deeper for file in each.files]
    return Words(text="", quoted=tuple(found), files=(*_attachments(files, author or "somebody"), *of_deeper))


def _shown(mail: Message, name: str) -> str:
    return " ".join(str(mail.get(name) or "").split())


def _attachments(parts: Sequence[Message], said_by: str) -> Iterator[Attachment]:
    for part in parts:
        file = MailAttachment(part)
        name = file.filename or f"file.{file.content_type.rpartition('/')[2] or 'bin'}"
        yield Attachment(name=name, mime_type=file.content_type, data=file.payload, said_by=said_by)


def _cut(text: str) -> str:
    if len(text) <= MOST_QUOTED_CHARS:
        return text
    return f"{text[:MOST_QUOTED_CHARS]}\n[the rest is left out]"
