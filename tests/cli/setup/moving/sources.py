"""Folders and archives as the four programs make them, small, with the odd things that real ones have."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

OPENCLAW_SESSION = "0b9b1c1e-1111-4222-8333-444455556666"
OPENCLAW_EARLIER = "77777777-1111-4222-8333-444455556666"
KEY = "sk-proj-abcdEFGH1234567890abcd"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40


def _lines(identity: str, question: str, answer: str) -> str:
    first = {
        "type": "session",
        "version": 3,
        "id": identity,
        "timestamp": "2026-01-20T09:00:00.000Z",
        "cwd": "/home/anna/.openclaw/workspace",
    }
    asked = {"role": "user", "content": [{"type": "text", "text": question}], "timestamp": 1768899601000}
    said = {
        "role": "assistant",
        "content": [{"type": "text", "text": answer}],
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "stopReason": "stop",
        "timestamp": 1768899603000,
    }
    entries: list[dict[str, Any]] = [
        {"type": "message", "id": "aaaaaaaa", "parentId": None, "message": asked},
        {"type": "message", "id": "bbbbbbbb", "parentId": "aaaaaaaa", "message": said},
    ]
    timed = [first, *({**entry, "timestamp": "2026-01-20T09:00:03.000Z"} for entry in entries)]
    return "".join(json.dumps(line) + "\n" for line in timed)


def openclaw(root: Path) -> Path:
    """A state folder with 10 files: 2 sessions with 5 messages, 1 of them torn; 4 notes; settings; keys."""
    sessions, memory = root / "agents/main/sessions", root / "workspace/memory"
    for folder in (sessions, memory, root / "workspace/.openclaw"):
        folder.mkdir(parents=True)
    (root / "openclaw.json").write_text(
        """{
  // OpenClaw's own comment
  agents: {defaults: {
    model: {primary: "anthropic/claude-sonnet-4-5"},
    workspace: "~/.openclaw/workspace",
    contextTokens: 100000,
    userTimezone: "Europe/Lisbon",
  }},
  models: {providers: {openai: {apiKey: "THE-KEY"}}},
  channels: {telegram: {botToken: "123456789:AAEhBOweik6ad9r_QXMENQjcrGbqCr4K-bc"}},
  gateway: {port: 18789},
}""".replace("THE-KEY", KEY)
    )
    (root / ".env").write_text("ANTHROPIC_API_KEY=sk-ant-api03-xyz1234567890\nEDITOR=vi\n")
    (root / "workspace/MEMORY.md").write_text(f"- The boat is called Halcyon.\n- openai: {KEY}\n")
    (root / "workspace/SOUL.md").write_text("Be brief, and a little dry.\n")
    (root / "workspace/AGENTS.md").write_text("Call the openclaw tools.\n")
    (root / "workspace/.openclaw/setup.json").write_text("{}")
    (memory / "2026-01-20.md").write_text("- Saw Dr. Alder in Porto.\n")
    text = _lines(OPENCLAW_SESSION, "Where is my kayak stored?", "In the shed at Setubal.")
    (sessions / f"{OPENCLAW_SESSION}.jsonl").write_text(f'{text}{{"type":"mess')
    reset = f"{OPENCLAW_EARLIER}.jsonl.reset.2026-01-19T04-00-00.000Z"
    (sessions / reset).write_text(_lines(OPENCLAW_EARLIER, "Which paint for the hull?", "Epoxy."))
    line = {
        "sessionId": OPENCLAW_SESSION,
        "updatedAt": 1768899603000,
        "chatType": "direct",
        "sessionFile": f"/home/anna/.openclaw/agents/main/sessions/{OPENCLAW_SESSION}.jsonl",
        "skillsSnapshot": {"prompt": ""},
    }
    (sessions / "sessions.json").write_text(json.dumps({"agent:main:main": line}))
    return root


def hermes(root: Path) -> Path:
    """A folder with 7 files: 2 sessions with 7 messages, one of them taken back, one by the program."""
    (root / "memories").mkdir(parents=True)
    (root / "skills/knots").mkdir(parents=True)
    (root / "SOUL.md").write_text("You are patient.\n")
    (root / "memories/MEMORY.md").write_text("Runs a bakery in Faro\n§\nOven is a Miwe\n")
    (root / "memories/USER.md").write_text("Name: Ines\n")
    (root / "skills/knots/SKILL.md").write_text("---\nname: knots\n---\n")
    (root / "config.yaml").write_text(
        "model:\n  default: anthropic/claude-opus-4.6\n  provider: auto\ntimezone: Europe/Lisbon\n"
        "terminal:\n  backend: local\n"
    )
    (root / ".env").write_text("OPENROUTER_API_KEY=sk-or-v1-0123456789abcdef0123\n")
    with closing(sqlite3.connect(root / "state.db")) as database:
        database.executescript(
            """
            CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, chat_type TEXT, model TEXT,
                title TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, cwd TEXT);
            CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
                role TEXT NOT NULL, content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT,
                timestamp REAL NOT NULL, reasoning TEXT, active INTEGER NOT NULL DEFAULT 1,
                compacted INTEGER NOT NULL DEFAULT 0);
            INSERT INTO sessions VALUES ('20260203_101500_ab12', 'cli', NULL, 'claude-opus-4.6',
                'Sourdough times', NULL, 1770113700, NULL, '/home/ines');
            INSERT INTO sessions VALUES ('20260204_091000_cd34', 'telegram', 'group', 'claude-opus-4.6',
                'Team', NULL, 1770196200, NULL, NULL);
            """
        )
        calls = json.dumps(
            [{"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}]
        )
        rows = [
            ("20260203_101500_ab12", "system", "You are Hermes.", None, None, None, 1, 0),
            ("20260203_101500_ab12", "user", "How long does the rye rise?", None, None, None, 1, 0),
            ("20260203_101500_ab12", "assistant", "", None, calls, None, 1, 0),
            ("20260203_101500_ab12", "tool", "rye: 9 hours", "call_1", None, "read", 1, 0),
            ("20260203_101500_ab12", "assistant", "Nine hours, cool.", None, None, None, 1, 0),
            ("20260203_101500_ab12", "user", "Never mind", None, None, None, 0, 0),
            (
                "20260204_091000_cd34",
                "user",
                '\x00json:[{"type": "text", "text": "Who opens on Sunday?"}]',
                None,
                None,
                None,
                1,
                0,
            ),
        ]
        database.executemany(
            "INSERT INTO messages (session_id, role, content, tool_call_id, tool_calls, tool_name, active,"
            " compacted, timestamp) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1770113800)",
            rows,
        )
        database.commit()
    return root


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


def claude(folder: Path) -> Path:
    """An export with 4 files: 2 conversations with 5 messages, memories, a project with a document."""
    folder.mkdir(parents=True)
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
    (folder / "conversations.json").write_text(json.dumps([hives, queens]))
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
