"""In which languages the notes are: told by a sample when a pass changed something, and kept in the index."""

from __future__ import annotations

from collections.abc import Mapping

from nacre.memory.contracts.store import Store
from nacre.memory.text.languages import languages_in

_ROW = "languages"
_SAMPLE = 120
"""Enough texts for a language that a twentieth of the notes is in."""


def stored_languages(meta: Mapping[str, str]) -> tuple[str, ...]:
    """The languages by their English names, as an earlier pass left them."""
    return tuple(meta.get(_ROW, "").split())


async def language_rows(store: Store, meta: Mapping[str, str], *, has_changed: bool) -> dict[str, str]:
    """What `meta` needs to tell the languages again; nothing while they cannot have changed."""
    if _ROW in meta and not has_changed:
        return {}
    texts = await store.read(lambda index: index.sampled_texts(_SAMPLE))
    return {_ROW: " ".join(languages_in(texts))}
