"""Messages from bridges, and replies to them. A public contract: fields are only ever added."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import field
from typing import Any, Generic, Literal, TypeAlias
from urllib.parse import quote

from typing_extensions import TypeVar

from nacre.record import Record
from nacre.sessions.contracts.messages import Usage

OutputT_co = TypeVar("OutputT_co", covariant=True, default=Any)

ChatKind: TypeAlias = Literal["direct", "group", "channel"]
Trigger: TypeAlias = Literal["", "heartbeat", "schedule"]
QuoteKind: TypeAlias = Literal["forward", "quote", "attached message"]
CHAT_KINDS: tuple[ChatKind, ...] = ("direct", "group", "channel")


class Attachment(Record):
    """A file that came with a message: its name, MIME type and bytes.

    `problem` says why the bytes are missing, if a bridge did not fetch them. `said_by` is the author of a
    forwarded file, as in `Quoted`; it is empty for a file of the sender.
    """

    name: str
    mime_type: str
    data: bytes = field(repr=False)
    problem: str = ""
    said_by: str = ""


class Quoted(Record):
    """Words in a message that its sender did not write: forwarded, quoted, or attached as a message.

    `said_by` is the author according to the message. The name is not verified, so these words are never the
    owner's. `label` is the mark in `Inbound.text` at the place of the words, such as `[quote 1]`; it is empty
    if they follow the text.
    """

    text: str
    kind: QuoteKind
    said_by: str = ""
    label: str = ""


class Inbound(Record):
    """One message from a chat.

    `chat_kind` has no default: a bridge must say whether this is a private chat. Any value other than
    `direct` is treated as a group, so an unknown kind can only hide memory, never show it. `is_owner` says
    that the sender is the assistant's owner; it defaults to `False` for the same reason. `session_key` names
    a session explicitly and takes precedence over the derived key. `chat_name` is the chat's display name in
    lists of sessions. `sender_name` is the sender's display name, which a model in a group reads beside the
    id. Neither name decides anything.

    Ids are compared byte by byte: `alice` and `Alice` are two people with a session each. A bridge whose
    channel ignores case, as e-mail and IRC do, sets `ids_fold_case`. A direct message that is not the
    owner's needs a `sender_id`.

    `text` has only the sender's own words. Words of others are in `quoted`: a model reads them marked with
    their author, they are never a command, and no note attributes them to the sender.

    `is_mentioned` says that a message in a group addresses the assistant. `redelivered` says that the
    message was delivered before to a program that then ended: a stored message is not stored again, and an
    existing answer is returned without asking a model. `joined_by` are the `inbound_id`s of messages that
    joined its turn.

    `trigger` is the cause of a message that nobody sent. A heartbeat has no `text`: its text comes from
    HEARTBEAT.md. A triggered message is never a command, and neither ends a session nor keeps it from
    expiring.

    `context` is any object of the program, for tools, prompt parts, hooks and sub-agents of the turn. It is
    neither stored nor sent, so a message that waits on disk loses it.
    """

    text: str
    chat_kind: ChatKind
    channel: str = "terminal"
    account: str = "default"
    chat_id: str = ""
    thread_id: str = ""
    sender_id: str = ""
    sender_name: str = ""
    message_id: str = ""
    attachments: tuple[Attachment, ...] = ()
    quoted: tuple[Quoted, ...] = ()
    is_owner: bool = False
    session_key: str = ""
    chat_name: str = ""
    ids_fold_case: bool = False
    is_mentioned: bool = False
    redelivered: bool = False
    joined_by: tuple[str, ...] = ()
    trigger: Trigger = ""
    context: Any = field(default=None, repr=False, compare=False)

    @property
    def has_foreign_words(self) -> bool:
        """Whether the message has parts that its sender may not have written: quotes or files."""
        return bool(self.quoted or self.attachments)

    @property
    def inbound_id(self) -> str:
        """The message's unique name across channels, accounts and chats; empty without a `message_id`."""
        if not self.message_id:
            return ""
        parts = (self.channel, self.account, self.chat_id, self.message_id)
        return "/".join(quote(part, safe="", errors="replace") for part in parts)


class Reply(Record, Generic[OutputT_co]):
    """The reply to a chat. Silence is `None`, not a `Reply`.

    `is_command` marks the answer to a chat command such as `/status`, which no model wrote. `notice` is a
    sentence for the owner to show below the text; it may be empty. `usage` sums the tokens and the cost in US
    dollars of the turn's model calls, as the provider reported them; `None` if it reported none. With an
    `output_type`, `output` is the value and `text` its JSON.
    """

    text: str
    session_key: str
    session_id: str
    is_command: bool = False
    notice: str = ""
    usage: Usage | None = None
    output: OutputT_co = field(default=None)  # type: ignore[assignment]  # checked where a type is asked for


RESET_TRIGGERS = ("/new", "/reset")
"""The default words that begin a new session."""

_RECORDED = ("/new", "/reset", "/resume", "/compact", "/rewind", "/fork", "/label", "/status", "/help")
"""Commands in transcripts of other programs and earlier versions; Nacre does not record them any more."""

_ADDRESSED = re.compile(r"(?:<@!?\w+>|@[\w.-]+)[,:]?\s+(?=/)|(/[A-Za-z][\w-]*)@\w+")
_WORD_ENDS = re.compile(r"\s*:|\s|$")

_SLASH_WORD = re.compile(r"(/[A-Za-z][A-Za-z0-9_-]{0,31})(?=\s*:|\s|$)\s*(.*)", re.DOTALL)


def called_word(text: str, words: Collection[str]) -> tuple[str, str] | None:
    """The word in `words` (lower case) with which a message begins, and the text after it.

    Case is ignored. The assistant's name (`@name /new`, `/new@name`) is skipped. The longest word wins.
    """
    text = _unaddressed(text)
    for length in sorted(set(map(len, words)), reverse=True):
        word = text[:length].lower()
        if word in words and _WORD_ENDS.match(text, length):
            return word, re.sub(r"^\s*:", "", text[length:]).strip()
    return None


def slash_word(text: str) -> tuple[str, str] | None:
    """A message's first word with its slash, and the text after it; `None` without a slash word."""
    match = _SLASH_WORD.fullmatch(_unaddressed(text))
    return None if match is None else (match[1], match[2])


def was_command(text: str) -> bool:
    """Whether words in a transcript were a command, or a typo of one."""
    if not text.lstrip().startswith(("/", "@", "<")):  # the command, or the name before it
        return False
    slip = slash_word(text)
    return called_word(text, _RECORDED) is not None or (slip is not None and not slip[1])


def _unaddressed(text: str) -> str:
    text = text.strip()
    match = _ADDRESSED.match(text)  # a search would read all of a long message
    return text if match is None else (match[1] or "") + text[match.end() :]
