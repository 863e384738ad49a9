"""`nacre.extension.json`: an extension's description of itself, read without running its code.

The file is in the package that the entry point names. Its keys are those of OpenClaw's `openclaw.plugin.json`
where they have the same meaning:

    {"id": "honey", "description": "Weighs hives.", "kind": "memory", "configSchema": {"type": "object", …}}

`id` is also the entry point's name. `kind` is missing; `memory` for a memory engine; `channel` if the entry
point names a channel, which `channels.<id>` enables; `storage` for a store of an agent's data, which
`storage.driver` selects; or `provider` for models and embedders, which `<id>/MODEL` and
`memorySearch.provider` select. `built-in` is for extensions that come with Nacre and have their own settings.
`configSchema` is a JSON schema of `plugins.entries.<id>.config`; without one there are no settings.

`commands` adds terminal commands. A name with a space begins with the command above it, such as
`memory ltm` or `admin access token`:

    "commands": {"hive weigh": {"entry": "nacre_honey.terminal:command", "help": "Weigh a hive.",
                                "examples": {"": ["nacre hive weigh oak"]}}}

`entry` is a click command, imported when the command runs. `examples` appear below its help, by subcommand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias, get_args

from nacre.record import Record

MANIFEST_FILE = "nacre.extension.json"

ExtensionKind: TypeAlias = Literal["memory", "channel", "storage", "provider", "built-in"]
KINDS = frozenset(get_args(ExtensionKind))

_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_COMMAND = re.compile(r"[a-z0-9][a-z0-9-]{0,31}( [a-z0-9][a-z0-9-]{0,31}){0,2}")
_ENTRY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_TAKEN = frozenset({"memory-core", "none"})
_KEYS = frozenset({"id", "description", "kind", "configSchema", "commands"})
_NO_SETTINGS: Mapping[str, Any] = {"type": "object", "additionalProperties": False}


class ManifestInvalid(Exception):
    """A manifest cannot be used; the message is a sentence."""


class TerminalCommand(Record):
    """A terminal command. `entry` is `package.module:attribute`, a click command."""

    entry: str
    help: str
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Manifest(Record):
    """An extension's description of itself; `settings_schema` is a JSON schema."""

    id: str
    description: str = ""
    kind: ExtensionKind | None = None
    settings_schema: Mapping[str, Any] = field(default_factory=lambda: _NO_SETTINGS)
    commands: Mapping[str, TerminalCommand] = field(default_factory=dict)


def parse_manifest(text: str) -> Manifest:
    """Parses a manifest; unknown keys are ignored.

    Raises:
        ManifestInvalid: it is not a JSON object, or a value is invalid.
    """
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise ManifestInvalid(f"{MANIFEST_FILE} is not JSON: {error}.") from error
    if not isinstance(raw, dict):
        held = "null" if raw is None else type(raw).__name__
        raise ManifestInvalid(f"{MANIFEST_FILE} contains {held} instead of an object.")
    given = {key: raw[key] for key in _KEYS & raw.keys() if raw[key] is not None}
    name, kind = given.get("id"), given.get("kind")
    if not isinstance(name, str) or not _ID.fullmatch(name) or name in _TAKEN:
        raise ManifestInvalid(
            f"{MANIFEST_FILE} has the id {name!r}. Use up to 64 of a-z, 0-9, '.', '_' and '-', a letter or "
            f"digit first, and none of {', '.join(sorted(_TAKEN))}."
        )
    if kind is not None and kind not in KINDS:
        raise ManifestInvalid(
            f"{MANIFEST_FILE} has the kind {kind!r}. Leave it out, or write memory, channel, storage or "
            "provider."
        )
    description, schema = given.get("description", ""), given.get("configSchema", _NO_SETTINGS)
    if not isinstance(description, str) or not isinstance(schema, dict | Mapping):
        raise ManifestInvalid(f"{MANIFEST_FILE} needs text as description and an object as configSchema.")
    one_line = " ".join(description.split())
    raw_commands = given.get("commands", {})
    if not isinstance(raw_commands, dict):
        raise ManifestInvalid(f"{MANIFEST_FILE} needs an object as commands.")
    commands = {each: _command(each, value) for each, value in raw_commands.items()}
    return Manifest(id=name, description=one_line, kind=kind, settings_schema=schema, commands=commands)


def _command(name: str, raw: object) -> TerminalCommand:
    value = raw if isinstance(raw, dict) else {}
    entry, text, examples = value.get("entry"), value.get("help"), value.get("examples", {})
    if not _COMMAND.fullmatch(name):
        raise ManifestInvalid(
            f"{MANIFEST_FILE} names the command {name!r}. Use one to three words of a-z, 0-9 and '-'."
        )
    if not isinstance(entry, str) or not _ENTRY.fullmatch(entry) or not isinstance(text, str):
        raise ManifestInvalid(
            f"{MANIFEST_FILE}: the command {name!r} needs a help text and an entry such as "
            "'package.module:command'."
        )
    if not isinstance(examples, dict) or not all(
        isinstance(lines, list) and all(isinstance(line, str) for line in lines)
        for lines in examples.values()
    ):
        raise ManifestInvalid(f"{MANIFEST_FILE}: examples of the command {name!r} are not lists of texts.")
    return TerminalCommand(
        entry=entry,
        help=" ".join(text.split()),
        examples={key: tuple(lines) for key, lines in examples.items()},
    )
