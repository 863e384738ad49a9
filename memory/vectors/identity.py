"""The settings that an index was made with, and what has to be made again when they change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nacre.memory.contracts.words import FIELDS
from nacre.memory.text.chunker import ChunkSizes
from nacre.memory.text.lexical import LEXICAL_VERSION
from nacre.memory.vectors.pieces import PIECES_VERSION

if TYPE_CHECKING:
    from nacre.memory.contracts.embedder import Embedder, EmbedderFacts

_TEXT_KEYS = ("chunking", "lexical")
_VECTOR_KEYS = ("provider", "model", "endpoint")
_EMBEDDER_KEYS = (*_VECTOR_KEYS, "pieces")
_PREFIX = "identity."


def wanted_identity(sizes: ChunkSizes, embedder: Embedder | None, analysis: str) -> dict[str, str]:
    """The identity of an index with these settings, as rows of `meta`; `analysis` is that of its place."""
    return {
        f"{_PREFIX}chunking": sizes.identity(),
        f"{_PREFIX}lexical": f"{LEXICAL_VERSION}:{analysis}:{','.join(FIELDS)}",
        f"{_PREFIX}provider": embedder.facts.provider if embedder else "none",
        f"{_PREFIX}model": embedder.facts.model if embedder else "",
        f"{_PREFIX}endpoint": embedder.facts.fingerprint if embedder else "",
        f"{_PREFIX}pieces": _pieces(embedder.facts.piece_tokens) if embedder else "",
    }


def _pieces(piece_tokens: int | None) -> str:
    return str(None) if piece_tokens is None else f"{PIECES_VERSION}:{piece_tokens}"


def stored_identity(meta: Mapping[str, str]) -> dict[str, str]:
    """The identity among the rows of `meta`; empty for a new index."""
    return {key: value for key, value in meta.items() if key.startswith(_PREFIX)}


def embedder_key(identity: Mapping[str, str]) -> str:
    """The key under which the vectors of this identity's embedder are stored."""
    return "\n".join(identity.get(_PREFIX + key, "") for key in _VECTOR_KEYS)


def facts_key(facts: EmbedderFacts) -> str:
    """The key under which the vectors of an embedder are stored."""
    return "\n".join((facts.provider, facts.model, facts.fingerprint))


def text_change(stored: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """Why chunks and words must be made again, as a clause, or `""`."""
    return _differences(stored, wanted, _TEXT_KEYS)


def embedder_change(stored: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """Why vectors must be made again, as a clause, or `""`."""
    return _differences(stored, wanted, _EMBEDDER_KEYS)


def identity_problem(stored: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """What the next sync will make again, as a sentence, or `""`."""
    if not stored:
        return ""
    if reason := text_change(stored, wanted):
        return f"The next sync rebuilds the index, because {reason}; until then the old one answers."
    if reason := embedder_change(stored, wanted):
        return f"The next sync makes new vectors, because {reason}; until then words alone are searched."
    return ""


def _differences(stored: Mapping[str, str], wanted: Mapping[str, str], names: tuple[str, ...]) -> str:
    if not stored:
        return ""
    return " and ".join(
        f"{name} changed from {stored.get(_PREFIX + name, '')!r} to {wanted[_PREFIX + name]!r}"
        for name in names
        if stored.get(_PREFIX + name) != wanted[_PREFIX + name]
    )


def is_index_of(meta: Mapping[str, str], embedder: str) -> bool:
    """Whether an index accepts vectors of the embedder with this key.

    Another process or a fallback may have given it another embedder, and vectors of two embedders must not be
    mixed.
    """
    identity = stored_identity(meta)
    return not identity or embedder_key(identity) == embedder
