"""The models that a chat can use: recognized by their names, and opened on first use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.events import Warned
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.models.failover import ModelChain
from nacre.runtime.turn.turn import Turn
from nacre.sessions.index.record import model_override

DEFAULT = "default"
MIN_PART_CHARS = 6
"""A shorter part of a model's name could be any word."""


class KnownModels(Record):
    """The models that can be named, their aliases, and the providers whose models can all be named."""

    names: Sequence[str]
    aliases: Mapping[str, str]
    providers: Sequence[str]


class NamedModel(Record):
    """A model's name (empty for the default model) and the text after it.

    `is_sure` is false for a `provider/model` whose provider is not in the settings: it may be a word with a
    slash.
    """

    name: str
    rest: str
    is_sure: bool = True


def named_model(text: str, known: KnownModels) -> NamedModel | None:
    """The model that a text begins with, or `None` if it begins with other words.

    It is recognized by its name in any case; an alias; the model part alone; the provider and a part of the
    model, separated by a slash or a space; or a part of at least six characters with a digit or a hyphen that
    occurs in only one known model. `default` alone is the default model.
    """
    if text.strip().lower() == DEFAULT:
        return NamedModel(name="", rest="")
    first, rest = _split(text)
    second, after = _split(rest)
    if not first:
        return None
    for words, left in ((f"{first}/{second}", after), (first, rest)):
        if name := _exact(words.lower(), known):
            return NamedModel(name=name, rest=left)
    providers = {provider.lower() for provider in known.providers}
    if first.lower() in providers and (name := _part(second.lower(), known, provider=first.lower())):
        return NamedModel(name=name, rest=after)
    provider, slash, model = first.partition("/")
    if slash and provider and model and first.isascii():
        return NamedModel(name=first, rest=rest, is_sure=provider.lower() in providers)
    if name := _part(first.lower(), known):
        return NamedModel(name=name, rest=rest)
    return None


def _split(text: str) -> tuple[str, str]:
    words = text.strip().split(maxsplit=1)
    return (words[0] if words else "", words[1] if len(words) > 1 else "")


def _exact(word: str, known: KnownModels) -> str:
    aliases = {alias.strip().lower(): name for alias, name in known.aliases.items()}
    named = {name.lower(): name for name in known.names} | aliases
    if word in named:
        return named[word]
    found = [name for name in known.names if name.partition("/")[2].lower() == word]
    # A model whose name is a common word must be named with its provider.
    return found[0] if len(found) == 1 and _looks_like_a_model(word) else ""


def _part(word: str, known: KnownModels, *, provider: str = "") -> str:
    if not word or not (provider or (len(word) >= MIN_PART_CHARS and _looks_like_a_model(word))):
        return ""
    found = [
        name
        for name in known.names
        if word in name.partition("/")[2].lower() and provider in ("", name.partition("/")[0].lower())
    ]
    return found[0] if len(found) == 1 else ""


def _looks_like_a_model(word: str) -> bool:
    return "-" in word or any(char.isdigit() for char in word)


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

    @property
    def names(self) -> Sequence[str]:
        return self._known.names

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
