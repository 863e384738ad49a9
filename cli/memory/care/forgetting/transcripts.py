"""What was said, taken out of transcripts: the one exception to their being only ever added to. Edge.

A line keeps its place and length in bytes, with blanks behind it, so that whatever points into the file still
points there. Ids, roles and types are left alone.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

from nacre.cli.memory.care.forgetting.wanted import FORGOTTEN, Wanted
from nacre.sessions.stores.rewriting import RewritableStore, Rewrite

_STRUCTURE = frozenset(
    {"type", "id", "parentId", "role", "toolCallId", "toolName", "name", "timestamp", "customType"}
    | {"stopReason", "provider", "model", "api", "cwd", "version", "firstKeptEntryId", "fromId"}
    | {"sessionId", "key", "sender", "senderId"}
)
"""Keys of which the values are no words of anybody."""


async def transcripts_with(store: RewritableStore, wanted: Wanted) -> tuple[str, ...]:
    """Where transcripts and whole results lie that say it, also those that were set aside."""
    return await store.rewritten(_rewrite(wanted), dry_run=True)


async def forget_in_transcripts(store: RewritableStore, wanted: Wanted) -> list[str]:
    """Takes it out of all that nobody is writing; sentences about the others."""
    problems: list[str] = []
    busy: set[str] = set()
    async with AsyncExitStack() as stack:
        for key, record in (await store.index.all()).items():
            if not await stack.enter_async_context(store.turn_lock(key)):
                busy.add(record.session_id)
                problems.append(f"Somebody is talking in {key}. Run it again when nobody is.")
        await store.rewritten(_rewrite(wanted), but=busy, dry_run=False)
    return problems


def says_in(text: str, wanted: Wanted) -> bool:
    """Whether a text says it, or a value of it where it is JSON."""
    if not text.startswith(("{", "[")):
        return wanted.says_any(text)
    data = text.encode("utf-8", "surrogatepass")
    return without_in_line(data, wanted) != data


def without_in_line(line: bytes, wanted: Wanted) -> bytes:
    """A line of a transcript without it, as long as before."""
    try:
        value = json.loads(line)
    except ValueError:
        text = line.decode("utf-8", "replace")
        return FORGOTTEN.encode().ljust(len(line))[: len(line)] if wanted.says(text) else line
    new = _without_value(value, wanted)
    if new == value:
        return line
    data = json.dumps(new, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return data.ljust(len(line))


def _rewrite(wanted: Wanted) -> Rewrite:
    return Rewrite(
        line=lambda line: without_in_line(line, wanted),
        result=lambda body: wanted.left(body.decode("utf-8", "surrogateescape")).encode(
            "utf-8", "surrogateescape"
        ),
    )


def _without_value(value: Any, wanted: Wanted) -> Any:
    if isinstance(value, str):
        return wanted.left(value) if wanted.says_any(value) else value
    if isinstance(value, list):
        return [_without_value(each, wanted) for each in value]
    if not isinstance(value, dict):
        return value
    new = {name: each if name in _STRUCTURE else _without_value(each, wanted) for name, each in value.items()}
    if new != value:  # what a provider signed is not what it signed any more
        new = {name: each for name, each in new.items() if not name.endswith("Signature")}
    return new
