"""The law of the rooms: which room lies on which floor, what a room may not import although it is lower, and
which files may import a foreign library.

A room imports from lower floors only: of its own root room, and of the root rooms below that one. Rooms
of one floor do not know each other. Imports inside functions and for type checkers count.
"""

from __future__ import annotations

from tests.house.rules.rooms import Floors, Law, Never

ROOTS: Floors = (
    ("web",),
    ("extensions",),
    ("cli",),
    ("bridges",),
    ("runtime",),
    ("sessions", "memory", "prompts"),
    ("closing", "locks", "record"),
)
"""The root rooms from top to bottom, and the modules. Nobody imports `workspace_template`; it is data."""

CLI: Floors = (
    ("cli/sessions",),
    ("cli/talk", "cli/memory", "cli/permissions", "cli/serving", "cli/setup"),
    ("cli/talk/keyboard",),
    ("cli/setup/config",),
    ("cli",),
    ("cli/screen",),
)
EXTENSIONS: Floors = (
    tuple(
        f"extensions/{name}"
        for name in (
            *("acp", "backup", "curation", "discord", "email", "facts", "forget", "http", "importers"),
            "irc",
            *("lancedb", "matrix", "mcp"),
            *("memory_bench", "postgres", "providers", "slack", "telegram", "xmpp"),
        )
    ),
    ("extensions/qmd",),
    (
        *("extensions/http/openai", "extensions/http/page", "extensions/postgres/workers"),
        "extensions/providers/embedding",
        "extensions/providers/openai_compatible",
    ),
    ("extensions/providers/completions",),
    (
        "extensions/http/server",
        "extensions/postgres/server",
        "extensions/importers/sources",
        "extensions/mcp/client",
        "extensions/mcp/server",
    ),
)
BRIDGES: Floors = (
    ("bridges",),
    ("bridges/answering", "bridges/schedule"),
    ("bridges/queueing", "bridges/access", "bridges/channels", "bridges/connections"),
    ("bridges/delivery",),
    ("bridges/contracts",),
)
RUNTIME: Floors = (
    ("runtime/agent",),
    ("runtime/agent/insight",),
    ("runtime/agent/opening",),
    ("runtime/extensions",),
    ("runtime/commands",),
    ("runtime/commands/conversation",),
    ("runtime/session_lifecycle",),
    ("runtime/turn",),
    ("runtime/recall",),
    ("runtime/open_sessions",),
    ("runtime/hooks",),
    ("runtime/storage", "runtime/providers"),
    ("runtime/settings",),
    ("runtime/models", "runtime/settings/sections", "runtime/tools"),
    (
        "runtime/settings/disk",
        "runtime/tools/approvals",
        "runtime/extensions/installed",
        "runtime/ledger",
    ),
    ("runtime/models/offline",),
    ("runtime/contracts",),
)
MEMORY: Floors = (
    ("memory",),
    ("memory/sync", "memory/search"),
    ("memory/stores",),
    ("memory/stores/sqlite", "memory/files"),
    ("memory/workspace/history",),
    (
        "memory/vectors",
        "memory/embedders",
        "memory/search/rerankers",
        "memory/workspace",
        "memory/files/sources",
    ),
    ("memory/text",),
    ("memory/text/days", "memory/text/forms"),
    ("memory/contracts",),
)
SESSIONS: Floors = (
    ("sessions/stores",),
    ("sessions/upkeep",),
    ("sessions/journal", "sessions/compaction"),
    ("sessions/view", "sessions/index"),
    ("sessions/entries",),
    ("sessions/disk",),
    ("sessions/contracts",),
)
NEVERS = (
    Never(
        ("cli*",),
        ("runtime/turn*", "runtime/models*"),
        "the terminal talks to an agent, and does not take part in a turn",
    ),
    Never(
        ("bridges*",),
        ("runtime/turn*", "runtime/models*", "memory*", "prompts"),
        "a bridge brings words to an agent and takes them from it, and knows neither models nor notes",
    ),
    Never(
        ("cli*", "runtime*"),
        ("memory/stores*", "memory/search"),
        "notes are searched and stored through the engine; an index may be looked at from outside",
        but=("memory/stores",),
    ),
    Never(
        ("runtime/open_sessions", "runtime/turn*", "runtime/session_lifecycle", "runtime/commands*"),
        ("runtime/models/*",),
        "a turn asks a ChatModel, whichever it is; how people ask to remember is read in one place",
        but=("runtime/models/offline",),
    ),
    Never(
        ("runtime/models*",),
        (
            "sessions/journal",
            "sessions/index",
            "sessions/upkeep",
            "memory",
            "memory/files",
            "memory/workspace",
        ),
        "a model is given messages, and knows neither sessions nor notes",
    ),
    Never(
        ("runtime/tools",),
        ("memory*",),
        "file tools know the owner's Markdown and nothing of the index",
        but=("memory/contracts", "memory/files/sources"),
    ),
    Never(
        ("runtime/contracts",),
        ("memory*", "prompts", "sessions/*"),
        "the values of the runtime rest on the values of a conversation and of notes alone",
        but=("sessions/contracts", "memory/contracts"),
    ),
    Never(
        ("memory/stores/*",),
        ("memory/workspace", "memory/embedders"),
        "a database is told what to hold; it reads no notes and asks no model",
    ),
)
LAW = Law(
    roots=ROOTS,
    floors={
        "extensions": EXTENSIONS,
        "cli": CLI,
        "bridges": BRIDGES,
        "runtime": RUNTIME,
        "memory": MEMORY,
        "sessions": SESSIONS,
    },
    nevers=NEVERS,
)

MOST_ENTRIES = 24
"""Files and folders in a folder, its README and `__init__.py` included."""
OTHER_TESTS = ("acceptance", "contract", "documents", "faults", "fixtures", "golden", "house", "servers")
"""Folders of tests that mirror no room: kinds of tests, what tests share, and their data."""
