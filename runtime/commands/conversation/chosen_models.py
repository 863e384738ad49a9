"""The models that the owner chose for individual chats (`/new openai/gpt-5-mini`), opened on first use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from nacre.runtime.commands.conversation.model_words import KnownModels, NamedModel, named_model
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.events import Warned
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.models.failover import ModelChain
from nacre.runtime.turn.turn import Turn
from nacre.sessions.index.record import model_override


class ChosenModels:
    """The models of an agent: the default, the possible choices, and the opened chains.

    `open_chain` creates a chain that begins with a model. `is_model` says whether a name that is not in the
    settings is a model, and may read a file.
    """

    def __init__(
        self,
        default: ModelChain,
        *,
        known: KnownModels,
        open_chain: Callable[[ChatModel | str], ModelChain],
        is_model: Callable[[str], bool],
    ) -> None:
        self.default = default
        """The models of chats without a choice."""
        self._known = known
        self._open_chain = open_chain
        self._is_model = is_model
        self._chains: dict[str, ModelChain] = {}

    @property
    def default_name(self) -> str:
        """The first model of chats without a choice."""
        return self.default.first.model.name

    async def named(self, text: str) -> NamedModel | None:
        """The model that a text begins with; the default has an empty name."""
        found = named_model(text, self._known)
        if found is None or (not found.is_sure and not await asyncio.to_thread(self._is_model, found.name)):
            return None
        return replace(found, name="") if found.name == self.default_name else found

    def chain(self, model: ChatModel | str) -> ModelChain:
        """The chain that begins with a model; a named chain is opened once.

        Raises:
            ConfigError: the model's context window is too small.
        """
        if not isinstance(model, str):
            return self._open_chain(model)
        chain = self._chains[model] = self._chains.get(model) or self._open_chain(model)
        return chain

    def applied(self, turn: Turn) -> Turn:
        """The turn with its session's model first and the others as fallbacks."""
        name = model_override(turn.session.line.record)
        chain = self.default
        if name and "/" not in name:
            name = f"{self.default_name.partition('/')[0]}/{name}"
        if name and name != self.default_name:
            try:
                chain = self.chain(name)
            except ConfigError as error:
                text = f"{name} was chosen for this chat and cannot be used: {error} /new default ends that."
                turn.emit(Warned(message=text))
        return turn.with_models(chain)
