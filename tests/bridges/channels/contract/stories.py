"""What must hold on every channel against its real server: inherit `ChannelStories` and give `world`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre.bridges.contracts.bridge import Capabilities
from nacre.bridges.delivery.outgoing import REPEAT_MARK
from tests.bridges.channels.contract.world import GROUP, World, until
from tests.bridges.chats import Answering, gateway
from tests.bridges.faults.kill_driver import TAIL
from tests.runtime.agents import user_texts

DRIVER = Path(__file__).with_name("kill_driver.py")
ROOT = Path(__file__).parents[4]
SECRET = "The harbour code is 7313"
MOST_STEPS = 80


def settings_of(world: World) -> dict[str, Any]:
    """Ann is the owner, and everybody in the group is answered."""
    return {
        "channels": {world.channel: GROUP},
        "commands": {"ownerAllowFrom": [f"{world.channel}:{world.ann}"]},
        "messages": {"queue": {"debounceMs": 1}},
    }


class ChannelStories:
    """Inherit it. The tests are async functions."""

    def world(self, folder: Path) -> AbstractAsyncContextManager[World]:
        """The server, with Ann."""
        raise NotImplementedError("Override world(self, folder).")

    async def test_what_was_said_in_private_is_remembered_there_and_not_in_the_group(
        self, tmp_path: Path
    ) -> None:
        """A new conversation recalls the note; the same question in the group finds nothing of it."""
        async with self.world(tmp_path) as world, _running(tmp_path, world, None):
            await world.meet()
            await world.say(f"Remember that {SECRET[0].lower()}{SECRET[1:]}.")
            await until(lambda: any("7313" in text for text in world.shown()), world.shown)
            seen = len(world.shown())
            await world.say("/new")
            await until(lambda: len(world.shown()) > seen, world.shown)
            seen = len(world.shown())
            await world.say("What is the harbour code?")
            await until(lambda: any("7313" in text for text in world.shown()[seen:]), world.shown)
            await world.say("What is the harbour code?", group=True)
            await until(lambda: world.shown(group=True))
            await world.say("hello", group=True)
            await until(lambda: any("ello" in text for text in world.shown(group=True)[1:]), world.shown)
            assert not [text for text in world.shown(group=True) if "7313" in text]

    async def test_a_restart_in_mid_turn_answers_once(self, tmp_path: Path) -> None:
        """The program ends while a model thinks; the next one finishes the turn."""
        async with self.world(tmp_path) as world:
            model = Answering()
            model.holds = True
            async with _running(tmp_path, world, model):
                await world.meet()
                await world.say("one")
                await until(lambda: not model.held.empty())
            await world.part()
            async with _running(tmp_path, world, Answering(), ids="b"):
                await world.meet()
                await until(lambda: world.shown(), world.shown)
                await world.say("two")
                await until(lambda: len(world.shown()) > 1, world.shown)
            assert list(world.shown()) == ["re: one", "re: two"]

    async def test_an_answer_outlasts_a_server_that_is_gone(self, tmp_path: Path) -> None:
        """The server ends while a model thinks, and is there again later: the answer comes then, once."""
        async with self.world(tmp_path) as world:
            model = Answering()
            async with _running(tmp_path, world, model) as statuses:
                await world.meet()
                model.holds = True
                await world.say("one")
                await until(lambda: not model.held.empty())
                await world.server_stops()
                await until(lambda: statuses()[0].state != "connected", statuses)
                model.holds = False
                model.let_go()
                await world.server_starts()
                await until(lambda: world.shown(), statuses)
                await world.meet()
                await world.say("two")
                await until(lambda: len(world.shown()) > 1, world.shown)
            assert list(world.shown()) == ["re: one", "re: two"]

    async def test_a_thread_is_answered_in_the_thread(self, tmp_path: Path) -> None:
        """Where the channel has threads: what is said in one is not said beside it."""
        async with self.world(tmp_path) as world, _running(tmp_path, world, Answering()):
            if not world.has_threads:
                pytest.skip(f"{world.channel} has no threads")
            await world.meet()
            await world.say("root", group=True)
            await until(lambda: world.shown(group=True), world.shown)
            await world.say("below", group=True, thread="root")
            await until(lambda: world.shown(group=True, thread="root"))
            assert list(world.shown(group=True, thread="root")) == ["re: below"]
            assert list(world.shown(group=True)) == ["re: root"]

    @pytest.mark.slow
    @pytest.mark.timeout(2_400)
    async def test_a_kill_at_any_step_loses_and_doubles_nothing(self, tmp_path: Path) -> None:
        """Each step between a message and its delivery is killed once, and a second process goes on.

        What a server does not keep is lost when the kill comes before the words are on disk, and only then.
        """
        lost, kills, repeats, problems = [], 0, 0, []
        past: list[str] = []
        async with self.world(tmp_path) as world, _driver() as driver:
            for kill_at in range(1, MOST_STEPS):
                order = Order(driver, world, tmp_path / f"state-{kill_at}")
                one, last = f"one {kill_at}", f"end {kill_at}"
                was_killed = await order.run(kill_at, one)
                if was_killed:
                    kills += 1
                    await order.run(0, last)
                # A person who comes back may read again what was said at earlier steps.
                new = [text for text in world.shown() if not any(one.startswith(text) for one in past)]
                shown = _whole(new, world.bridge().capabilities)
                repeats += sum(text.startswith(REPEAT_MARK) for text in shown)
                plain = list(dict.fromkeys(text.removeprefix(REPEAT_MARK) for text in shown))
                marked_once = [text for text in shown if not text.startswith(REPEAT_MARK)]
                wanted = [f"re: {text}{TAIL}" for text in order.said]
                past += [*wanted, *(f"{REPEAT_MARK}{text}" for text in wanted)]
                if plain == wanted[1:] and not world.keeps_messages and one not in order.heard():
                    lost.append(kill_at)
                elif plain != wanted or len(set(marked_once)) != len(marked_once):
                    problems.append(f"step {kill_at}: {shown}")
                if not was_killed:
                    break
        print(f"{world.channel}: {kills} kills, {repeats} repeats marked, lost before the disk: {lost}")  # noqa: T201 - figures of docs/engineering/faults.md
        assert not problems, "\n".join(problems)
        assert kills > 10
        assert not (lost and world.keeps_messages)


def _whole(shown: list[str], can: Capabilities) -> list[str]:
    """What is shown, without beginnings of answers that were left standing where nobody can know of them."""
    if can.has_idempotent_sends or can.can_read_back or not can.can_edit:
        return shown
    wholes = [text for text in shown if text.endswith(TAIL)]
    beginnings = [text for text in shown if not any(whole.endswith(text) for whole in wholes)]
    assert all(any(text in whole for whole in wholes) for text in beginnings), shown
    return wholes


class Order:
    """Processes over one state folder."""

    def __init__(self, driver: asyncio.subprocess.Process, world: World, state: Path) -> None:
        self._driver = driver
        self._world = world
        self._state = state
        self.said: list[str] = []
        """What Ann could say."""

    async def run(self, kill_at: int, text: str) -> bool:
        """Starts a process to which Ann says `text`; whether it was killed before it had sent the answer."""
        what = {
            "maker": self._world.maker,
            "spec": self._world.spec,
            "state": str(self._state),
            "settings": {
                **settings_of(self._world),
                "messages": {"queue": {"mode": "followup", "debounceMs": 0}, "inbound": {"debounceMs": 0}},
                "plugins": {"slots": {"memory": "none"}},
            },
            "kill_at": kill_at,
            # No two ledgers have an id in common, and servers remember what had which.
            "ids": f"{self._state.name}-{'a' if kill_at else 'b'}",
            "until": f"re: {text}{TAIL}",
        }
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        if self._world.keeps_messages:
            await self._say(text)
        self._driver.stdin.write(json.dumps(what).encode() + b"\n")
        ending = asyncio.create_task(self._driver.stdout.readline())
        if not self._world.keeps_messages:
            meeting = asyncio.create_task(self._world.meet())
            await asyncio.wait({ending, meeting}, return_when=asyncio.FIRST_COMPLETED)
            if meeting.done():
                await self._say(text)
            meeting.cancel()
        async with asyncio.timeout(120):
            ended = json.loads(await ending)
        await self._world.part()
        assert ended["signal"] is not None or ended["status"] == 0, ended
        return ended["signal"] is not None

    async def _say(self, text: str) -> None:
        self.said.append(text)
        await self._world.say(text)

    def heard(self) -> list[str]:
        """What stands in the transcripts as said by people."""
        files = (self._state / "agents/main/sessions").glob("*.jsonl")
        return [text for file in files for text in user_texts(file)]


@asynccontextmanager
async def _driver() -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        str(DRIVER),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


@asynccontextmanager
async def _running(folder: Path, world: World, model: Any, *, ids: str = "") -> AsyncIterator[Any]:
    """A gateway on the world's channel; gives how its bridges are."""
    running = gateway(folder / "state", model, [world.bridge()], settings=settings_of(world), ids=ids)
    async with running as (at, _agent):
        await until(lambda: at.statuses[0].state == "connected", lambda: at.statuses)
        yield lambda: at.statuses
