"""Recognizes a model in the first words after `/new`; ambiguous words are not a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nacre.record import Record

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
