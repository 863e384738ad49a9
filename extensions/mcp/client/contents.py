"""What a server's tool gave, as a model gets it. Pure: it knows the shapes and no library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from nacre.prompts import render
from nacre.sessions.contracts.messages import MAX_KEPT_CHARS, Image


def result_text(server: str, result: Any) -> str:
    """The blocks of a `CallToolResult` under a line that says whose words they are.

    What is no text is told by its kind and size; for images see `result_images`. What is beyond the size of a
    kept result is cut, so that a flood is not counted in tokens.
    """
    text = "\n\n".join(part for part in _parts(result) if part)
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) > MAX_KEPT_CHARS:
        text = f"{text[:MAX_KEPT_CHARS]}\n[{len(text) - MAX_KEPT_CHARS} more characters were thrown away]"
    return render("tools/server_result", server=server, text=text or "(nothing)")


def result_images(result: Any) -> tuple[Image, ...]:
    """The images of a result, in base64, as they came: nobody has looked at them yet."""
    blocks = (block for block in result.content or [] if block.type == "image")
    return tuple(Image(data=block.data, mime_type=block.mime_type.lower()) for block in blocks)


def _parts(result: Any) -> Iterator[str]:
    blocks = result.content or []
    for block in blocks:
        yield _block(block)
    if not blocks and result.structured_content is not None:
        yield json.dumps(result.structured_content, ensure_ascii=False, indent=1)


def _block(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "image":
            return f"[image, {_kind_and_size(block)}]"
        case "audio":
            return f"[audio, {_kind_and_size(block)}: it cannot be heard here]"
        case "resource_link":
            return f"[a link to {block.uri}]"
        case "resource":
            held = block.resource
            text = getattr(held, "text", None)
            return f"[{held.uri}]\n{text}" if text is not None else f"[{held.uri}: no text]"
        case _:
            return f"[{block.type}: it cannot be shown here]"


def _kind_and_size(block: Any) -> str:
    return f"{block.mime_type}, about {len(block.data) * 3 // 4} bytes"
