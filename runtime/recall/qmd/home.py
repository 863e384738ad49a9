"""An agent's qmd folder: qmd's configuration, index and exports, and what Nacre notes about it. Edge."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nacre.records.record import Record

_STATE_FILE = "nacre.json"


class QmdState(Record):
    """What is noted between two runs: collections as they were made (path and pattern by name), times in
    seconds since the epoch, and why the built-in engine answers; empty when qmd does."""

    collections: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    updated_at_seconds: float = 0.0
    embedded_at_seconds: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class QmdHome:
    """`agents/<id>/qmd` in the state folder, as the first descriptions have it."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "xdg-config"

    @property
    def cache(self) -> Path:
        return self.folder / "xdg-cache"

    @property
    def sessions(self) -> Path:
        """Where past conversations are exported to, unless the settings name a place."""
        return self.folder / "sessions"

    def environment(self, passed_on: Mapping[str, str]) -> dict[str, str]:
        """What the program is started with: these folders in the place of the owner's own."""
        return {
            **passed_on,
            "XDG_CONFIG_HOME": str(self.config),
            "XDG_CACHE_HOME": str(self.cache),
            "QMD_CONFIG_DIR": str(self.config / "qmd"),
            "NO_COLOR": "1",
        }

    def recipe(self) -> list[str]:
        """Lines of a shell that let the owner's own `qmd` use this index."""
        return [
            f"export XDG_CONFIG_HOME={shlex.quote(str(self.config))}",
            f"export XDG_CACHE_HOME={shlex.quote(str(self.cache))}",
        ]

    def make(self, shared_cache: Path) -> None:
        """Makes the folders, and lends qmd the models that the owner's own has loaded already.

        Raises:
            OSError: the folders cannot be made.
        """
        for folder in (self.config / "qmd", self.cache / "qmd", self.sessions):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        models, own = shared_cache / "qmd" / "models", self.cache / "qmd" / "models"
        if models.is_dir() and not os.path.lexists(own):
            with suppress(OSError):  # without the link, qmd loads them once more
                own.symlink_to(models.resolve(), target_is_directory=True)

    def set_index_aside(self) -> None:
        """Puts qmd's index away, so that it makes another; nothing is lost that is not in the notes.

        Raises:
            OSError: it cannot be moved.
        """
        aside = self.cache / "qmd" / "damaged"
        aside.mkdir(exist_ok=True, mode=0o700)
        for file in (self.cache / "qmd").glob("index.*"):
            file.replace(aside / file.name)

    def state(self) -> QmdState:
        """What was noted last; nothing where that cannot be read."""
        try:
            found: Any = json.loads((self.folder / _STATE_FILE).read_bytes())
            return QmdState(
                collections={
                    str(name): (str(path), str(pattern))
                    for name, (path, pattern) in found["collections"].items()
                },
                updated_at_seconds=float(found["updated_at_seconds"]),
                embedded_at_seconds=float(found["embedded_at_seconds"]),
                problem=str(found["problem"]),
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return QmdState()

    def note(self, state: QmdState) -> None:
        """Notes it; what the disk refuses is only missing from the next status."""
        file = self.folder / _STATE_FILE
        with suppress(OSError):
            new = file.with_suffix(".new")
            new.write_text(json.dumps(asdict(state), ensure_ascii=False, indent=1), encoding="utf-8")
            new.replace(file)
