"""The embedder that arrives with the install, with one question's vector already under way.

Should the process that works at it fail, the question is embedded here, as if there had been none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nacre.memory.embedders.minilm import MiniLmEmbedder
from nacre.memory.embedders.question_ahead import QuestionAhead


class AskedAhead(MiniLmEmbedder):
    """Has the vector of one question from elsewhere; everything else is as with `MiniLmEmbedder`."""

    def __init__(self, ahead: QuestionAhead) -> None:
        super().__init__()
        self._ahead = ahead

    async def embed_query(self, text: str) -> Sequence[float]:
        """The vector of a question, from the process if it is the one that was announced."""
        return await asyncio.to_thread(self._ahead.vector, text) or await super().embed_query(text)

    async def close(self) -> None:
        """Ends the process, and frees the model."""
        await asyncio.to_thread(self._ahead.end)
        await super().close()
