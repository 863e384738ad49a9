"""What open embedding models want in front of a question and of a note. Pure data and one look-up.

Models that were trained with such words find markedly less without them. Providers that take the purpose as a
parameter (Gemini, Voyage) are told that way and need none. The words are those of the models' own cards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """Text put before a question and before a note."""

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
    """What `model` wants, by the beginning of its name without folders; nothing for models not listed."""
    name = model.replace("\\", "/").rpartition("/")[2].lower()
    starts = [start for start in _BY_MODEL if name.startswith(start)]
    return _BY_MODEL[max(starts, key=len)] if starts else _NONE
