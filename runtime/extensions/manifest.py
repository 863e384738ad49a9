"""`nacre.extension.json`: what an extension says of itself, read without running any of its code.

The file lies in the package that the entry point names. Its keys are those of OpenClaw's
`openclaw.plugin.json` as far as they mean the same:

    {"id": "honey", "description": "Weighs hives.", "kind": "memory", "configSchema": {"type": "object", …}}

`id` is also the entry point's name. `kind` is left out, `memory` for one that brings a memory engine, or
`channel` for one whose entry point names a channel: `channels.<id>` in the settings switches that on.
`configSchema` is a JSON schema of `plugins.entries.<id>.config`; without one there are no settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

from nacre.records.record import Record

MANIFEST_FILE = "nacre.extension.json"

ExtensionKind: TypeAlias = Literal["memory", "channel"]

_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_TAKEN = frozenset({"memory-core", "none"})
_KEYS = frozenset({"id", "description", "kind", "configSchema"})
_NO_SETTINGS: Mapping[str, Any] = {"type": "object", "additionalProperties": False}


class ManifestInvalid(Exception):
    """A manifest cannot be used; the text is a sentence."""


class Manifest(Record):
    """What an extension says of itself; `settings_schema` is a JSON schema."""

    id: str
    description: str = ""
    kind: ExtensionKind | None = None
    settings_schema: Mapping[str, Any] = field(default_factory=lambda: _NO_SETTINGS)


def parse_manifest(text: str) -> Manifest:
    """The manifest of this JSON text. Keys that it does not know are left alone.

    Raises:
        ManifestInvalid: it is no JSON object, or a value does not fit.
    """
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise ManifestInvalid(f"{MANIFEST_FILE} is not JSON: {error}.") from error
    if not isinstance(raw, dict):
        held = "null" if raw is None else type(raw).__name__
        raise ManifestInvalid(f"{MANIFEST_FILE} holds {held}, where an object belongs.")
    given = {key: raw[key] for key in _KEYS & raw.keys() if raw[key] is not None}
    name, kind = given.get("id"), given.get("kind")
    if not isinstance(name, str) or not _ID.fullmatch(name) or name in _TAKEN:
        raise ManifestInvalid(
            f"{MANIFEST_FILE} has the id {name!r}. Use up to 64 of a-z, 0-9, '.', '_' and '-', a letter or "
            f"digit first, and none of {', '.join(sorted(_TAKEN))}."
        )
    if kind not in (None, "memory", "channel"):
        raise ManifestInvalid(
            f"{MANIFEST_FILE} has the kind {kind!r}. Leave it out, or write memory or channel."
        )
    description, schema = given.get("description", ""), given.get("configSchema", _NO_SETTINGS)
    if not isinstance(description, str) or not isinstance(schema, dict | Mapping):
        raise ManifestInvalid(f"{MANIFEST_FILE} needs text as description and an object as configSchema.")
    one_line = " ".join(description.split())
    return Manifest(id=name, description=one_line, kind=kind, settings_schema=schema)
