"""Real servers for tests: programs of the system, each on a free port of loopback."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

READY_SECONDS = 60.0


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def program(name: str, package: str) -> str:
    """Where a server's program is; without it the test is skipped, with a sentence."""
    path = shutil.which(name, path=f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/usr/local/sbin:/usr/sbin")
    if path is None:
        pytest.skip(f"{name} is not installed; `make channels` takes {package} of the system or of pip")
    return path


class ServerProcess:
    """A server that can be stopped and started again, from any event loop."""

    def __init__(self, command: Sequence[str], port: int, folder: Path) -> None:
        self.port = port
        self._command = command
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Starts it, and waits until its port answers."""
        process = self._process = self._begun()
        async with asyncio.timeout(READY_SECONDS):
            while not await answers(self.port):
                assert process.poll() is None, (self._folder / "server.log").read_text()
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Ends it, and waits until it has ended."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, 15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _begun(self) -> subprocess.Popen[bytes]:
        with (self._folder / "server.log").open("ab") as log:
            return subprocess.Popen(
                self._command, cwd=self._folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )


async def answers(port: int) -> bool:
    """Whether somebody listens at a port."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def self_signed(folder: Path) -> tuple[Path, Path]:
    """A key and a certificate for `localhost` that signed itself, readable for all."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    process = await asyncio.create_subprocess_exec(
        program("openssl", "openssl"),
        *command.split(),
        *("-addext", "subjectAltName=DNS:localhost"),
        *("-keyout", str(key), "-out", str(certificate)),
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert await process.wait() == 0
    key.chmod(0o644)
    return key, certificate
