"""Folders and archives as the four programs make them, small, with the odd things that real ones have."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

OPENCLAW_SESSION = "0b9b1c1e-1111-4222-8333-444455556666"
OPENCLAW_EARLIER = "77777777-1111-4222-8333-444455556666"
KEY = "sk-proj-abcdEFGH1234567890abcd"


_HERMES_TABLES = """
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


def openclaw_database(root: Path) -> Path:
    """Moves the sessions of a state folder into the agent's database, as OpenClaw 2026.8 did."""
    sessions = root / "agents/main/sessions"
    index = json.loads((sessions / "sessions.json").read_text())
    (root / "agents/main/agent").mkdir()
    with closing(sqlite3.connect(root / "agents/main/agent/openclaw-agent.sqlite")) as database:
        database.executescript(
            """
            CREATE TABLE session_entries (session_key TEXT NOT NULL PRIMARY KEY, session_id TEXT NOT NULL,
                entry_json TEXT NOT NULL, updated_at INTEGER NOT NULL);
            CREATE TABLE transcript_events (session_id TEXT NOT NULL, seq INTEGER NOT NULL,
                event_json TEXT NOT NULL, created_at INTEGER NOT NULL, PRIMARY KEY (session_id, seq));
            """
        )
        for key, record in index.items():
            row = (key, record["sessionId"], json.dumps(record), record["updatedAt"])
            database.execute("INSERT INTO session_entries VALUES (?, ?, ?, ?)", row)
        lines = (sessions / f"{OPENCLAW_SESSION}.jsonl").read_text().splitlines()[:-1]
        rows = [(OPENCLAW_SESSION, seq, line, 1768899600000) for seq, line in enumerate(lines)]
        database.executemany("INSERT INTO transcript_events VALUES (?, ?, ?, ?)", reversed(rows))
        database.commit()
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
        database.executescript(_HERMES_TABLES)
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
