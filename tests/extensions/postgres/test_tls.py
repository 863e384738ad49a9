"""The connection to the database over TLS: only to a server whose certificate the settings know."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nacre.extensions.postgres.server.connections import ConnectionLimits, DatabaseUnreachable
from nacre.extensions.postgres.server.database import Database
from tests.servers.pgbouncer import pgbouncer

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key, for everybody to read."""
    crt, key = folder / f"{name}.crt", folder / f"{name}.key"
    wanted = f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={name}"
    files = ["-keyout", str(key), "-out", str(crt), "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", *wanted.split(), *files], check=True, capture_output=True)
    key.chmod(0o644)
    return crt, key


@pytest.fixture
def served(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, Path]]:
    """A database behind TLS alone: its url, its certificate, and that of somebody else."""
    folder = tmp_path_factory.mktemp("tls")
    for each in (folder, *folder.parents[:2]):
        each.chmod(0o755)
    crt, key = certificate(folder, "database")
    other, _ = certificate(folder, "other")
    options = f"client_tls_sslmode = require\nclient_tls_cert_file = {crt}\nclient_tls_key_file = {key}"
    with pgbouncer(database_url, options) as url:
        yield url, crt, other


async def test_a_known_server_is_spoken_to_in_secret(served: tuple[str, Path, Path]) -> None:
    """With `sslmode=verify-full` in the url, as libpq has it; a server of another certificate is refused."""
    url, crt, other = served
    database = Database(f"{url}?sslmode=verify-full&sslrootcert={crt}")
    assert await database.read(lambda connection: connection.pgconn.ssl_in_use)
    await database.close()

    limits = ConnectionLimits(retry_seconds=0.1)
    for wrong in (f"sslmode=verify-full&sslrootcert={other}", "sslmode=disable"):
        refused = Database(f"{url}?{wrong}", limits=limits)
        with pytest.raises(DatabaseUnreachable, match=r"certificate verify failed|SSL required"):
            await refused.read(lambda connection: connection.execute("SELECT 1").fetchone())
        await refused.close()
