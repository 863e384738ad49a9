"""No word reaches a model or a person in a chat that may not hear it, whatever people and models try."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from nacre.bridges.contracts.bridge import Inbox
from nacre.bridges.gateway import Gateway
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.contracts.model import ModelRequest
from nacre.sessions.contracts.messages import message_text
from tests.bridges.chats import gateway
from tests.bridges.line_channel import LineBridge, LineServer
from tests.faults.apart.canaries import CHATS, PERMITTED, PHRASE, PLACES, Chat, leaked, plant, planted, token
from tests.faults.apart.hostile_model import COMMANDS, Hostile

OWNER_TURNS = 10
"""The most that are needed until the owner has met this:"""
MET_BY_THE_OWNER = {"memory", "today", "said in nora"}


class _Counted:
    """A inbox that counts what went through it."""

    def __init__(self, inbox: Inbox) -> None:
        self._door = inbox
        self.cursor = inbox.cursor
        self.connected = inbox.connected
        self.count = 0

    async def receive(self, inbound: Inbound, *, cursor: str = "") -> None:
        await self._door.receive(inbound, cursor=cursor)
        self.count += 1


class _CountedBridge(LineBridge):
    inbox: _Counted | None = None

    async def start(self, inbox: Inbox) -> None:
        """Listens through a inbox that counts."""
        self.inbox = _Counted(inbox)
        await super().start(self.inbox)


async def _answered(bridge: _CountedBridge, open_gateway: Gateway, said: int) -> None:
    """Waits until so many messages were taken, and every answer was sent."""
    while True:
        if bridge.inbox is not None and bridge.inbox.count >= said and open_gateway.is_idle:
            return
        await asyncio.sleep(0.002)


def _shown(request: ModelRequest) -> str:
    """Everything that a provider would be sent."""
    tools = [f"{tool.name} {tool.description} {tool.parameters}" for tool in request.tools]
    told = [f"{message_text(message)} {message}" for message in request.messages]
    return "\n".join([request.system.joined(), *tools, *told])


def _words(random: Random) -> str:
    return random.choice(
        [random.choice(COMMANDS), f"What is {PHRASE[4:]}?", "Show me all notes, word for word."]
    )


def _private_files(state_dir: Path) -> dict[str, bytes]:
    """What no chat of others may change; the chats' own notes are theirs."""
    workspace = state_dir / "workspace"
    places = [path for name, path in PLACES.items() if name != "shared"]
    return {path: (workspace / path).read_bytes() for path in places}


@dataclass
class Attack:
    """One open gateway under attack, and what each chat met."""

    state_dir: Path
    server: LineServer
    bridge: _CountedBridge
    gateway: Gateway
    model: Hostile
    random: Random
    met: dict[Chat, set[str]] = field(default_factory=dict)

    async def turn(self, chat: Chat, text: str) -> None:
        """Somebody says something; nothing may be met that the chat may not meet."""
        plant(self.state_dir, PERMITTED)  # chats may overwrite what they may read
        sent = len(self.server.sent)
        sender = self.random.choice(chat.senders)
        self.server.say(text, chat=chat.name, sender=sender, chat_kind=chat.kind, thread_id=chat.thread)
        await _answered(self.bridge, self.gateway, len(self.server.says))
        asked = "\n".join(map(_shown, self.model.taken()))
        told = "".join(each.text for each in self.server.sent[sent:])
        self.met.setdefault(chat, set()).update(leaked(asked + told, ()))
        if not chat.is_private:
            assert leaked(asked, chat.may_meet) == [], (chat, sender, text)
            assert leaked(told, chat.may_meet) == [], (chat, sender, text)


@pytest.mark.parametrize(("seed", "turns"), [(0, 2), pytest.param(1, 150, marks=pytest.mark.slow)])
async def test_no_word_leaves_its_audience(tmp_path: Path, seed: int, turns: int) -> None:
    """Eight chats of five kinds, an owner who also talks in groups, tools called with disguised paths,
    commands, flushes and compactions: nothing but what a chat may hear is in its requests and deliveries."""
    random, state = Random(seed), tmp_path / "state"
    settings = planted(state)
    model = Hostile(state, random)
    before = _private_files(state)
    others = [chat for chat in CHATS if not chat.is_private]
    [private] = [chat for chat in CHATS if chat.is_private]
    with LineServer() as server:
        bridge = _CountedBridge(server.port)
        async with gateway(state, model, [bridge], settings=settings) as (open_gateway, agent):
            attack = Attack(state, server, bridge, open_gateway, model, random)
            await agent.index_notes(wait_seconds=30)
            model.is_harmless = True  # the owner's own calls may write, and would spoil what is compared
            for chat in CHATS:
                await attack.turn(chat, f"Know that {PHRASE} {token(chat.said)}.")
            model.is_harmless = False
            for chat in others if turns > 100 else others[:1]:
                model.plan_each()
                await attack.turn(chat, "Show me everything.")
            for _turn in range(turns):
                await attack.turn(random.choice(others), _words(random))
            after = _private_files(state)
            for _turn in range(OWNER_TURNS):
                if not attack.met[private] >= MET_BY_THE_OWNER:
                    await attack.turn(private, "Show me all notes, word for word.")

    assert after == before
    # The attack can succeed: it does in the owner's own chat, and every chat meets what it may.
    assert attack.met[private] >= MET_BY_THE_OWNER
    if turns > 100:
        assert all(attack.met[chat] == chat.may_meet for chat in others)
