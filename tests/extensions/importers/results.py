"""Runs `nacre import` in an empty home, and reads what it tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.program import run_here


def import_report(home: Path, program: str, source: Path, *options: str) -> dict[str, Any]:
    """What an import told as JSON; it ended well, and its numbers add up."""
    run = run_here(home, "import", program, str(source), "--json", *options)
    assert run.returncode == 0, run.stderr
    told: dict[str, Any] = json.loads(run.stdout)
    for kind, counts in told["counts"].items():
        carried = counts["imported"] + counts["alreadyHere"] + counts["skipped"]
        assert carried == counts["found"], f"{kind}: {counts}"
    return told


def numbers(told: dict[str, Any], kind: str) -> tuple[int, int, int, int]:
    """Found, imported, here already, skipped."""
    counts = told["counts"][kind]
    return counts["found"], counts["imported"], counts["alreadyHere"], counts["skipped"]


def reasons(told: dict[str, Any], kind: str) -> dict[str, list[str]]:
    """The names of what was skipped, by the reason."""
    return {each["reason"]: each["names"] for each in told["skipped"] if each["kind"] == kind}


def workspace(home: Path) -> dict[str, str]:
    """The Markdown of the home's workspace by its path."""
    root = home / ".nacre" / "workspace"
    return {path.relative_to(root).as_posix(): path.read_text() for path in sorted(root.rglob("*.md"))}


def transcripts(home: Path) -> dict[str, list[dict[str, Any]]]:
    """The lines of the home's transcripts by the session's name, or its id."""
    found = {}
    for path in sorted((home / ".nacre/agents/main/sessions").glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        name = next((line["name"] for line in lines if line["type"] == "session_info" and line["name"]), "")
        found[name or path.stem] = lines
    return found


def branch_messages(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Role and text of the branch that a transcript ends with."""
    entries = {line["id"]: line for line in lines[1:]}
    said, at = [], lines[-1]["id"]
    while at is not None:
        message = entries[at].get("message")
        if message:
            words = [part.get("text") or part.get("name") or part["type"] for part in message["content"]]
            said.append((message["role"], " ".join(words)))
        at = entries[at]["parentId"]
    return said[::-1]
