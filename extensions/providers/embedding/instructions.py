"""The prefixes of open embedding models for questions and notes.

Models that were trained with prefixes find markedly less without them. Gemini and Voyage have a parameter
instead. Source: the card of each model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """The prefixes for a question and for a note."""

    query: str = ""
    document: str = ""


_PASSAGES = "Represent this sentence for searching relevant passages: "
_BY_MODEL: Mapping[str, Instructions] = {
    "nomic-embed-text": Instructions(query="search_query: ", document="search_document: "),
    "multilingual-e5": Instructions(query="query: ", document="passage: "),
    "e5-": Instructions(query="query: ", document="passage: "),
    "bge-small-en": Instructions(query=_PASSAGES),
    "bge-base-en": Instructions(query=_PASSAGES),
    "bge-large-en": Instructions(query=_PASSAGES),
    "bge-large": Instructions(query=_PASSAGES),
    "mxbai-embed-large": Instructions(query=_PASSAGES),
    "snowflake-arctic-embed2": Instructions(query="query: "),
    "snowflake-arctic-embed-l-v2": Instructions(query="query: "),
    "snowflake-arctic-embed-m-v2": Instructions(query="query: "),
    "snowflake-arctic-embed": Instructions(query=_PASSAGES),
    "embeddinggemma": Instructions(query="task: search result | query: ", document="title: none | text: "),
    "qwen3-embedding": Instructions(
        query="Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
    ),
}
_NONE = Instructions()


def instructions_for(model: str) -> Instructions:
    """The prefixes of `model`, by the beginning of its name without folders; empty for an unknown model."""
    name = model.replace("\\", "/").rpartition("/")[2].lower()
    starts = [start for start in _BY_MODEL if name.startswith(start)]
    return _BY_MODEL[max(starts, key=len)] if starts else _NONE
