"""Model files from a real server on loopback: whole, in parts, and not at all."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from nacre.extensions.providers.embedding.local_models import BLOCK_BYTES, RemoteModelFile
from nacre.memory.contracts.embedder import EmbeddingFailed
from nacre.runtime.contracts.errors import ConfigError

SOURCE = "hf:bees/honey-GGUF/honey-Q8_0.gguf"
FILE = bytes(range(256)) * (3 * BLOCK_BYTES // 256)


class Hub:
    """A hub that sends on to where the bytes are, as the real one does; `cut` ends an answer too early."""

    def __init__(self) -> None:
        self.ranges: list[str | None] = []
        self.cut: int | None = None
        self.tag = '"v1"'
        self.sha256 = hashlib.sha256(FILE).hexdigest()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/bees/honey-GGUF/resolve/main/honey-Q8_0.gguf":
                    self.send_response(302)
                    self.send_header("location", "/elsewhere")
                    self.send_header("x-linked-etag", f'"{hub.sha256}"')
                    self.send_header("content-length", "0")
                    self.end_headers()
                elif self.path == "/elsewhere":
                    self._bytes()
                else:
                    self.send_error(404)

            def _bytes(self) -> None:
                wanted = self.headers.get("range")
                hub.ranges.append(wanted)
                start = 0
                if wanted and self.headers.get("if-range") == hub.tag:
                    start = int(wanted.removeprefix("bytes=").rstrip("-"))
                if start == len(FILE):
                    self.send_response(416)
                    self.send_header("content-range", f"bytes */{start}")
                    self.send_header("content-length", "0")
                    self.end_headers()
                    return
                data = FILE[start:]
                self.send_response(206 if start else 200)
                self.send_header("etag", hub.tag)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data if hub.cut is None else data[: hub.cut])

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A hub on loopback."""
    hub = Hub()
    yield hub
    hub.close()


def never() -> bool:
    """Nobody asks to stop."""
    return False


@pytest.mark.covers("PART-25")
def test_a_model_is_downloaded_once(hub: Hub, tmp_path: Path) -> None:
    """The file lies under its owner's and repository's name, and is not fetched again."""
    model = RemoteModelFile(SOURCE, tmp_path, hub=hub.url)
    assert model.ready() is None

    path = model.fetch(never)
    again = RemoteModelFile(SOURCE, tmp_path, hub=hub.url).fetch(never)

    assert path == again == tmp_path / "bees" / "honey-GGUF" / "honey-Q8_0.gguf"
    assert path.read_bytes() == FILE
    assert hub.ranges == [None]
    assert sorted(each.name for each in path.parent.iterdir() if each.suffix != ".lock") == [path.name]


@pytest.mark.covers("PART-25")
def test_a_download_goes_on_where_it_was_cut(hub: Hub, tmp_path: Path) -> None:
    """Another process asks only for the rest."""
    hub.cut = BLOCK_BYTES + 7
    with pytest.raises(EmbeddingFailed, match=r"honey-Q8_0\.gguf could not be downloaded.*continues it"):
        RemoteModelFile(SOURCE, tmp_path, hub=hub.url).fetch(never)
    [part] = tmp_path.rglob("*.part")
    had_bytes = part.stat().st_size
    assert had_bytes > 0

    hub.cut = None
    path = RemoteModelFile(SOURCE, tmp_path, hub=hub.url).fetch(never)

    assert hub.ranges == [None, f"bytes={had_bytes}-"]
    assert path.read_bytes() == FILE


@pytest.mark.parametrize("sound", [True, False])
def test_a_kill_before_the_file_got_its_name_costs_nothing(hub: Hub, tmp_path: Path, *, sound: bool) -> None:
    """What is here as a whole is checked and named, and thrown away where it is not what the hub means."""
    folder = tmp_path / "bees" / "honey-GGUF"
    folder.mkdir(parents=True)
    (folder / "honey-Q8_0.gguf.part").write_bytes(FILE if sound else FILE[::-1])
    (folder / "honey-Q8_0.gguf.part.tag").write_text(hub.tag)
    model = RemoteModelFile(SOURCE, tmp_path, hub=hub.url)
    if not sound:
        with pytest.raises(EmbeddingFailed, match="It was deleted"):
            model.fetch(never)
    path = model.fetch(never)

    assert path.read_bytes() == FILE
    assert hub.ranges == [f"bytes={len(FILE)}-", *([] if sound else [None])]


def test_another_file_under_the_same_name_starts_again(hub: Hub, tmp_path: Path) -> None:
    """The halves of two files are never put together."""
    hub.cut = BLOCK_BYTES + 7
    with pytest.raises(EmbeddingFailed):
        RemoteModelFile(SOURCE, tmp_path, hub=hub.url).fetch(never)
    hub.cut, hub.tag = None, '"v2"'

    assert RemoteModelFile(SOURCE, tmp_path, hub=hub.url).fetch(never).read_bytes() == FILE


def test_a_file_with_another_hash_is_thrown_away(hub: Hub, tmp_path: Path) -> None:
    """What the hub did not mean to send is never used."""
    hub.sha256 = "0" * 64
    with pytest.raises(EmbeddingFailed, match="hub says 0000"):
        RemoteModelFile(SOURCE, tmp_path, hub=hub.url).fetch(never)

    assert [*tmp_path.rglob("*.gguf"), *tmp_path.rglob("*.part")] == []


def test_a_download_can_be_stopped(hub: Hub, tmp_path: Path) -> None:
    """A program that ends does not wait for the rest, and keeps what came."""
    model = RemoteModelFile(SOURCE, tmp_path, hub=hub.url)
    with pytest.raises(EmbeddingFailed, match="was stopped"):
        model.fetch(lambda: "1 MB" in model.progress())

    assert model.progress() == "The embedding model honey-Q8_0.gguf is being downloaded: 1 MB of 3 MB."


def test_two_processes_do_not_download_the_same_file(hub: Hub, tmp_path: Path) -> None:
    """The second says so at once; words are searched meanwhile."""
    model = RemoteModelFile(SOURCE, tmp_path, hub=hub.url)
    path = tmp_path / "bees" / "honey-GGUF" / "honey-Q8_0.gguf"
    path.parent.mkdir(parents=True)
    with FileLock(f"{path}.lock"), pytest.raises(EmbeddingFailed, match="Another process is downloading"):
        model.fetch(never)

    assert hub.ranges == []


def test_a_model_that_is_not_there_is_told(hub: Hub, tmp_path: Path) -> None:
    """With the address that was asked."""
    model = RemoteModelFile("hf:bees/honey-GGUF/wax.gguf", tmp_path, hub=hub.url)
    with pytest.raises(EmbeddingFailed, match=r"resolve/main/wax\.gguf \(.*404"):
        model.fetch(never)


@pytest.mark.parametrize(
    "source",
    [
        "hf:bees/honey",
        "hf:bees/honey/../../../etc/passwd.gguf",
        "hf:bees/honey:Q8_0",
        "hf:bees/honey/honey.bin",
        "http://bees.example/honey.gguf",
        "https://bees.example/..%2f..%2fhoney.gguf",
        "https:///honey.gguf",
    ],
)
def test_sources_that_are_none_are_refused(source: str, tmp_path: Path) -> None:
    """A name never leaves the folder for models, and nothing comes over a line that others can change."""
    with pytest.raises(ConfigError, match=r"local\.modelPath is .*hf:owner/repository/file\.gguf"):
        RemoteModelFile(source, tmp_path)


@pytest.mark.covers("PART-34")
def test_an_address_of_a_file_will_do(tmp_path: Path) -> None:
    """It is kept under its server's name."""
    assert RemoteModelFile("https://bees.example/m/honey.gguf?v=1", tmp_path).name == "honey.gguf"
