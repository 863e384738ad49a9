"""The report of an import: counts that add up to the contents of the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from nacre.extensions.importers.plan import Outcome
from nacre.extensions.importers.sources.pieces import KINDS, Kind

_RANK: Mapping[Outcome, int] = {"imported": 2, "here": 1, "skipped": 0}
_NAMES_SHOWN = 3


@dataclass
class Counts:
    """How many of a kind the source has, and what became of them."""

    found: int = 0
    imported: int = 0
    here: int = 0
    skipped: int = 0

    @property
    def unaccounted(self) -> int:
        """The number without an outcome; nonzero only if a reader has a bug."""
        return self.found - self.imported - self.here - self.skipped


@dataclass
class Report:
    counts: dict[Kind, Counts] = field(default_factory=lambda: {kind: Counts() for kind in KINDS})
    reasons: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    names: dict[tuple[Kind, str], list[str]] = field(default_factory=dict)
    moved: list[tuple[str, str]] = field(default_factory=list)
    """Notes that were stored under another path: the name in the source, and the path here."""
    problems: list[str] = field(default_factory=list)
    _files: dict[str, tuple[Outcome, str]] = field(default_factory=dict)

    def found(self, kind: Kind, count: int = 1) -> None:
        self.counts[kind].found += count

    def add(
        self, kind: Kind, outcome: Outcome, *, file: str, count: int = 1, name: str = "", reason: str = ""
    ) -> None:
        """Counts an outcome, with a reason if it was skipped."""
        if not count:
            return
        counts = self.counts[kind]
        setattr(counts, outcome, getattr(counts, outcome) + count)
        if outcome == "skipped":
            self._add_reason(kind, reason, name, count)
        self._file(file, outcome, reason)

    def file_used(self, name: str, outcome: Outcome, reason: str) -> None:
        """Records the outcome of a file whose contents are part of another piece."""
        self._file(name, outcome, reason)

    def file_skipped(self, name: str, reason: str) -> None:
        self._file(name, "skipped", reason)

    def finish(self, files: tuple[str, ...], left_out: list[tuple[str, str]]) -> None:
        """Counts each file of the source by the best outcome of its contents."""
        for name, reason in left_out:
            self._files[name] = ("skipped", reason)
        self.found("files", len(files) + len(left_out))
        for name in (*files, *(name for name, _ in left_out)):
            if name not in self._files:
                continue
            outcome, reason = self._files[name]
            counts = self.counts["files"]
            setattr(counts, outcome, getattr(counts, outcome) + 1)
            if outcome == "skipped":
                self._add_reason("files", reason, name, 1)

    def _file(self, name: str, outcome: Outcome, reason: str) -> None:
        if name not in self._files or _RANK[outcome] > _RANK[self._files[name][0]]:
            self._files[name] = (outcome, reason)

    def _add_reason(self, kind: Kind, reason: str, name: str, count: int) -> None:
        self.reasons[kind, reason] += count
        self.names.setdefault((kind, reason), []).append(name)


def report_lines(report: Report, *, is_dry: bool) -> list[str]:
    """A table that adds up, then the reasons for skipping."""
    rows: list[tuple[str, ...]] = [
        ("", "found", "to import" if is_dry else "imported", "already here", "skipped")
    ]
    for kind, counts in report.counts.items():
        if counts.found:
            numbers = (counts.found, counts.imported, counts.here, counts.skipped)
            rows.append((kind, *map(str, numbers)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(_cell(row, widths)).rstrip() for row in rows]
    if len(rows) == 1:
        return ["The source is empty."]
    if report.reasons:
        lines += ["", "Skipped:"]
    for kind in KINDS:
        for (each, reason), count in report.reasons.items():
            if each == kind:
                lines.append(
                    f"  {count} {kind if count > 1 else _singular(kind)}: "
                    f"{reason}{_names_text(report, each, reason)}"
                )
    if report.moved:
        lines += ["", "Stored under another path:"]
        lines += [f"  {name} -> {path}" for name, path in report.moved]
    return lines


def report_json(report: Report, *, is_dry: bool) -> dict[str, object]:
    return {
        "dryRun": is_dry,
        "counts": {
            kind: {
                "found": counts.found,
                "imported": counts.imported,
                "alreadyHere": counts.here,
                "skipped": counts.skipped,
            }
            for kind, counts in report.counts.items()
        },
        "skipped": [
            {"kind": kind, "reason": reason, "count": count, "names": report.names[kind, reason]}
            for (kind, reason), count in report.reasons.items()
        ],
        "beside": [{"name": name, "path": path} for name, path in report.moved],
        "problems": report.problems,
    }


def unaccounted(report: Report) -> list[str]:
    """A sentence for each kind with unaccounted items."""
    return [
        f"{counts.unaccounted} of {counts.found} {kind} are neither imported nor skipped. Please report it."
        for kind, counts in report.counts.items()
        if counts.unaccounted
    ]


def _cell(row: tuple[str, ...], widths: list[int]) -> list[str]:
    return [
        row[0].ljust(widths[0]),
        *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)),
    ]


def _singular(kind: Kind) -> str:
    return kind if kind == "settings" else kind.removesuffix("s")


def _names_text(report: Report, kind: Kind, reason: str) -> str:
    names = list(dict.fromkeys(name for name in report.names[kind, reason] if name))
    if not names:
        return ""
    more = len(names) - _NAMES_SHOWN
    return f" ({', '.join(names[:_NAMES_SHOWN])}{f' and {more} more' if more > 0 else ''})"
