"""What the worlds of real servers have in common: a server that comes and goes, and Ann beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, Protocol, TypeVar

from nacre.bridges.contracts.bridge import Bridge, Place
from nacre.bridges.contracts.bridge_contract import FarSide
from tests.bridges.channels.contract.servers import ServerProcess
from tests.bridges.channels.contract.world import World, until


class Somebody(Protocol):
    """A person with a program of their own."""

    async def join(self) -> None:
        """Connects, and is where the assistant is."""
        ...

    async def leave(self) -> None:
        """Hangs up."""
        ...


class Loopback(Protocol):
    """A server in the process of the test."""

    def start(self) -> None:
        """Answers, at the same address each time."""
        ...

    def stop(self) -> None:
        """Answers no more."""
        ...


V = TypeVar("V")
L = TypeVar("L", bound=Loopback)


class MadeWorld(Generic[V]):
    """What each `World` does with its server. `make` is the function that `maker` names."""

    def __init__(self, server: V, make: Callable[[dict[str, Any]], Bridge]) -> None:
        self.server = server
        # pytest puts the name of the checkout's folder in front of a test's module
        self.maker = f"tests.{make.__module__.partition('tests.')[2]}:{make.__name__}"
        self.spec: dict[str, Any] = {}
        self._make = make

    def bridge(self) -> Bridge:
        """A new bridge."""
        return self._make(self.spec)

    async def meet(self) -> None:
        """Ann can always say something."""

    async def part(self) -> None:
        """And needs not see who is there."""


class ServedWorld(MadeWorld[ServerProcess]):
    """A server that is a process, and Ann, who is connected to it."""

    person: Somebody

    async def server_stops(self) -> None:
        """Ends the server."""
        await self.server.stop()
        await self.person.leave()

    async def server_starts(self) -> None:
        """Starts it, and Ann joins."""
        await self.server.start()
        await self.person.join()


class LoopbackWorld(MadeWorld[L]):
    """A server in the process of the test, where Ann says what the test says."""

    keeps_messages = True
    has_threads = True

    async def server_stops(self) -> None:
        """Nobody answers there any more."""
        self.server.stop()

    async def server_starts(self) -> None:
        """There again."""
        self.server.start()


S = TypeVar("S", bound=ServedWorld)
W = TypeVar("W", bound=World)


@asynccontextmanager
async def inhabited(
    serving: AbstractAsyncContextManager[ServerProcess], make: Callable[[ServerProcess], S]
) -> AsyncIterator[S]:
    """The world of a server, with Ann in it."""
    async with serving as server:
        world = make(server)
        await world.person.join()
        try:
            yield world
        finally:
            await world.person.leave()


class WorldFarSide(Generic[W]):
    """A chat of a world as the contract's tests see it: Ann's private one."""

    def __init__(self, world: W) -> None:
        self.world = world

    @property
    def place(self) -> Place:
        """The private chat."""
        return Place(channel=self.world.channel, account="default", chat_id=self.world.ann)

    def bridge(self) -> Bridge:
        """A new bridge."""
        return self.world.bridge()

    async def say(self, text: str) -> None:
        """Ann says it."""
        await self.world.say(text)

    async def shown(self, least: int) -> Sequence[str]:
        """What Ann sees."""
        await until(lambda: len(self.world.shown()) >= least, self.world.shown)
        return self.world.shown()

    async def cut(self) -> None:
        """The server ends and starts anew."""
        await self.world.server_stops()
        await self.world.server_starts()


@asynccontextmanager
async def far_side_of(
    open_world: Callable[[Path], AbstractAsyncContextManager[W]], make: Callable[[W], FarSide]
) -> AsyncIterator[FarSide]:
    """The far side of a world that is opened for it."""
    with TemporaryDirectory() as folder:
        async with open_world(Path(folder)) as world:
            yield make(world)
