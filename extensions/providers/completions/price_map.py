"""The price map: windows, prices and abilities of models. The only reader of `prices/prices.json`.

The file is an extract of litellm's map (MIT, Berri AI), drawn by `.ci/snapshots.py`: a JSON object with one
line for each model. Only the wanted line is parsed (a millisecond with a warm file).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parent / "prices" / "prices.json"


def price_map_entry(model_name: str) -> Mapping[str, Any]:
    """The entry of `provider/model`; empty for an unknown model."""
    text = _text()
    provider, _, model = model_name.partition("/")
    entry = _entry(text, model_name)
    if not entry and model:
        entry = _entry(text, model)
        # the bare name may be another provider's model of the same name, with another window
        if not str(entry.get("litellm_provider", "")).startswith(provider):
            return {}
    return entry


def price_map_models(provider: str) -> Mapping[str, Mapping[str, Any]]:
    """The entries of a provider's chat models by name; parses the whole map."""
    entries: Mapping[str, Mapping[str, Any]] = json.loads(_text() or b"{}")
    return {
        name: entry
        for name, entry in entries.items()
        if entry.get("litellm_provider") == provider and entry.get("mode") == "chat"
    }


def is_provider(name: str) -> bool:
    """Whether litellm knows a provider of that name: the price map or a client has it."""
    return name in json.loads(_line(_text(), "") or b"{}").get("providers", ())


def _text() -> bytes:
    try:
        return _FILE.read_bytes()
    except OSError:
        return b""


def _entry(text: bytes, name: str) -> Mapping[str, Any]:
    line = _line(text, name) if name else b""
    return json.loads(line) if line else {}


def _line(text: bytes, name: str) -> bytes:
    key = b"\n" + json.dumps(name).encode() + b":"
    start = text.find(key)
    return text[start + len(key) : text.find(b"\n", start + len(key))].rstrip(b",") if start >= 0 else b""
