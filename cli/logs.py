"""The log file: `<state>/logs/nacre.log`, one JSON object a line, bounded, without secrets.

Nothing is logged to the terminal. What people and models say is never logged here or anywhere.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Mapping
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

LOG_FILE = Path("logs", "nacre.log")
MAX_LOG_BYTES = 1_000_000
KEPT_LOGS = 3

_SECRET_NAME = re.compile(r"(?:_|^)(?:API_KEY|KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_SECRET_SHAPE = re.compile(
    r"\b(?:(?:sk|pk|rk|xai|gsk|hf|gh[a-z])[-_]|AIza)[A-Za-z0-9_-]{16,}"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
    r"|(?i:(?<=api_key=)|(?<=apikey=)|(?<=token=)|(?<=key=))[^&\s'\"]{8,}"
)
_HIDDEN = "[hidden]"
_SHORTEST_SECRET = 8


class RedactingFormatter(logging.Formatter):
    """Formats a record as a JSON object; known secrets and what looks like a key are hidden."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        super().__init__()
        self._secrets = secrets

    def hide(self, secrets: tuple[str, ...]) -> None:
        """Hides these from now on, too, such as those of a key file."""
        known = {*self._secrets, *(secret for secret in secrets if len(secret) >= _SHORTEST_SECRET)}
        self._secrets = tuple(sorted(known, key=len, reverse=True))

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry = {
            "at": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": self._redacted(record.getMessage()),
        }
        if record.exc_info:
            entry["trace"] = self._redacted(self.formatException(record.exc_info))
        return json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")

    def _redacted(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return _SECRET_SHAPE.sub(_HIDDEN, text)


class PrivateLogHandler(RotatingFileHandler):
    """A log file that only its owner can read, also after a rotation."""

    def _open(self) -> TextIOWrapper:
        return TextIOWrapper(
            open(self.baseFilename, f"{self.mode}b", opener=_open_private), encoding=self.encoding
        )


def log_to_file(state_dir: Path, *, secrets: tuple[str, ...]) -> Path:
    """Sends this process's log records to the file and nowhere else, and returns its path.

    If the file cannot be written, there is no log.
    """
    path = state_dir / LOG_FILE
    handler: logging.Handler
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.mkdir(exist_ok=True, mode=0o700)
        if path.exists() and not path.is_file():
            raise OSError(f"{path} is not a plain file; opening a pipe could block forever")
        os.close(_open_private(str(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND))
        handler = PrivateLogHandler(
            path, maxBytes=MAX_LOG_BYTES, backupCount=KEPT_LOGS, encoding="utf-8", delay=True
        )
    except OSError:
        handler = logging.NullHandler()
    handler.setFormatter(RedactingFormatter(secrets))
    logging.raiseExceptions = False  # a full disk must not write traces over a conversation
    logging.captureWarnings(True)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("nacre").setLevel(logging.INFO)
    return path


def hide_in_log(secrets: tuple[str, ...]) -> None:
    """Keeps more values out of the log file."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, RedactingFormatter):
            handler.formatter.hide(secrets)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def secret_values(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Values of environment variables whose names say that they are secret, the longest first."""
    values = {
        value
        for name, value in environment.items()
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_SECRET
    }
    return tuple(sorted(values, key=len, reverse=True))
