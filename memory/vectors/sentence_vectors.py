"""The vectors of the sentences of a few texts: each different sentence is embedded once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nacre.memory.contracts.embedder import TextRefused

if TYPE_CHECKING:
    from nacre.memory.contracts.embedder import Embedder
    from nacre.memory.contracts.store import Vector


async def sentence_vectors(
    embedder: Embedder, texts: Sequence[Sequence[str]], known: Mapping[str, Vector]
) -> Mapping[str, Vector]:
    """A vector for each sentence that was not refused; chunks overlap, so some are `known` already.

    One call for all texts: with one each, idle cores would wait for the last sentence of every text. After a
    refusal each text is asked for by itself.

    Raises:
        EmbeddingFailed: the embedder failed otherwise.
    """
    wanted = dict.fromkeys(sentence for of_text in texts for sentence in of_text)
    found = {sentence: known[sentence] for sentence in wanted if sentence in known}
    if not (new := [sentence for sentence in wanted if sentence not in found]):
        return found
    try:
        found |= zip(new, await embedder.embed_documents(new), strict=True)
    except TextRefused:
        for of_text in texts if len(texts) > 1 else ():
            found = {**found, **await sentence_vectors(embedder, [of_text], found)}
    return found
