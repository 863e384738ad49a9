"""A server over standard input and output for tests, in the ways that servers go wrong. Run as a program.

It speaks the lines of the protocol itself, because a library would not write what is wrong.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

GREY_DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNoAAAAggCB2kUIOwAAAABJRU5ErkJggg=="
"""A PNG of one pixel."""

TOOLS: list[dict[str, Any]] = [
    {
        "name": "add",
        "description": "Adds two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "minimum": 0}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True},
    },
    {"name": "change", "description": "Changes the world.", "inputSchema": {"type": "object"}},
    *(
        {
            "name": name,
            "description": name,
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": True},
        }
        for name in ("die", "hang", "flood", "nonsense", "picture", "secrets", "fail", "turn", "endless")
    ),
    {
        "name": "slow",
        "description": "Its schemas match regular expressions that backtrack for minutes.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}, "more": {"$ref": "#/$defs/d0"}},
            "patternProperties": {"^(a+)+$": {"type": "integer"}},
            "$defs": {
                **{f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(24)},
                "d24": {"type": "string"},
            },
        },
        "outputSchema": {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}},
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "far",
        "description": "x",
        "inputSchema": {"type": "object", "$ref": "https://example.org/a.json"},
    },
]


def main() -> None:
    """Answers line by line until its input ends."""
    starts = Path(sys.argv[1])
    starts.write_text(f"{int(starts.read_text() or 0) + 1 if starts.exists() else 1}")
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            _answer(asked)


def _answer(asked: dict[str, Any]) -> None:
    match asked["method"]:
        case "initialize":
            version = asked["params"]["protocolVersion"]
            info = {"name": "wild", "version": "1"}
            able = {"tools": {"listChanged": True}}
            _say(asked, {"protocolVersion": version, "capabilities": able, "serverInfo": info})
        case "tools/list":
            _say(asked, {"tools": [*_tools("replaced", TOOLS), *_tools("later", [])]})
        case "tools/call":
            _call(asked, asked["params"]["name"], asked["params"].get("arguments") or {})
        case _:
            error = {"code": -32601, "message": "Method not found"}
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}) + "\n")
    sys.stdout.flush()


def _tools(name: str, usual: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a test wrote into the file of that name beside the count of starts."""
    file = Path(sys.argv[1]).with_name(f"{name}.json")
    found: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else usual
    return found


def _call(asked: dict[str, Any], name: str, arguments: dict[str, Any]) -> None:
    match name:
        case "add":
            _text(asked, str(arguments["a"] + arguments["b"]))
        case "die":
            sys.stderr.write("the disk is on fire\n")
            os._exit(3)
        case "hang":
            threading.Event().wait(60)
        case "flood":
            _text(asked, "x" * 5_100_000)
        case "nonsense":
            sys.stdout.write("this is no JSON\n{]\n")
            _say(asked, {"content": "neither a list nor blocks"})
        case "picture":
            kinds = [(GREY_DOT, "image/png"), ("aGFsbG8=", "image/png"), (GREY_DOT, "image/bmp")]
            _say(asked, {"content": [{"type": "image", "data": data, "mimeType": k} for data, k in kinds]})
        case "secrets":
            _text(asked, json.dumps(sorted(os.environ)))
        case "slow":
            hostile = {"text": "a" * 40 + "!"}
            _say(asked, {"content": [{"type": "text", "text": "slow"}], "structuredContent": hostile})
        case "turn":
            file = Path(sys.argv[1]).with_name("later.json")
            file.write_text(json.dumps(arguments["tools"]))
            sys.stdout.write('{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n')
            _text(asked, "turned")
        case "endless":
            while True:
                sys.stdout.write("x" * 65_536)
        case "fail":
            _say(asked, {"content": [{"type": "text", "text": "no such thing"}], "isError": True})
        case _:
            _text(asked, "changed")


def _text(asked: dict[str, Any], text: str) -> None:
    _say(asked, {"content": [{"type": "text", "text": text}]})


def _say(asked: dict[str, Any], result: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
