"""A search hit as JSON: one shape for the model's tool and for scripts. Pure."""

from __future__ import annotations

from typing import Any

from nacre.memory.contracts.records import SearchHit


def hit_json(hit: SearchHit) -> dict[str, Any]:
    """The seed's shape: path, lines from 1 and inclusive, score 0…1, snippet, source."""
    return {
        "path": hit.path,
        "startLine": hit.start_line,
        "endLine": hit.end_line,
        "score": round(hit.score, 4),
        "snippet": hit.snippet,
        "source": hit.source,
    }
