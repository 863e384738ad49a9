"""Transcripts without what is to be forgotten."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

from nacre.memory.files.proposals import FORGOTTEN, Target
from nacre.sessions.stores.rewriting import RewritableStore, Rewrite

_STRUCTURE = frozenset(
    {"type", "id", "parentId", "role", "toolCallId", "toolName", "name", "timestamp", "customType"}
    | {"stopReason", "provider", "model", "api", "cwd", "version", "firstKeptEntryId", "fromId"}
    | {"sessionId", "key", "sender", "senderId"}
)
"""Keys of transcripts whose values are nobody's words."""


async def transcripts_with(store: RewritableStore, target: Target) -> tuple[str, ...]:
    """Where the transcripts and whole tool results with the target are, including those set aside."""
    return await store.rewritten(_rewrite(target), dry_run=True)


async def forget_in_transcripts(store: RewritableStore, target: Target) -> list[str]:
    """Removes the target from all transcripts that nobody is writing; sentences about the others.

    This is the one exception to the rule that transcripts only grow. A changed line keeps its length in bytes
    by trailing blanks, so that offsets into the file stay valid. Ids, roles and types are kept.
    """
    problems: list[str] = []
    busy: set[str] = set()
    async with AsyncExitStack() as stack:
        for key, record in (await store.index.all()).items():
            if not await stack.enter_async_context(store.turn_lock(key)):
                busy.add(record.session_id)
                problems.append(f"The session {key} is in use. Run the command again when it is not.")
        await store.rewritten(_rewrite(target), but=busy, dry_run=False)
    return problems


def json_matches(text: str, target: Target) -> bool:
    """Whether a text, or a value in it if it is JSON, has the target."""
    if not text.startswith(("{", "[")):
        return target.matches_any(text)
    data = text.encode("utf-8", "surrogatepass")
    return _without_in_line(data, target) != data


def _without_in_line(line: bytes, target: Target) -> bytes:
    try:
        value = json.loads(line)
    except ValueError:
        text = line.decode("utf-8", "replace")
        return FORGOTTEN.encode().ljust(len(line))[: len(line)] if target.matches(text) else line
    new = _without_value(value, target)
    if new == value:
        return line
    data = json.dumps(new, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return data.ljust(len(line))


def _rewrite(target: Target) -> Rewrite:
    return Rewrite(
        line=lambda line: _without_in_line(line, target),
        result=lambda body: target.removed_from(body.decode("utf-8", "surrogateescape")).encode(
            "utf-8", "surrogateescape"
        ),
    )


def _without_value(value: Any, target: Target) -> Any:
    if isinstance(value, str):
        return target.removed_from(value) if target.matches_any(value) else value
    if isinstance(value, list):
        return [_without_value(each, target) for each in value]
    if not isinstance(value, dict):
        return value
    # The name of a session is its title, and not that of a tool.
    kept = _STRUCTURE - {"name"} if value.get("type") == "session_info" else _STRUCTURE
    new = {name: each if name in kept else _without_value(each, target) for name, each in value.items()}
    if new != value:  # a provider's signature no longer fits the changed words
        new = {name: each for name, each in new.items() if not name.endswith("Signature")}
    return new
