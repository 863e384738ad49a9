"""A pgbouncer in front of a database of `postgres_server`, in transaction mode with two connections to it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest


@contextmanager
def pgbouncer(database_url: str, options: str = "") -> Iterator[str]:
    """The url of the database through it; `options` are further lines of its settings."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("there is no pgbouncer: apt-get install pgbouncer")
    folder = parse_qs(urlsplit(database_url).query)["host"][0]
    name = urlsplit(database_url).path[1:]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        users, config = Path(place, "users.txt"), Path(place, "pgbouncer.ini")
        users.write_text('"postgres" ""\n')
        config.write_text(
            f"[databases]\n{name} = host={folder} dbname={name}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {users}\n"
            f"pool_mode = transaction\ndefault_pool_size = 2\n{options}\n"
        )
        user = ["-u", Path(folder).owner()] if os.getuid() == 0 else []
        running = subprocess.Popen([program, *user, str(config)], stderr=subprocess.DEVNULL)
        try:
            _await_port(port)
            yield f"postgresql://postgres:@127.0.0.1:{port}/{name}"
        finally:
            running.terminate()
            running.wait()


def _await_port(port: int) -> None:
    for _ in range(1200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            threading.Event().wait(0.05)
    raise AssertionError("pgbouncer did not start")
