"""`plugins.entries.memory-lancedb.config` as the engine reads it. `nacre.extension.json` has checked it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from nacre.record import Record

ENGINE_ID = "memory-lancedb"
USUAL_PROVIDER = "openai"
"""Who is asked when `embedding` has a key or a model and names no provider (seed 003)."""


class LanceSettings(Record):
    """What the owner can set.

    `embedding` are keys of `memorySearch` that hold here in place of those of the agent; without any, the
    agent's own embedder is asked. `recall_max_chars` is how much of a message is looked up.
    """

    place: str
    storage_options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    embedding: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    auto_recall: bool = True
    auto_capture: bool = False
    capture_max_chars: int = 500
    recall_max_chars: int = 1_000
    custom_triggers: tuple[str, ...] = ()


def lance_settings(
    raw: Mapping[str, Any], *, folder: Path, agent_id: str, place: Callable[[str], Path]
) -> LanceSettings:
    """The settings of one agent. The table lies in `folder` unless `dbPath` names another place.

    `dbPath` is a folder, where `~` and `{agentId}` are filled in, or the address of an object store, such as
    `s3://bucket/memories`. `place` knows where a folder that the owner names lies.
    """
    named = raw.get("dbPath", str(folder)).strip().replace("{agentId}", agent_id)
    chosen = {
        "auto_recall": raw.get("autoRecall"),
        "auto_capture": raw.get("autoCapture"),
        "capture_max_chars": raw.get("captureMaxChars"),
        "recall_max_chars": raw.get("recallMaxChars"),
    }
    return LanceSettings(
        place=named if "://" in named else str(place(named)),
        storage_options=dict(raw.get("storageOptions", {})),
        embedding=_embedder_settings(raw.get("embedding", {})),
        custom_triggers=tuple(raw.get("customTriggers", ())),
        **{name: value for name, value in chosen.items() if value is not None},
    )


def _embedder_settings(embedding: Mapping[str, Any]) -> Mapping[str, Any]:
    """OpenClaw's `embedding` in the keys of `memorySearch`. Another embedder is never asked in its place:
    rows that have no vector yet are found by words, and get theirs when it answers again."""
    if not embedding:
        return {"fallback": "none"}
    remote = {key: embedding[key] for key in ("apiKey", "baseUrl") if key in embedding}
    asked = {
        "provider": embedding.get("provider", USUAL_PROVIDER),
        "model": embedding.get("model"),
        "outputDimensionality": embedding.get("dimensions"),
        "remote": remote or None,
        "fallback": "none",
    }
    return {key: value for key, value in asked.items() if value is not None}
