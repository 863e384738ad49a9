"""Draws anew what Nacre ships of litellm's package: the price map, and tiktoken's tables.

    .venv/bin/python .ci/snapshots.py

Run it when the range of litellm in `pyproject.toml` changes. A test compares the price map with litellm.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PRICES = ROOT / "extensions/providers/completions/prices/prices.json"
TABLES = ROOT / "runtime/models/tiktoken"
ENCODINGS = ("cl100k_base", "o200k_base")

_MODES = ("chat", "completion", "responses", "embedding", "rerank", "audio_transcription", None)
_FIELDS = (
    "litellm_provider",
    "mode",
    "max_input_tokens",
    "max_output_tokens",
    "max_tokens",
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
    "input_cost_per_audio_token",
    "input_cost_per_query",
    "input_cost_per_second",
    "output_cost_per_second",
    "supports_function_calling",
    "supports_vision",
    "supports_reasoning",
    "supports_response_schema",
)


def price_map(litellm: Path, release: str) -> str:
    """The map as JSON, one line for each model; the line `""` has what is no model."""
    models = json.loads((litellm / "model_prices_and_context_window_backup.json").read_bytes())
    clients = {path.name for path in (litellm / "llms").iterdir() if path.is_dir() and path.name[0].isalpha()}
    mapped = {entry.get("litellm_provider", "") for name, entry in models.items() if name != "sample_spec"}
    about = {
        "source": f"litellm {release}, model_prices_and_context_window_backup.json (MIT, Berri AI)",
        "providers": sorted((mapped | clients) - {""}),
    }
    rows: list[tuple[str, Mapping[str, Any]]] = [("", about)]
    rows += [(name, _kept(entry)) for name, entry in models.items() if _is_kept(name, entry)]
    lines = (f"{json.dumps(name)}:{json.dumps(row, separators=(',', ':'))}" for name, row in rows)
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _is_kept(name: str, entry: Mapping[str, Any]) -> bool:
    return name != "sample_spec" and entry.get("mode") in _MODES


def _kept(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {field: entry[field] for field in _FIELDS if entry.get(field) not in (None, False)}


def main() -> None:
    """Writes both."""
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        raise SystemExit('litellm is not installed: pip install --editable ".[litellm]"')
    litellm = Path(spec.origin).parent
    PRICES.write_text(price_map(litellm, version("litellm")), encoding="utf-8")
    for encoding in ENCODINGS:
        address = f"https://openaipublic.blob.core.windows.net/encodings/{encoding}.tiktoken"
        name = hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()  # tiktoken's name
        (TABLES / name).write_bytes((litellm / "litellm_core_utils/tokenizers" / name).read_bytes())


if __name__ == "__main__":
    main()
