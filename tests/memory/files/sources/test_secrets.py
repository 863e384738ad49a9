"""Keys and passwords do not come into a note; what only looks like one does."""

from __future__ import annotations

import base64
import hashlib
import time
import uuid
from pathlib import Path

import pytest

from nacre.memory.files.sources.secrets import without_new_secrets
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SecretRefused, SourcedWorkspace
from nacre.memory.files.sources.sources import SecretsMode, SourceOf, Sources
from nacre.memory.workspace.folder import FolderWorkspace

DRAWN = hashlib.sha256(b"drawn").hexdigest()
KEY = f"sk-proj-{DRAWN[:40]}"
PEM = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAAdjEAAAA\n-----END OPENSSH PRIVATE KEY-----"


@pytest.mark.parametrize(
    "secret",
    [
        KEY,
        f"sk-ant-api03-{DRAWN[:40]}-AA",
        f"ghp_{DRAWN[:36]}",
        f"github_pat_{DRAWN[:22]}_{DRAWN}",
        f"glpat-{DRAWN[:20]}",
        f"xoxb-123456789012-1234567890123-{DRAWN[:24]}",
        "AKIAIOSFODNN7EXAMPLE",
        f"AIzaSy{DRAWN[:33]}",
        f"hf_{DRAWN[:34]}",
        f"SG.{DRAWN[:22]}.{DRAWN[:43]}",
        f"123456789:AA{DRAWN[:33]}",
        f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{DRAWN[:43]}",
        f"https://hooks.slack.com/services/T00000000/B00000000/{DRAWN[:24]}",
        PEM,
    ],
)
def test_keys_of_known_forms_become_a_mark(secret: str) -> None:
    """Those of model providers, code hosts, chats and clouds, in the middle of a sentence."""
    assert without_new_secrets(f"- It is {secret} now.\n") == "- It is [redacted] now.\n"


@pytest.mark.parametrize(
    "text",
    [
        str(uuid.UUID(DRAWN[:32])),
        f"token: {uuid.UUID(DRAWN[:32])}",
        f"commit {DRAWN[:40]}",
        f"sha256:{DRAWN}",
        f"![](data:image/png;base64,{base64.b64encode(bytes(range(256))).decode()})",
        "The secret: chocolate. Password: ask Lisa. Token: 2026-11-20",
        "bearer certificates, sk-learn-extensions-2024, hf_model-card-v2-final, max_tokens: 128000",
        "The gate code is 4711; call +49 30 1234567 or write to anna@example.org.",
        "https://example.org/notes?id=8f14e45fceea167a5a36dedd4bea2543",
        "memory/2026-01-20.md#L3",
        "token: memory/2026-01-20.md",
    ],
)
def test_what_only_looks_so_is_kept(text: str) -> None:
    """Ids, hashes, pictures, days, addresses and words are no keys."""
    assert without_new_secrets(text) == text


def test_the_beginnings_of_many_keys_hold_nobody_up() -> None:
    """A message may consist of them."""
    started = time.process_time()
    assert without_new_secrets("sk-" * 300_000) == "sk-" * 300_000
    assert time.process_time() - started < 8


@pytest.mark.parametrize(("mode", "kept"), [("redact", "[redacted]"), ("refuse", ""), ("off", KEY)])
async def test_the_gate_of_what_sessions_write(tmp_path: Path, mode: SecretsMode, kept: str) -> None:
    """Appended or put into a file, a key is replaced, refused or let in; a line by hand stays."""

    async def begin() -> SourceOf:
        return lambda _line: Source(written_by="tool", audience=PRIVATE, at="2026-01-20")

    (tmp_path / "MEMORY.md").write_text("- by hand: ghp_0123456789abcdefghij0123456789abcdef\n")
    folder = FolderWorkspace(tmp_path, lock_dir=tmp_path.parent / "locks")
    workspace = SourcedWorkspace(folder, Sources(folder, secrets=mode), begin)
    before = (tmp_path / "MEMORY.md").read_text()

    async def write() -> None:
        await workspace.append("memory/2026-01-20.md", f"- The key is {KEY}\n")
        await workspace.change("MEMORY.md", lambda old: (old or b"") + f"- {KEY}\n".encode())

    if mode == "refuse":
        with pytest.raises(SecretRefused, match="has a key or a password"):
            await write()
        assert (tmp_path / "MEMORY.md").read_text() == before
        return
    await write()

    assert (tmp_path / "memory/2026-01-20.md").read_text() == f"- The key is {kept}\n"
    assert (tmp_path / "MEMORY.md").read_text() == f"{before}- {kept}\n"
