"""From an update of the Bot API to a message for the door, and the files that it brings. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from telegram import Message, MessageEntity, Update, User

from nacre.record import Record
from nacre.runtime.contracts.inbound import ChatKind, Inbound, Quoted

CHANNEL = "telegram"
_MOST = 2**52
_KINDS: Mapping[str, ChatKind] = {"private": "direct", "channel": "channel"}


class PassedOver(Exception):
    """An update that is no message of a person; the text says why, and no word of it."""


class RemoteFile(NamedTuple):
    """A file that lies on the server; `size_bytes` is 0 where it does not say."""

    file_id: str
    name: str
    mime_type: str
    size_bytes: int
    said_by: str = ""


class Heard(Record):
    """A message, without its files yet."""

    inbound: Inbound
    files: tuple[RemoteFile, ...] = ()


def number_of(raw: object) -> int | None:
    """An update's number, if it has one that can be: a far larger one would confirm all that is to come."""
    number = raw.get("update_id") if isinstance(raw, Mapping) else None
    return number if type(number) is int and 0 < number < _MOST else None


def heard(raw: object, me: User, account: str) -> Heard:
    """The message of an update.

    Raises:
        PassedOver: it is none, or is not whole.
    """
    if number_of(raw) is None or not isinstance(raw, Mapping):
        raise PassedOver("it has no number")
    try:
        update = Update.de_json(dict(raw), None)
        message = update.message
        if message is None:
            raise PassedOver("it is no new message")
        return _of_message(message, me, account)
    except PassedOver:
        raise
    except Exception as error:  # noqa: BLE001 - the library raises whatever a wrong type leads to
        raise PassedOver(f"it cannot be read: {type(error).__name__}") from None


def _of_message(message: Message, me: User, account: str) -> Heard:
    sender = message.sender_chat or message.from_user
    if sender is None:
        raise PassedOver("it has no sender")
    if message.migrate_to_chat_id is not None or message.migrate_from_chat_id is not None:
        old = message.chat.id if message.migrate_to_chat_id else message.migrate_from_chat_id
        new = message.migrate_to_chat_id or message.chat.id
        raise PassedOver(f"the group {old} is the supergroup {new} now; settings must name that, too")
    is_bot = message.sender_chat is None and bool(message.from_user and message.from_user.is_bot)
    if is_bot:
        raise PassedOver("a bot said it")
    author = _foreign_author(message)
    files = tuple(file._replace(said_by=author) for file in _files(message))
    text = _words(message, me)
    cards = _cards(message)
    if not (text.strip() or files or cards):
        raise PassedOver("it has nothing that can be read")
    ids = (message.chat.id, sender.id, message.message_id, message.message_thread_id or 0)
    if not all(type(number) is int for number in ids):
        raise PassedOver("its ids are no numbers")
    quoted = (Quoted(text=text, kind="forward", said_by=author),) if author and text.strip() else ()
    inbound = Inbound(
        text="" if author else text,
        quoted=(*quoted, *(Quoted(text=card, kind="attached message", said_by=author) for card in cards)),
        # Whatever kind comes new is a group, in which nothing private is said.
        chat_kind=_KINDS.get(str(message.chat.type), "group"),
        channel=CHANNEL,
        account=account,
        chat_id=str(message.chat.id),
        # Outside of topics the number only says what a message replies to.
        thread_id=str(message.message_thread_id) if message.is_topic_message is True else "",
        sender_id=str(sender.id),
        message_id=str(message.message_id),
        chat_name=str(message.chat.effective_name or ""),
        is_mentioned=_speaks_to(message, me),
    )
    return Heard(inbound=inbound, files=files)


def _foreign_author(message: Message) -> str:
    """Who wrote a message that its sender only passed on, as Telegram shows it; empty for the sender's own.

    A message made by an inline bot is the bot's. The fields before Bot API 7.0 count as well: a server of
    one's own may be older than the library.
    """
    old = message.api_kwargs
    if message.forward_origin is None and not any(key.startswith("forward_") for key in old):
        bot = message.via_bot
        return f"@{bot.username or bot.first_name}" if bot is not None else ""
    origin = message.forward_origin
    person = getattr(origin, "sender_user", None) or getattr(origin, "sender_chat", None)
    named = (
        getattr(person or getattr(origin, "chat", None), "effective_name", None),
        getattr(person, "full_name", None),
        getattr(origin, "sender_user_name", None),
        old.get("forward_sender_name"),
        *(_old_name(old.get(key)) for key in ("forward_from", "forward_from_chat")),
    )
    return next((name for name in named if isinstance(name, str) and name.strip()), "somebody")


def _old_name(raw: object) -> object:
    """The name of a user or chat as the older fields hold them."""
    if not isinstance(raw, Mapping):
        return None
    return raw.get("title") or raw.get("first_name") or raw.get("username")


def _words(message: Message, me: User) -> str:
    text = message.text or message.caption or ""
    if not isinstance(text, str):
        raise PassedOver("its text is no text")
    first = next(iter((*message.entities, *message.caption_entities)), None)
    if first is not None and first.offset == 0:
        word = _piece(message, first)
        if first.type == MessageEntity.BOT_COMMAND:
            name, _, bot = word.partition("@")
            if bot and _is_me(bot, me):
                text = name + text[len(word) :]
        elif first.type == MessageEntity.MENTION and _is_me(word[1:], me):
            text = text[len(word) :].lstrip()
    return "\n".join((*([text] if text else []), *_without_files(message)))


def _without_files(message: Message) -> Iterator[str]:
    """What else a message can be, in words."""
    if message.sticker is not None:
        yield f"[sticker {message.sticker.emoji or ''}]"
    if message.location is not None and message.venue is None:
        yield f"[location {message.location.latitude}, {message.location.longitude}]"
    if message.poll is not None:
        answers = ", ".join(repr(option.text) for option in message.poll.options)
        yield f"[poll {message.poll.question!r}: {answers}]"
    if message.dice is not None:
        yield f"[dice {message.dice.emoji} shows {message.dice.value}]"


def _cards(message: Message) -> list[str]:
    """A place or a contact, whose names somebody else has given."""
    cards = []
    if message.venue is not None:
        venue = message.venue
        at = venue.location
        cards.append(f"[place {venue.title!r}, {venue.address!r}, {at.latitude}, {at.longitude}]")
    if message.contact is not None:
        cards.append(f"[contact {message.contact.first_name!r}, {message.contact.phone_number!r}]")
    return cards


def _speaks_to(message: Message, me: User) -> bool:
    entities = (*message.entities, *message.caption_entities)
    return _answers(message, me) or any(_names(message, entity, me) for entity in entities)


def _answers(message: Message, me: User) -> bool:
    answered = message.reply_to_message
    # A topic's messages all "reply" to the one that opened it.
    if answered is None or answered.forum_topic_created is not None:
        return False
    return answered.from_user is not None and answered.from_user.id == me.id


def _names(message: Message, entity: MessageEntity, me: User) -> bool:
    if entity.type == MessageEntity.TEXT_MENTION:
        return entity.user is not None and entity.user.id == me.id
    if entity.type not in (MessageEntity.MENTION, MessageEntity.BOT_COMMAND):
        return False
    return _is_me(_piece(message, entity).partition("@")[2], me)


def _piece(message: Message, entity: MessageEntity) -> str:
    is_text = message.text is not None
    return str(message.parse_entity(entity) if is_text else message.parse_caption_entity(entity))


def _is_me(name: str, me: User) -> bool:
    return bool(me.username) and name.lower() == str(me.username).lower()


def _files(message: Message) -> Iterator[RemoteFile]:
    if message.photo:
        photo = max(message.photo, key=lambda size: size.width * size.height)
        yield _remote(photo, "photo.jpg", "image/jpeg")
    if message.document is not None and message.animation is None:
        yield _remote(message.document, "document", "application/octet-stream")
    if message.animation is not None:
        yield _remote(message.animation, "animation.mp4", "video/mp4")
    if message.voice is not None:
        yield _remote(message.voice, "voice.ogg", "audio/ogg")
    if message.audio is not None:
        yield _remote(message.audio, "audio.mp3", "audio/mpeg")
    if message.video is not None:
        yield _remote(message.video, "video.mp4", "video/mp4")
    if message.video_note is not None:
        yield _remote(message.video_note, "video.mp4", "video/mp4")


def _remote(file: Any, name: str, mime_type: str) -> RemoteFile:
    size = file.file_size
    return RemoteFile(
        file_id=str(file.file_id),
        name=str(getattr(file, "file_name", None) or name),
        mime_type=str(getattr(file, "mime_type", None) or mime_type),
        size_bytes=size if type(size) is int else 0,
    )
