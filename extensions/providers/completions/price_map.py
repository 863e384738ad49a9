"""litellm's price map: windows, prices and abilities of models. Reads the file in its package.

litellm is not imported. The file is a JSON object of about 3 MB; only the wanted entry is parsed, at its
place in the text (20 ms with a cold file, 2 with a warm one).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nacre.runtime.models.tokenizer import litellm_folder

_FILE = "model_prices_and_context_window_backup.json"


def price_map_entry(model_name: str) -> Mapping[str, Any]:
    """The entry of `provider/model`; empty for an unknown model."""
    folder = litellm_folder()
    if folder is None:
        return {}
    try:
        text = (folder / _FILE).read_bytes()
    except OSError:
        return {}
    provider, _, model = model_name.partition("/")
    entry = _entry(text, model_name)
    if entry is None and model:
        entry = _entry(text, model)
        # the bare name may be another provider's model of the same name, with another window
        if entry is not None and not str(entry.get("litellm_provider", "")).startswith(provider):
            entry = None
    return entry or {}


def price_map_models(provider: str) -> Mapping[str, Mapping[str, Any]]:
    """The entries of a provider's chat models by name; parses the whole map."""
    folder = litellm_folder()
    try:
        entries = json.loads((folder / _FILE).read_bytes()) if folder else {}
    except (OSError, ValueError):
        return {}
    return {
        name: entry
        for name, entry in entries.items()
        if entry.get("litellm_provider") == provider and entry.get("mode") == "chat"
    }


def is_provider(name: str) -> bool:
    """Whether litellm knows a provider of that name: the price map or a client has it."""
    folder = litellm_folder()
    if folder and name.isidentifier() and (folder / "llms" / name).is_dir():
        return True
    try:
        text = (folder / _FILE).read_bytes() if folder else b""
    except OSError:
        return False
    return f'"litellm_provider": {json.dumps(name)}'.encode() in text


def _entry(text: bytes, name: str) -> dict[str, Any] | None:
    """The object under this name in `text`; no entry has a model's name as one of its keys."""
    key = json.dumps(name).encode() + b":"
    at = text.find(key)
    if at < 0:
        return None
    end = text.find(b"\n    }", at)
    body = text[at + len(key) : end + len(b"\n    }")] if end >= 0 else text[at + len(key) :]
    try:
        entry, _ = json.JSONDecoder().raw_decode(body.decode("utf-8").lstrip())
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None
