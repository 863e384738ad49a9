"""What the agents of one process share: made once, closed after the last user."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AsyncExitStack
from typing import TypeVar, cast

from nacre.memory.contracts.embedder import Embedder
from nacre.record import Record
from nacre.runtime.agent.opening.open_models import model_key
from nacre.runtime.contracts.clock import Clock, NewId
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.extensions.host import MakeToolSource, OpeningAgent
from nacre.runtime.models.tokenizer import count_tokens_for, counted_once, estimate_tokens
from nacre.runtime.providers.opening import connected_model
from nacre.runtime.settings.config import Config
from nacre.runtime.tools.function import ToolSource

T = TypeVar("T")


@dataclasses.dataclass
class _Held:
    thing: object
    close: Callable[[], Awaitable[None]]
    users: int = 0


class Shared:
    """Models, embedders and other things that cost memory, connections or time. Used on one event loop.

    A thing without users is closed, or with `keeps` kept for the next user until `close`.
    """

    def __init__(self, *, keeps: bool = False) -> None:
        self._held: dict[Hashable, _Held] = {}
        self._keeps = keeps

    async def close(self) -> None:
        """Closes things without users. Its last user closes each other one."""
        self._keeps = False
        async with AsyncExitStack() as closing:
            for key in [key for key, held in self._held.items() if not held.users]:
                closing.push_async_callback(self._held.pop(key).close)

    def borrowed(
        self,
        key: Hashable,
        make: Callable[[], T],
        *,
        close: Callable[[T], Awaitable[None]],
        until: AsyncExitStack,
    ) -> T:
        """The thing with this key, made if nobody has it, and closed when the last user's `until` is.

        Equal keys must mean interchangeable things, so the key contains everything that `make` reads.
        """
        held = self._held.get(key)
        if held is None:
            made = make()
            held = self._held[key] = _Held(made, lambda: close(made))
        held.users += 1
        until.push_async_callback(self._release, key, held)
        return cast(T, held.thing)

    async def _release(self, key: Hashable, held: _Held) -> None:
        held.users -= 1
        if not held.users and not self._keeps:
            del self._held[key]
            await held.close()


class World(Record):
    """What an agent's parts are made with. `closing` closes what is opened with it."""

    now: Clock
    new_id: NewId
    watch: bool
    shared: Shared
    closing: AsyncExitStack
    on_demand: bool = False

    def model(self, config: Config, name: str) -> ChatModel:
        """A model by its litellm name, shared by all agents with the same settings for it."""
        return self.shared.borrowed(
            model_key(config, name, self.now),
            lambda: connected_model(config, name, self.now),
            close=lambda model: model.aclose(),
            until=self.closing,
        )

    def author_model(self, model: ChatModel) -> ChatModel:
        """A model that a bot author passed, perhaps to several agents."""
        return self.shared.borrowed(
            ("given", id(model)), lambda: model, close=lambda model: model.aclose(), until=self.closing
        )

    def embedder(self, key: Hashable, make: Callable[[], Embedder]) -> Embedder:
        """An embedder, shared by all agents with the same settings for it."""
        return self.shared.borrowed(
            ("embedder", key), make, close=lambda embedder: embedder.close(), until=self.closing
        )

    def opening(self, config: Config, on_note: Callable[[str], None]) -> OpeningAgent:
        """What extensions get of an agent that is being opened."""
        return OpeningAgent(
            config=config, now=self.now, embedder=self.embedder, on_note=on_note, closing=self.closing
        )

    def tool_source(self, config: Config, make: MakeToolSource) -> ToolSource:
        """A source of tools, shared by all agents of a state folder with the same settings."""
        return self.shared.borrowed(
            ("tool source", make, config.state_dir, config.settings.mcp.model_dump_json()),
            lambda: make(config, self.now),
            close=lambda source: source.close(),
            until=self.closing,
        )

    def count_tokens(self, model_name: str) -> Callable[[str], int]:
        """A counter with a cache that all agents share; without a name, it estimates."""
        count = count_tokens_for(model_name) if model_name else estimate_tokens
        return self.shared.borrowed(
            ("tokens", model_name),
            lambda: counted_once(count),
            close=_nothing_to_close,
            until=self.closing,
        )


async def _nothing_to_close(_thing: object) -> None: ...
