"""A part as a message: whom it goes to, its subject, its thread and its id. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, formataddr
from typing import NamedTuple

from nacre.bridges.contracts.bridge import Part
from nacre.extensions.email.messages import bare_subject, is_address
from nacre.extensions.email.settings import EmailSettings
from nacre.runtime.contracts.clock import Clock

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
MOST_REFERENCES = 30


class Answered(NamedTuple):
    """The message that a part answers, as its mailbox has it, under the number `uid`."""

    uid: str
    subject: str
    references: Sequence[str]


def composed(part: Part, settings: EmailSettings, answered: Answered | None, now: Clock) -> EmailMessage:
    """The message. Raises `ValueError` for a chat that is no addresses.

    Without `answered` nobody knows the subject any more; the thread is named all the same."""
    mail = EmailMessage(policy=SMTP.clone(max_line_length=900))
    name, subject = _one_line(settings.name), _one_line(bare_subject(answered.subject)) if answered else ""
    root = part.place.thread_id.partition("-")[0] or _hash(part.key)[:12]
    domain = settings.address.rpartition("@")[2]
    mail["From"] = formataddr((name, settings.address))
    mail["To"] = ", ".join(recipients(part))
    mail["Subject"] = f"Re: {subject}".strip() if part.answers else name
    mail["Date"] = format_datetime(now())
    mail["Message-ID"] = f"<{_hash(part.key)[:24]}.{root}@{domain}>"
    if re.fullmatch(r"<[^<>\s]+>", part.answers):
        known = [each for each in (answered.references if answered else ()) if each != part.answers]
        kept = [*known[:1], *known[1:][-MOST_REFERENCES:]]
        mail["In-Reply-To"] = part.answers
        mail["References"] = " ".join([*kept, part.answers])
    # Programs that hold to RFC 3834 do not answer this, and so there is no loop.
    mail["Auto-Submitted"] = "auto-replied"
    mail["X-Auto-Response-Suppress"] = "All"
    mail.set_content(_CONTROLS.sub("", part.text))
    return mail


def recipients(part: Part) -> list[str]:
    """Whom a part goes to: a chat is named by its people. Raises `ValueError` when they are no addresses."""
    people = part.place.chat_id.split(",")
    if not all(is_address(person) for person in people):
        raise ValueError(f"{part.place.chat_id!r} is no address")
    return people


def _one_line(text: str) -> str:
    return " ".join(_CONTROLS.sub(" ", text).split())


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
