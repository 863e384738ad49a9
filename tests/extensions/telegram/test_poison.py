"""Orders of others that the owner passes on by Telegram, through a whole gateway, never live on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.telegram.bridge import TelegramBridge
from tests.extensions.telegram.bot_api import TOKEN, BotApi
from tests.faults.apart.obeying import WORDINGS
from tests.faults.apart.poisoned_home import CHANNELS, COUNTS, Home, honest, lived, served, until_obeyed

pytestmark = pytest.mark.channels

EVE = {"id": 8, "is_bot": False, "first_name": "Eve"}
NEWS = {"id": -100300, "type": "channel", "title": "News"}
ORIGINS: Mapping[str, Mapping[str, Any]] = {
    "user": {"forward_origin": {"type": "user", "date": 1, "sender_user": EVE}},
    "hidden user": {"forward_origin": {"type": "hidden_user", "date": 1, "sender_user_name": "Eve"}},
    "channel": {"forward_origin": {"type": "channel", "date": 1, "chat": NEWS, "message_id": 4}},
    "old server": {"forward_from": EVE, "forward_date": 1},
    "inline bot": {"via_bot": {"id": 9, "is_bot": True, "first_name": "Gifs", "username": "gifs_bot"}},
}


def passed_on(way: str, text: str) -> dict[str, Any]:
    """The fields of a message by which the owner passes something on."""
    if way in ORIGINS:
        return {"text": text, **ORIGINS[way]}
    if way == "contact":
        return {"text": "", "contact": {"phone_number": "1", "first_name": text}}
    assert way == "venue"
    place = {"latitude": 1.5, "longitude": 2.5}
    return {"text": "", "location": place, "venue": {"location": place, "title": text, "address": "A"}}


@pytest.mark.parametrize("way", [*ORIGINS, "contact", "venue"])
@COUNTS
async def test_what_the_owner_passes_on(tmp_path: Path, way: str, count: int) -> None:
    """Forwards of every kind, contacts and places, each with every wording."""
    home = Home(tmp_path, CHANNELS)
    orders = {f"zq{number}x": text for number, text in enumerate(WORDINGS[:count], 1)}
    with BotApi() as server:
        bridge = TelegramBridge(account="default", token=TOKEN, server=server.url, file_bytes=1_000)
        async with served(home, bridge) as gateway:
            for order, text in orders.items():
                server.say(**passed_on(way, text.format(order=order)))
                await until_obeyed(home, gateway, order)
    assert await lived(home, [*orders]) == []
    assert await honest(home, 6) == (6, 0)
