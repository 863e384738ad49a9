"""Keys from `auth-profiles.json` of OpenClaw: which one counts, and what a broken file costs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.clock import epoch_ms
from nacre.runtime.settings.config import load_config
from nacre.runtime.settings.disk.auth_profiles import AuthProfiles, read_auth_profiles
from tests.runtime.agents import START

NOW_MS = epoch_ms(START)
ANTHROPIC = {"type": "api_key", "provider": "anthropic", "key": "sk-ant"}


def write_profiles(agent_dir: Path, *, name: str = "agent/auth-profiles.json", **stored: Any) -> Path:
    """Puts the file where OpenClaw writes it."""
    file = agent_dir / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"version": 1, **stored}), encoding="utf-8")
    return file


def key(auth: AuthProfiles, provider: str, *, now_ms: float = NOW_MS, with_oauth: bool = True) -> str | None:
    found = auth.find(provider, now_ms=now_ms, with_oauth=with_oauth)
    return found.api_key if found else None


@pytest.mark.parametrize("name", ["agent/auth-profiles.json", "auth-profiles.json"])
@pytest.mark.covers("SEED-20")
def test_each_type_of_profile_holds_a_key(tmp_path: Path, name: str) -> None:
    """Keys, tokens and what an OAuth entry holds; one that has ended, or has no key, does not count."""
    write_profiles(
        tmp_path,
        name=name,
        profiles={
            "anthropic:default": ANTHROPIC,
            "github:me": {"type": "token", "provider": "github", "token": " ghp "},
            "xai:old": {"type": "token", "provider": "xai", "token": "late", "expires": NOW_MS},
            "codex:me": {"type": "oauth", "provider": "Codex", "access": "oa", "expires": NOW_MS + 1},
            "google:default": {"type": "api_key", "provider": "google", "key": "AIza"},
            "groq:ref": {"type": "api_key", "provider": "groq", "keyRef": {"source": "env", "id": "GROQ"}},
            "next": {"type": "device", "provider": "groq", "key": "unknown kind"},
            "junk": 7,
        },
    )
    auth = read_auth_profiles(tmp_path)

    found = {name: key(auth, name) for name in ("anthropic", "github", "xai", "codex", "gemini", "groq")}
    assert found == {
        "anthropic": "sk-ant",
        "github": "ghp",
        "xai": None,
        "codex": "oa",
        "gemini": "AIza",
        "groq": None,
    }
    assert key(auth, "codex", now_ms=NOW_MS + 1) is None
    assert key(auth, "codex", with_oauth=False) is None
    assert "sk-ant" not in repr(auth)


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        ({}, "plain"),
        ({"lastGood": {"Anthropic": "a:token"}}, "token"),
        ({"order": {"anthropic": ["a:gone", "a:signed-in", "a:plain"]}}, "oauth"),
        ({"order": {"anthropic": ["a:gone"]}}, None),
        ({"order": {"anthropic": []}, "lastGood": {"anthropic": "a:gone"}}, "plain"),
        ({"order": 7, "lastGood": []}, "plain"),
    ],
)
def test_the_owners_order_goes_before_the_last_good_one(
    tmp_path: Path, stored: dict[str, Any], wanted: str | None
) -> None:
    """`order` names all that count; without it the one that worked last, then what never ends by itself."""
    profiles = {
        "a:signed-in": {"type": "oauth", "provider": "anthropic", "access": "oauth"},
        "a:token": {"type": "token", "provider": "anthropic", "token": "token"},
        "a:plain": {"type": "api_key", "provider": "anthropic", "key": "plain"},
    }
    write_profiles(tmp_path, profiles=profiles, **stored)

    assert key(read_auth_profiles(tmp_path), "anthropic") == wanted


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"profiles": {"a": {"key": "sk-secret"', "it is not JSON"),
        (b"\xff\xfe\x00s", "it is not UTF-8"),
        (b"[1]", "it has no object 'profiles'"),
        (b"[" * 100_000, "it is not JSON"),
        (None, "it is not a plain file"),
    ],
)
def test_a_broken_file_is_a_sentence_without_its_keys(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    """The agent opens without these keys; the file stays as it is, and a pipe keeps nobody waiting."""
    file = tmp_path / "agents/main/agent/auth-profiles.json"
    file.parent.mkdir(parents=True)
    if content is None:
        os.mkfifo(file)
    else:
        file.write_bytes(content)

    [notice] = load_config({"HOME": str(tmp_path)}, state_dir=tmp_path).notices

    assert notice.startswith(f"{file} cannot be read: {why}")
    assert "sk-secret" not in notice
    assert content is None or file.read_bytes() == content
