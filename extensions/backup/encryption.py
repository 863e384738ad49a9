"""Encrypts and decrypts archives with age, through the library pyrage.

The library copies from one open file to another, so no plaintext archive is ever on disk. A pipe and a thread
turn that copy into a file to write to, and a file to read from.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from nacre.extensions.backup.manifest import ArchiveUnusable
from nacre.installation import install_command

AGE_HEAD = b"age-encryption.org/"


class KeyUnusable(Exception):
    """A recipient or an identity is not valid, or pyrage is missing."""


@contextmanager
def encrypted(file: BinaryIO, recipients: Sequence[str]) -> Iterator[BinaryIO]:
    """Yields a file; what is written to it is encrypted into `file` for the recipients only.

    Recipients are age keys (`age1…`) or SSH public keys.

    Raises:
        KeyUnusable: a recipient is not valid, or the library is missing.
    """
    pyrage = _library()
    keys = [_recipient(pyrage, text) for text in recipients]
    read_end, write_end = os.pipe()
    with _on_thread(lambda: pyrage.encrypt_io(_open(read_end), file, keys)), _open(write_end, "wb") as plain:
        yield plain


@contextmanager
def decrypted(file: BinaryIO, identity: Path) -> Iterator[BinaryIO]:
    """Yields the decrypted contents of `file`, given the key in the file `identity`.

    Raises:
        KeyUnusable: that file contains no key, or the library is missing.
        ArchiveUnusable: `file` is encrypted for others, or is damaged.
    """
    pyrage = _library()
    keys = _identities(pyrage, identity)
    read_end, write_end = os.pipe()

    is_abandoned = threading.Event()

    def decrypt() -> None:
        with _open(write_end, "wb") as out:
            try:
                pyrage.decrypt_io(file, out, keys)
            except (pyrage.DecryptError, OSError) as error:
                if not is_abandoned.is_set():  # otherwise the reader gave up and reports why
                    fits = "No matching keys" not in str(error)
                    what = "It is damaged or cut off" if fits else f"It cannot be decrypted with {identity}"
                    raise ArchiveUnusable(f"{what}: {error}.") from error

    with _on_thread(decrypt), _open(read_end) as plain:
        try:
            yield plain
        finally:
            is_abandoned.set()


def _open(descriptor: int, mode: str = "rb") -> Any:
    return os.fdopen(descriptor, mode)


@contextmanager
def _on_thread(work: Callable[[], None]) -> Iterator[None]:
    """Runs `work` on a thread during the block. Its exception takes precedence over one of the block."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below, in the waiting thread
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
        raise KeyUnusable(
            f"Encrypted backups need the library pyrage. Install it with: {install_command('age')}"
        ) from error
    return pyrage


def _recipient(pyrage: Any, text: str) -> Any:
    kind = pyrage.ssh.Recipient if text.startswith("ssh-") else pyrage.x25519.Recipient
    try:
        return kind.from_str(text.strip())
    except pyrage.RecipientError as error:
        raise KeyUnusable(
            f"{text!r} is not a valid recipient ({error}). "
            "Use a public key, such as age1… or ssh-ed25519 AAAA…"
        ) from error


def _identities(pyrage: Any, file: Path) -> list[Any]:
    data = file.read_bytes()
    try:
        if data.startswith(b"-----BEGIN"):
            return [pyrage.ssh.Identity.from_buffer(data)]
        lines = [line.strip() for line in data.decode().splitlines()]
        found = [pyrage.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
    except (pyrage.IdentityError, UnicodeDecodeError) as error:
        raise KeyUnusable(f"{file} contains no usable key ({error}).") from error
    if not found:
        raise KeyUnusable(f"{file} contains no key.")
    return found
