"""How far indexing is: one line that is replaced on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO, TypeAlias

from nacre.cli.screen.screen import screen_on
from nacre.memory.contracts.records import SyncProgress

Tell: TypeAlias = Callable[[SyncProgress], None]

_STAGES = {"scan": "Looking for files", "index": "Indexing", "embed": "Embedding", "publish": "Publishing"}
_LINES_PER_STAGE = 10
_BAR_CELLS = 20


@contextmanager
def shown_progress(stream: TextIO, environment: Mapping[str, str]) -> Iterator[Tell]:
    """Gives the function to call with each step of a sync; a line that is replaced is gone at the end."""
    screen = screen_on(stream, environment)
    if not screen.is_live:
        yield line_teller(stream)
        return
    try:
        yield lambda progress: screen.status(f"{_bar(progress)}{_told(progress)}")
    finally:
        screen.clear_status()


def line_teller(stream: TextIO) -> Tell:
    """Writes at most ten lines a stage: `Indexing 300/1000 · 0:02 · 0:05 left`."""
    shown: set[tuple[str, int]] = set()

    def tell(progress: SyncProgress) -> None:
        part = progress.completed * _LINES_PER_STAGE // max(1, progress.total)
        if progress.completed == 0 or (progress.stage, part) in shown:
            return
        shown.add((progress.stage, part))
        stream.write(f"{_told(progress)}\n")
        stream.flush()

    return tell


def _told(progress: SyncProgress) -> str:
    left = "" if progress.eta_seconds is None else f" · {_clock(progress.eta_seconds)} left"
    return (
        f"{_STAGES[progress.stage]} {progress.completed}/{progress.total} "
        f"· {_clock(progress.elapsed_seconds)}{left}"
    )


def _bar(progress: SyncProgress) -> str:
    done = min(_BAR_CELLS, progress.completed * _BAR_CELLS // max(1, progress.total))
    return f"{'█' * done}{'░' * (_BAR_CELLS - done)} "


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
