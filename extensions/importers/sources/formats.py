"""Formats that several programs share: arrays of conversations in JSON, environment files, nested settings.

An export is never in memory as a whole: an array is read element by element. The only importer of ijson.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import IO, Any

from nacre.extensions.importers.sources.pieces import Conversation, Files, Piece, Skipped, Variable
from nacre.runtime.settings.disk.secrets import variables_in
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from nacre.sessions.entries.entries import KnownBody

_MOST_BYTES = 1 << 20
_MOST_NESTED = 500
_MOST_TEXT_MB = 64
_NO_BRACKETS = bytes(char for char in range(256) if char not in b"[]{}")


class _ArrayBroken(Exception):
    """The JSON is cut off or not valid after the elements read so far; the message says why."""


def conversations_in(
    files: Files, name: str, parse: Callable[[Mapping[str, Any]], Conversation | None]
) -> Iterator[Piece]:
    """Yields the conversations in a file with a JSON array; `parse` returns `None` for anything else."""
    with files.open_file(name) as file:
        try:
            number = 0
            for number, raw in enumerate(_elements(file), 1):
                conversation = parse(raw) if isinstance(raw, dict) else None
                place, why = f"{name} #{number}", "it has no ID or no messages of this program"
                yield conversation or Skipped(kind="sessions", name=place, reason=why, file=name)
            if not number:
                yield Skipped(kind="files", name=name, reason="it contains nothing to import", file=name)
        except _ArrayBroken as error:
            yield unreadable_rest("file", name, error)


def unreadable_rest(what: str, name: str, error: Exception) -> Skipped:
    """The sessions of a file that follow an error in it."""
    reason = f"the {what} cannot be read beyond this point: {error}"
    return Skipped(kind="sessions", name=f"the rest of {name}", reason=reason, file=name)


def leaves(
    value: Mapping[Any, Any],
    is_leaf: Callable[[Mapping[Any, Any]], bool] = lambda _value: False,
    above: tuple[str, ...] = (),
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields the values of nested settings with their keys.

    Lists, empty tables, and tables for which `is_leaf` is true are values.
    """
    for name, each in value.items():
        key = (*above, str(name))
        if isinstance(each, dict) and each and not is_leaf(each):
            yield from leaves(each, is_leaf, key)
        else:
            yield key, each


def _elements(file: IO[bytes]) -> Iterator[Any]:
    import ijson

    head = file.read(4096)
    file.seek(3 if head.startswith(codecs.BOM_UTF8) else 0)
    prefix = "item" if head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[") else ""
    try:
        # A text that does not end in what is read at once is read again from its beginning.
        yield from ijson.items(_Shallow(file), prefix, use_float=True, buf_size=_MOST_BYTES)
    except (ijson.JSONError, RecursionError, UnicodeDecodeError) as error:
        said = error.args[0] if error.args else ""
        problem = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        problem = problem.partition("\n")[0].rpartition("error: ")[2].rstrip(". ") or type(error).__name__
        is_cut = problem == "premature EOF"
        raise _ArrayBroken("it ends there" if is_cut else f"it is not JSON ({problem})") from error


class _Shallow:
    """A file of JSON that raises `_ArrayBroken` where it is nested too deeply, or a text is too long.

    ijson takes memory for the square of the depth, time for the square of a text's length, and five times as
    long when Python sees its events.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._depth = self._in_string = self._text_bytes = 0
        self._left = b""  # the beginning of an escape

    def read(self, size_bytes: int) -> bytes:
        data = self._file.read(size_bytes)
        plain = (self._left + data).replace(b"\\\\", b"").replace(b'\\"', b"")
        self._left = b"\\" if plain.endswith(b"\\") else b""
        pieces = plain.split(b'"')
        for bracket in b"".join(pieces[self._in_string :: 2]).translate(None, _NO_BRACKETS):
            self._depth += 1 if bracket in b"[{" else -1
            if self._depth > _MOST_NESTED:
                raise _ArrayBroken(f"it is nested more than {_MOST_NESTED} levels deep")
        self._in_string = (self._in_string + len(pieces) - 1) % 2
        self._text_bytes = len(pieces[-1]) + (self._text_bytes if len(pieces) == 1 else 0)
        if self._text_bytes > _MOST_TEXT_MB << 20:
            raise _ArrayBroken(f"a text in it is longer than {_MOST_TEXT_MB} MB")
        return data


def variables(files: Files, name: str) -> Iterator[Piece]:
    """Yields the provider keys in an environment file; skips other variables and reports no values."""
    if files.size_bytes(name) > _MOST_BYTES:
        yield Skipped(kind="files", name=name, reason="it is too large for an environment file", file=name)
        return
    with files.open_file(name) as file:
        found = variables_in(file.read().decode("utf-8-sig", "replace"))
    for variable, value in found.items():
        if value and re.fullmatch(r"[A-Z][A-Z0-9_]*_API_KEY", variable):
            yield Variable(name=variable, secret=value, file=name)
        else:
            reason = "it is not a provider key" if value else "it is empty"
            yield Skipped(kind="settings", name=variable, reason=reason, file=name)
    if not found:
        yield Skipped(kind="files", name=name, reason="it contains no variables", file=name)


def question(blocks: Sequence[Mapping[str, Any]], when_ms: int) -> list[KnownBody]:
    """A person's message, preceded by the tool results in the same message."""
    bodies: list[KnownBody] = list(_results(blocks, when_ms))
    visible = tuple(visible for block in blocks for visible in _visible(block))
    return [*bodies, UserMessage(content=visible, timestamp_ms=when_ms)] if visible else bodies


def answer_and_results(
    blocks: Sequence[Mapping[str, Any]], *, provider: str, model: str, when_ms: int
) -> list[KnownBody]:
    """A model's messages and the results of the tools that it called in between, in order."""
    bodies: list[KnownBody] = []
    for is_result, group in groupby(blocks, key=lambda block: block.get("type") == "tool_result"):
        group_blocks = list(group)
        if is_result:
            bodies += _results(group_blocks, when_ms)
        elif content := tuple(each for block in group_blocks for each in _model_content(block)):
            bodies.append(assistant_message(content, provider=provider, model=model, when_ms=when_ms))
    return bodies


def assistant_message(
    content: Sequence[Text | Thinking | ToolCall], *, provider: str, model: str, when_ms: int
) -> AssistantMessage:
    """An imported message of a model; it ends in a tool call if it contains one."""
    return AssistantMessage(
        content=tuple(content),
        api="import",
        provider=provider,
        model=model,
        usage=None,
        stop_reason="toolUse" if any(isinstance(each, ToolCall) for each in content) else "stop",
        timestamp_ms=when_ms,
    )


def _visible(block: Mapping[str, Any]) -> list[Text | Image]:
    if block.get("type") == "text" and str(block.get("text") or "").strip():
        return [Text(text=str(block["text"]))]
    source = block.get("source")
    if block.get("type") == "image" and isinstance(source, dict) and source.get("type") == "base64":
        return [Image(data=str(source.get("data") or ""), mime_type=str(source.get("media_type") or ""))]
    return []


def _model_content(block: Mapping[str, Any]) -> list[Text | Thinking | ToolCall]:
    match block.get("type"):
        case "text" if str(block.get("text") or "").strip():
            return [Text(text=str(block["text"]))]
        case "thinking" if str(block.get("thinking") or "").strip():
            return [Thinking(thinking=str(block["thinking"]))]
        case "tool_use":
            tool_input = block.get("input")
            arguments = tool_input if isinstance(tool_input, dict) else {"input": tool_input}
            return [ToolCall(id=str(block.get("id") or ""), name=str(block.get("name")), arguments=arguments)]
    return []


def _results(blocks: Sequence[Mapping[str, Any]], when_ms: int) -> list[ToolResultMessage]:
    found = []
    for block in blocks:
        if block.get("type") != "tool_result":
            continue
        content = block.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": str(content or "")}]
        visible = tuple(visible for part in parts if isinstance(part, dict) for visible in _visible(part))
        found.append(
            ToolResultMessage(
                tool_call_id=str(block.get("tool_use_id") or ""),
                tool_name=str(block.get("name") or "tool"),
                content=visible,
                is_error=block.get("is_error") is True,
                timestamp_ms=when_ms,
            )
        )
    return found
