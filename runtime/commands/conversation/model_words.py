"""Which model the first words after `/new` name. Pure; when in doubt they are words, not a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nacre.record import Record

DEFAULT = "default"
MIN_PART_CHARS = 6
"""A shorter piece of a model's name could be any word."""


class KnownModels(Record):
    """What can be named: models, other names for them, and providers whose models may all be named."""

    names: Sequence[str]
    aliases: Mapping[str, str]
    providers: Sequence[str]


class NamedModel(Record):
    """A model's name, empty for the settings' own model, and the words behind it.

    `is_sure` is false for a `provider/model` of a provider that is not in the settings: it may be a word
    with a slash.
    """

    name: str
    rest: str
    is_sure: bool = True


def named_model(text: str, known: KnownModels) -> NamedModel | None:
    """The model that a text begins with, or `None` when it begins with words.

    By its name in any case; by an alias; by the model's part alone; by provider and a part of the model,
    with a slash or a space between; by a part of at least six characters with a digit or a hyphen in it,
    if it is a part of one known model only. `default` alone is the settings' own model.
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
    # A model that is called like a common word is named with its provider.
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
