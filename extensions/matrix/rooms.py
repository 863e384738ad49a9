"""What a room is, and what of its past is to be heard. Pure.

A room is private when the assistant's account holds it for a private chat (`m.direct`), exactly one other
person is in it and nobody is invited, and nobody else can come in or read there unasked. Whatever else is a
group. nio's own `is_group` says something else: that a room has no name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nio import MatrixRoom

from nacre.record import Record

Json = Mapping[str, Any]
_CLOSED = ("invite", "knock", "private")
FIRST_LOOK_BACK_MS = 10 * 60 * 1_000
"""How far back rooms are read at the very first start."""


class RoomView(Record):
    """A room. `private_with` is the other person in it, empty in a group."""

    room_id: str
    name: str
    private_with: str = ""

    @property
    def chat_id(self) -> str:
        """The chat: a private one is the room with this one person, so that it ends when others come in."""
        return f"{self.room_id} {self.private_with}" if self.private_with else self.room_id


def view(room: MatrixRoom, direct: Mapping[str, Sequence[str]]) -> RoomView:
    """What a room is. `direct`: the rooms of private chats by person, as the account holds them."""
    others = [user for user in room.users if user != room.own_user_id]
    is_private = (
        len(others) == 1
        and not room.invited_users
        and room.room_id in direct.get(others[0], ())
        and room.join_rule in _CLOSED
        and room.history_visibility != "world_readable"
    )
    name = room.named_room_name() or ""
    return RoomView(room_id=room.room_id, name=name, private_with=others[0] if is_private else "")


def read_direct(content: object) -> dict[str, list[str]]:
    """`m.direct`, without what is no id."""
    if not isinstance(content, Mapping):
        return {}
    return {
        user: [room for room in rooms if isinstance(room, str)]
        for user, rooms in content.items()
        if isinstance(user, str) and isinstance(rooms, list)
    }


def with_direct(direct: Mapping[str, Sequence[str]], user: str, room_id: str) -> dict[str, list[str]]:
    """The same with one more private chat."""
    rooms = [known for known in direct.get(user, ()) if known != room_id]
    return {**{name: list(known) for name, known in direct.items()}, user: [*rooms, room_id]}


def invitation(events: Sequence[Json], me: str) -> tuple[str, bool] | None:
    """Who invited the assistant, and whether to a private chat; `None` where nobody did."""
    for event in events:
        content = event.get("content")
        if event.get("type") != "m.room.member" or event.get("state_key") != me:
            continue
        if isinstance(content, Mapping) and content.get("membership") == "invite":
            return str(event.get("sender", "")), content.get("is_direct") is True
    return None


def arrival(events: Sequence[Json], me: str) -> int | None:
    """Where in a timeline the assistant was invited or came in last; what is before is not for it."""
    found = (number for number in reversed(range(len(events))) if _arrives(events[number], me))
    return next(found, None)


def to_hear(events: Sequence[Json], me: str, *, first_ms: int | None) -> Iterator[Json]:
    """What of a timeline is to be heard, the oldest first.

    `first_ms` is when the assistant was started for the very first time, while nothing is known of an earlier
    start: then what it answered before that, and what is older than `FIRST_LOOK_BACK_MS`, is left out.
    """
    begin = arrival(events, me) or 0
    if first_ms is not None:
        own = [
            n for n, event in enumerate(events) if event.get("sender") == me and _sent_ms(event) < first_ms
        ]
        begin = max([begin, *own])
    for event in events[begin:]:
        if first_ms is None or _sent_ms(event) >= first_ms - FIRST_LOOK_BACK_MS:
            yield event


def _arrives(event: Json, me: str) -> bool:
    if event.get("type") != "m.room.member" or event.get("state_key") != me:
        return False
    unsigned = event.get("unsigned")
    before = unsigned.get("prev_content") if isinstance(unsigned, Mapping) else None
    was = before.get("membership") if isinstance(before, Mapping) else None
    content = event.get("content")
    is_now = content.get("membership") if isinstance(content, Mapping) else None
    return (is_now == "invite" and was != "invite") or (is_now == "join" and was not in ("join", "invite"))


def _sent_ms(event: Json) -> int:
    at = event.get("origin_server_ts")
    return at if type(at) is int else 0
