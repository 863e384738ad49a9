"""Brings a model file here, once: `hf:owner/repository/file.gguf` or an https address. Edge.

A download that was cut goes on where it stopped, in this process or another. The file takes its name only
when it is whole and, where the hub tells its hash, right.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from nacre.extensions.providers.completions.addresses import is_loopback, without_credentials
from nacre.memory.contracts.embedder import EmbeddingFailed
from nacre.runtime.contracts.errors import ConfigError

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

HUB = "https://huggingface.co"
BLOCK_BYTES = 1 << 20
STALL_SECONDS = 60.0

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_SHA256 = re.compile(r'"?([0-9a-f]{64})"?')


class RemoteModelFile:
    """A model file to be downloaded into `folder`. `source` is an `hf:` URI or an https address.

    Raises:
        ConfigError: `source` is neither.
    """

    def __init__(self, source: str, folder: Path, *, hub: str = HUB) -> None:
        self.identity = source
        self._url, parts = _address(source, hub)
        self._path = folder.joinpath(*parts)
        self._part = self._path.with_name(f"{self._path.name}.part")
        self._tag = self._path.with_name(f"{self._path.name}.part.tag")
        self._have_bytes = 0
        self._total_bytes: int | None = None

    @property
    def name(self) -> str:
        return self._path.name

    def ready(self) -> Path | None:
        return self._path if self._path.is_file() else None

    def progress(self) -> str:
        """How far the download is; empty while there is none."""
        if not self._have_bytes:
            return ""
        of = f" of {self._total_bytes / 1e6:.0f} MB" if self._total_bytes else ""
        return f"The embedding model {self.name} is being downloaded: {self._have_bytes / 1e6:.0f} MB{of}."

    def fetch(self, stopped: Callable[[], bool]) -> Path:
        """The file, downloaded if it is not here.

        Raises:
            EmbeddingFailed: it cannot be had now; what came so far is kept for the next attempt.
        """
        if (path := self.ready()) is not None:
            return path
        import httpx
        from filelock import FileLock, Timeout

        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{self._path}.lock", timeout=0):
                if (path := self.ready()) is None:
                    self._download(stopped)
                    self._part.replace(self._path)
                    self._tag.unlink(missing_ok=True)
                    log.info("the embedding model %s is here", self._path)
        except Timeout as error:
            raise EmbeddingFailed(
                f"Another process is downloading the embedding model {self.name}. Until it is here, "
                "words are searched."
            ) from error
        except httpx.HTTPError as error:
            raise EmbeddingFailed(
                f"The embedding model {self.name} could not be downloaded from "
                f"{without_credentials(self._url)} ({error or type(error).__name__}). "
                "What came so far is kept and the next attempt goes on from there."
            ) from error
        except OSError as error:
            raise EmbeddingFailed(
                f"The embedding model {self.name} could not be stored in {self._path.parent}: "
                f"{error.strerror or error}. Make room there, or set memorySearch.local.modelCacheDir."
            ) from error
        return self._path

    def _download(self, stopped: Callable[[], bool]) -> None:
        import httpx

        self._have_bytes = self._part.stat().st_size if self._part.exists() else 0
        headers = {"accept-encoding": "identity"}
        if self._have_bytes and self._tag.exists():
            headers |= {"range": f"bytes={self._have_bytes}-", "if-range": self._tag.read_text().strip()}
        log.info("downloading the embedding model %s", self.name)
        trust = not is_loopback(self._url)
        with (
            httpx.Client(timeout=STALL_SECONDS, follow_redirects=True, trust_env=trust) as client,
            client.stream("GET", self._url, headers=headers) as response,
        ):
            # with all of it here, whoever brought it was killed before it got its name
            if response.headers.get("content-range") != f"bytes */{self._have_bytes}":
                self._receive(response, stopped)
            # the hub tells it on its own answer, before it sends on to where the bytes are
            told = [each.headers.get("x-linked-etag", "") for each in (*response.history, response)]
        self._check(next((found[1] for tag in told if (found := _SHA256.fullmatch(tag))), None))

    def _receive(self, response: httpx.Response, stopped: Callable[[], bool]) -> None:
        """Writes down what comes; httpx refuses an answer that is shorter than its length."""
        response.raise_for_status()
        goes_on = response.status_code == 206
        self._have_bytes = self._have_bytes if goes_on else 0
        length = response.headers.get("content-length", "")
        self._total_bytes = self._have_bytes + int(length) if length.isdigit() else None
        if tag := response.headers.get("etag"):
            self._tag.write_text(tag)
        with self._part.open("ab" if goes_on else "wb") as file:
            for block in response.iter_bytes(BLOCK_BYTES):
                if stopped():
                    raise EmbeddingFailed(f"The download of {self.name} was stopped. It goes on next time.")
                file.write(block)
                self._have_bytes += len(block)

    def _check(self, sha256: str | None) -> None:
        if sha256 is None:
            return
        with self._part.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            self._part.unlink()
            raise EmbeddingFailed(
                f"The download of {self.name} has the SHA-256 {found}, the hub says {sha256}. It was thrown "
                "away and starts again next time."
            )


def _address(source: str, hub: str) -> tuple[str, tuple[str, ...]]:
    """The address of a source, and the names of folders and file under which it is kept."""
    if source.startswith("hf:"):
        parts = source.removeprefix("hf:").strip("/").split("/")
        if len(parts) >= 3 and all(_NAME.fullmatch(part) for part in parts) and parts[-1].endswith(".gguf"):
            return f"{hub}/{parts[0]}/{parts[1]}/resolve/main/{'/'.join(parts[2:])}", tuple(parts)
    else:
        url = urlsplit(source)
        name = unquote(url.path.rpartition("/")[2])
        safe = url.scheme == "https" or is_loopback(source)
        if safe and url.hostname and _NAME.fullmatch(name) and name.endswith(".gguf"):
            return source, (url.hostname, name)
    raise ConfigError(
        f"memorySearch.local.modelPath is {source!r}. Write the path of a GGUF file, "
        "hf:owner/repository/file.gguf, or the https address of one."
    )
