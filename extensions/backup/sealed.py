"""Archives that only the holder of a key can read: age, by the library pyrage. Edge.

The library encrypts from one open file to another, so that no plain archive is ever on disk; a pipe and a
thread make of that a file to write into, and one to read from.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from nacre.extensions.backup.manifest import ArchiveUnusable

AGE_HEAD = b"age-encryption.org/"
_MISSING = "Encrypted backups need the library pyrage. Install it with: pip install 'nacre[age]'"


class KeyUnusable(Exception):
    """A recipient or an identity that is none."""


@contextmanager
def sealed(file: BinaryIO, recipients: Sequence[str]) -> Iterator[BinaryIO]:
    """What is written into the file that this gives, stands in `file` for these recipients alone.

    They are age's (`age1…`) or public keys of SSH.

    Raises:
        KeyUnusable: a recipient is none, or the library is missing.
    """
    pyrage = _library()
    keys = [_recipient(pyrage, text) for text in recipients]
    reading, writing = os.pipe()
    with _beside(lambda: pyrage.encrypt_io(_open(reading), file, keys)), _open(writing, "wb") as plain:
        yield plain


@contextmanager
def unsealed(file: BinaryIO, identity: Path) -> Iterator[BinaryIO]:
    """What stands in `file`, for who holds the key in the file `identity`.

    Raises:
        KeyUnusable: there is no key in that file, or the library is missing.
        ArchiveUnusable: it is encrypted for others, or is damaged.
    """
    pyrage = _library()
    keys = _identities(pyrage, identity)
    reading, writing = os.pipe()

    is_left = threading.Event()

    def decrypt() -> None:
        with _open(writing, "wb") as out:
            try:
                pyrage.decrypt_io(file, out, keys)
            except (pyrage.DecryptError, OSError) as error:
                if not is_left.is_set():  # else nobody reads any more, and says why
                    raise ArchiveUnusable(f"It cannot be decrypted with {identity}: {error}.") from error

    with _beside(decrypt), _open(reading) as plain:
        try:
            yield plain
        finally:
            is_left.set()


def _open(descriptor: int, mode: str = "rb") -> Any:
    return os.fdopen(descriptor, mode)


@contextmanager
def _beside(work: Callable[[], None]) -> Iterator[None]:
    """`work` on a thread, until it ends; what it raised is raised here, before what came of it."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below, where somebody waits
            failed.append(error)

    thread = threading.Thread(target=run, name="age", daemon=True)
    thread.start()
    try:
        yield
    except BaseException as error:
        thread.join()
        if failed:
            raise failed[0] from error
        raise
    thread.join()
    if failed:
        raise failed[0]


def _library() -> Any:
    try:
        import pyrage
    except ImportError as error:
        raise KeyUnusable(_MISSING) from error
    return pyrage


def _recipient(pyrage: Any, text: str) -> Any:
    kind = pyrage.ssh.Recipient if text.startswith("ssh-") else pyrage.x25519.Recipient
    try:
        return kind.from_str(text.strip())
    except pyrage.RecipientError as error:
        raise KeyUnusable(
            f"{text!r} is no recipient ({error}). Write a public key, such as age1… or ssh-ed25519 AAAA…"
        ) from error


def _identities(pyrage: Any, file: Path) -> list[Any]:
    data = file.read_bytes()
    try:
        if data.startswith(b"-----BEGIN"):
            return [pyrage.ssh.Identity.from_buffer(data)]
        lines = [line.strip() for line in data.decode().splitlines()]
        found = [pyrage.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
    except (pyrage.IdentityError, UnicodeDecodeError) as error:
        raise KeyUnusable(f"{file} holds no key that can be used ({error}).") from error
    if not found:
        raise KeyUnusable(f"{file} holds no key.")
    return found
