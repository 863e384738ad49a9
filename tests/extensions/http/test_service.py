"""`nacre serve` with `http.port`, and the tokens that open it, as the owner uses them."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import pytest

from tests.cli.program import WAIT_SECONDS, run_nacre
from tests.cli.serving.test_serve import serving
from tests.runtime.agents import write_settings

pytest.importorskip("starlette", reason="the extra serve is not installed: make protocols")
httpx = pytest.importorskip("httpx")


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_a_program_talks_to_the_assistant_with_a_token(tmp_path: Path) -> None:
    """Without a channel; the token is made beside the running program; SIGTERM ends it with code 0."""
    port = free_port()
    settings = {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}, "http": {"port": port}}
    write_settings(tmp_path / ".nacre", settings)
    with serving(tmp_path) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("Serving HTTP"))
        assert line == f"Serving HTTP at http://127.0.0.1:{port}.\n"
        made = json.loads(
            run_nacre(tmp_path, "admin", "access", "token", "add", "desk", "--owner", "--json").stdout
        )
        answer = httpx.post(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            json={"model": "main", "messages": [{"role": "user", "content": "/help"}]},
            headers={"authorization": f"Bearer {made['token']}"},
            timeout=30,
        )
        assert "/status" in answer.json()["choices"][0]["message"]["content"]
        told = httpx.get(
            f"http://127.0.0.1:{port}/metrics",
            headers={"authorization": f"Bearer {made['token']}"},
            timeout=30,
        ).text
        assert "nacre_messages_waiting 0.0" in told
        assert 'nacre_http_requests_total{door="/v1",status="2xx"} 1.0' in told
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_SECONDS) == 0


def test_tokens_are_made_listed_and_revoked(tmp_path: Path) -> None:
    """A token is shown once; what there is none of is a sentence."""
    told = run_nacre(tmp_path, "admin", "access", "token", "add", "phone")
    shown = told.stdout.splitlines()[-1]
    assert shown.startswith("nacre_")
    listed = run_nacre(tmp_path, "admin", "access", "token", "list")
    assert listed.stdout.startswith("phone  agent main, stranger, made ")
    assert shown not in listed.stdout
    assert run_nacre(tmp_path, "admin", "access", "token", "revoke", "phone").stdout == "Revoked: phone.\n"
    again = run_nacre(tmp_path, "admin", "access", "token", "revoke", "phone")
    assert (again.returncode, "no token 'phone'" in again.stderr) == (1, True)
