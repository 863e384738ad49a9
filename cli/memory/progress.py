"""How far indexing is: a bar on a terminal, a line now and then elsewhere. The only importer of rich."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO, TypeAlias

if TYPE_CHECKING:
    from nacre.memory.contracts.records import SyncProgress

Tell: TypeAlias = Callable[["SyncProgress"], None]

_STAGES = {"scan": "Looking for files", "index": "Indexing", "embed": "Embedding", "publish": "Publishing"}
_LINES_PER_STAGE = 10


@contextmanager
def shown_progress(stream: TextIO) -> Iterator[Tell]:
    """Gives the function to call with each step of a sync; what it shows is gone, or whole, at the end."""
    if stream.isatty():
        with _bar(stream) as tell:
            yield tell
    else:
        yield line_teller(stream)


def line_teller(stream: TextIO) -> Tell:
    """Writes at most ten lines a stage: `Indexing 300/1000 · 0:02 · 0:05 left`."""
    told: set[tuple[str, int]] = set()

    def tell(progress: SyncProgress) -> None:
        part = progress.completed * _LINES_PER_STAGE // max(1, progress.total)
        if progress.completed == 0 or (progress.stage, part) in told:
            return
        told.add((progress.stage, part))
        left = "" if progress.eta_seconds is None else f" · {_clock(progress.eta_seconds)} left"
        stream.write(
            f"{_STAGES[progress.stage]} {progress.completed}/{progress.total} "
            f"· {_clock(progress.elapsed_seconds)}{left}\n"
        )
        stream.flush()

    return tell


@contextmanager
def _bar(stream: TextIO) -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task(_STAGES["scan"], total=None, left="")

        def tell(progress: SyncProgress) -> None:
            left = "" if progress.eta_seconds is None else f"{_clock(progress.eta_seconds)} left"
            bar.update(
                task,
                description=_STAGES[progress.stage],
                completed=progress.completed,
                total=progress.total or None,
                left=left,
            )

        yield tell


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
