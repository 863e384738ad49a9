"""Data exports as ChatGPT and Claude send them, small, with the odd things that real ones have."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40


def _node(
    key: str, parent: str | None, role: str, content: dict[str, Any], at: float, **more: Any
) -> dict[str, Any]:
    message = {"id": key, "author": {"role": role}, "create_time": at, "content": content, **more}
    return {"id": key, "message": message, "parent": parent, "children": []}


def _text(*parts: Any) -> dict[str, Any]:
    return {"content_type": "multimodal_text" if len(parts) > 1 else "text", "parts": list(parts)}


def message(key: str, parent: str, role: str, words: str, at: float) -> dict[str, Any]:
    """A node of a ChatGPT conversation that says `words`; `at` is in seconds."""
    return _node(key, parent, role, _text(words), at)


def memory(key: str, parent: str, words: str, at: float) -> dict[str, Any]:
    """A node that tells what ChatGPT remembers."""
    content = {"content_type": "model_editable_context", "model_set_context": words}
    return _node(key, parent, "assistant", content, at)


def chatgpt_conversations() -> list[dict[str, Any]]:
    """Three conversations with 9 messages; the second one is a tree with two answers."""
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-Xy12"}
    instructions = {
        "content_type": "user_editable_context",
        "user_profile": "I sail.",
        "user_instructions": "Answer in one sentence.",
    }
    memories = {
        "content_type": "model_editable_context",
        "model_set_context": "1. [2025-03-01]. Is allergic to walnuts.",
    }
    sails = {
        "root": {"id": "root", "message": None, "parent": None, "children": ["c"]},
        "c": _node("c", "root", "user", instructions, 1741000000.0),
        "m": _node("m", "c", "assistant", memories, 1741000001.0),
        "q": _node("q", "m", "user", _text("Which sail is this?", picture), 1741000002.5),
        "a": _node("a", "q", "assistant", _text("A gennaker."), 1741000004.0, recipient="all"),
    }
    knots = {
        "r": {"id": "r", "message": None, "parent": None, "children": ["k1"]},
        "k1": _node("k1", "r", "user", _text("Name a knot."), 1742000000.0),
        "k2": _node("k2", "k1", "assistant", _text("Bowline."), 1742000001.0),
        "k3": _node("k3", "k1", "assistant", _text("Clove hitch."), 1742000002.0),
    }
    code = {"content_type": "code", "text": "2**40"}
    tool = {
        "t1": _node("t1", None, "user", _text("How much is 2**40?"), 1743000000.0),
        "t2": _node("t2", "t1", "assistant", code, 1743000001.0, recipient="python"),
    }
    return [
        {
            "title": "Sails",
            "conversation_id": "c-1",
            "create_time": 1741000000.0,
            "mapping": sails,
            "current_node": "a",
        },
        {
            "title": "Knots",
            "conversation_id": "c-2",
            "create_time": 1742000000.0,
            "mapping": knots,
            "current_node": "k2",
        },
        {
            "title": None,
            "conversation_id": "c-3",
            "create_time": 1743000000.0,
            "mapping": tool,
            "current_node": "t2",
        },
    ]


def chatgpt(archive: Path, conversations: list[dict[str, Any]] | None = None) -> Path:
    """An export with 5 files, 3 conversations and a picture, and a name that leads out of it."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("conversations.json", json.dumps(conversations or chatgpt_conversations()))
        zipped.writestr("user.json", '{"email": "someone@example.org"}')
        zipped.writestr("chat.html", "<html></html>")
        zipped.writestr("file-Xy12-sail.png", PNG)
        zipped.writestr("../escape.md", "out of the archive")
    return archive


def _block(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def claude_conversations() -> list[dict[str, Any]]:
    """Two conversations with 5 messages, one of them empty, and two attachments, one without its text."""
    hives = {
        "uuid": "5f0c8a52-0000-4000-8000-000000000001",
        "name": "Hives",
        "created_at": "2026-02-01T10:00:00.000000Z",
        "updated_at": "2026-02-01T10:05:00.000000Z",
        "chat_messages": [
            {
                "uuid": "m1",
                "sender": "human",
                "text": "When do bees swarm?",
                "created_at": "2026-02-01T10:00:00.000000Z",
                "content": [{"type": "text", "text": "When do bees swarm?"}],
                "attachments": [{"file_name": "hives.txt", "extracted_content": "Hive 3 is loud."}],
                "files": [{"file_name": "photo.jpg"}],
            },
            {
                "uuid": "m2",
                "sender": "assistant",
                "text": "",
                "created_at": "2026-02-01T10:00:05.000000Z",
                "content": [
                    {"type": "thinking", "thinking": "Season matters."},
                    {"type": "tool_use", "id": "tu1", "name": "web_search", "input": {"query": "swarm"}},
                    {
                        "type": "tool_result",
                        "tool_use_id": "tu1",
                        "content": [{"type": "text", "text": "May"}],
                    },
                    {"type": "text", "text": "In May, on warm days."},
                ],
                "attachments": [],
                "files": [],
            },
        ],
    }
    queens = {
        "uuid": "5f0c8a52-0000-4000-8000-000000000002",
        "name": "",
        "created_at": "2026-02-02T10:00:00.000000Z",
        "chat_messages": [
            {"uuid": "n1", "sender": "human", "text": "Mark queens?", "created_at": "2026-02-02T10:00:00Z"},
            {"uuid": "n2", "sender": "assistant", "text": "Yes, blue.", "created_at": "2026-02-02T10:00:02Z"},
            {"uuid": "n3", "sender": "human", "text": "", "created_at": "2026-02-02T10:00:09Z"},
        ],
    }
    return [hives, queens]


def claude(folder: Path) -> Path:
    """An export with 4 files: 2 conversations with 5 messages, memories, a project with a document."""
    folder.mkdir(parents=True)
    (folder / "conversations.json").write_text(json.dumps(claude_conversations()))
    (folder / "users.json").write_text("[]")
    (folder / "memories.json").write_text(
        json.dumps(
            [{"conversations_memory": "Keeps nine hives.", "project_memories": {}, "account_uuid": "u"}]
        )
    )
    (folder / "projects.json").write_text(
        json.dumps(
            [
                {
                    "uuid": "aa11bb22-0000-4000-8000-000000000003",
                    "name": "Honey shop",
                    "description": "Labels and prices",
                    "prompt_template": "Write short labels.",
                    "docs": [{"uuid": "d", "filename": "prices.md", "content": "A jar costs 9 euros."}],
                }
            ]
        )
    )
    return folder
