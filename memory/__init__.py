"""What is known: Markdown is the truth, everything else here can be deleted and rebuilt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import names_on_first_use

if TYPE_CHECKING:
    from nacre.memory.embedder import Embedder, EmbeddingFailed, TextRefused
    from nacre.memory.engine import MemoryEngine
    from nacre.memory.errors import (
        IndexBusy,
        IndexClosed,
        IndexUnusable,
        MemoryIndexError,
        ReadRefused,
    )
    from nacre.memory.paths import PathOutsideRoot, contained_path
    from nacre.memory.records import (
        Chunk,
        Excerpt,
        FailedFile,
        HitExplanation,
        MemoryStatus,
        SearchHit,
        SearchReport,
        SkippedPath,
        Source,
        SyncProgress,
        SyncReport,
    )
    from nacre.memory.settings import MemorySearchSettings, index_path, resolve_settings
    from nacre.memory.store import Store
    from nacre.memory.transcripts import TranscriptInfo, TranscriptSource, TranscriptText
    from nacre.memory.workspace import ensure_workspace

__all__ = [
    "Chunk",
    "Embedder",
    "EmbeddingFailed",
    "Excerpt",
    "FailedFile",
    "HitExplanation",
    "IndexBusy",
    "IndexClosed",
    "IndexUnusable",
    "MemoryEngine",
    "MemoryIndexError",
    "MemorySearchSettings",
    "MemoryStatus",
    "PathOutsideRoot",
    "ReadRefused",
    "SearchHit",
    "SearchReport",
    "SkippedPath",
    "Source",
    "Store",
    "SyncProgress",
    "SyncReport",
    "TextRefused",
    "TranscriptInfo",
    "TranscriptSource",
    "TranscriptText",
    "contained_path",
    "ensure_workspace",
    "index_path",
    "resolve_settings",
]

__getattr__ = names_on_first_use(
    __name__,
    {
        "embedder": ("Embedder", "EmbeddingFailed", "TextRefused"),
        "engine": ("MemoryEngine",),
        "errors": ("IndexBusy", "IndexClosed", "IndexUnusable", "MemoryIndexError", "ReadRefused"),
        "paths": ("PathOutsideRoot", "contained_path"),
        "records": (
            "Chunk",
            "Excerpt",
            "FailedFile",
            "HitExplanation",
            "MemoryStatus",
            "SearchHit",
            "SearchReport",
            "SkippedPath",
            "Source",
            "SyncProgress",
            "SyncReport",
        ),
        "settings": ("MemorySearchSettings", "index_path", "resolve_settings"),
        "store": ("Store",),
        "transcripts": ("TranscriptInfo", "TranscriptSource", "TranscriptText"),
        "workspace": ("ensure_workspace",),
    },
)
