"""What `nacre memory tidy` prints: the diff, why, what contradicts itself, and how full the notes are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from nacre.cli.memory.care.meter import level
from nacre.record import Record

if TYPE_CHECKING:
    from nacre.memory.files.tidy.edits import Edit, Place, Tidied
    from nacre.memory.files.tidy.rules import Contradiction

_MOST_LISTED = 20


class Shown(Record):
    """A proposal, and what rules found in the notes. `most_chars` is the limit of the curated note."""

    change: Tidied
    most_chars: int
    repeats: tuple[tuple[Place, ...], ...]
    contradictions: tuple[Contradiction, ...]
    notices: tuple[str, ...]
    has_model: bool


def shown_lines(shown: Shown) -> list[str]:
    """The proposal for people. What rules found is listed where no model looked at it."""
    change = shown.change
    lines = [*change.diff.splitlines(), *(f"· {why}" for why in change.reasons if change.diff)]
    if not shown.has_model:
        lines += _listed(shown)
    if not change.diff:
        return [*lines, f"Nothing to change in {change.path}."]
    before, after = len(change.before or ""), len(change.after)
    return [
        *lines,
        f"{change.path} now   {level(before, shown.most_chars)}",
        f"{change.path} then  {level(after, shown.most_chars)}",
    ]


def shown_json(shown: Shown, *, applied: bool, commit: str) -> dict[str, Any]:
    """The proposal for scripts."""
    change = shown.change
    return {
        "applied": applied,
        "commit": commit or None,
        "changes": [
            {
                "path": change.path,
                "before": change.before,
                "after": change.after,
                "diff": change.diff,
                "reasons": list(change.reasons),
            }
        ]
        if change.diff
        else [],
        "edits": [_edit_json(edit) for edit in change.done],
        "duplicates": [[_place_json(place) for place in group] for group in shown.repeats],
        "contradictions": [
            {"key": each.key, "lines": [_place_json(place) for place in each.places]}
            for each in shown.contradictions
        ],
        "chars": {
            "before": len(change.before or ""),
            "after": len(change.after),
            "max": shown.most_chars,
        },
        "notices": list(shown.notices),
    }


def _listed(shown: Shown) -> Iterator[str]:
    if shown.repeats:
        yield "Said in several places:"
        yield from _first(
            [f"  {group[0].text}  ({', '.join(place.name for place in group)})" for group in shown.repeats]
        )
    if shown.contradictions:
        yield "One key, several values; the newest day first, what has no day last:"
        told = []
        for each in shown.contradictions:
            wide = max(len(place.name) for place in each.places)
            told.append("\n".join(f"  {place.name:<{wide}}  {place.text}" for place in each.places))
        for block in _first(told):
            yield from block.splitlines()


def _first(blocks: Sequence[str]) -> list[str]:
    left = len(blocks) - _MOST_LISTED
    return [*blocks[:_MOST_LISTED], *([f"  and {left} more; --json lists all"] if left > 0 else [])]


def _edit_json(edit: Edit) -> dict[str, Any]:
    return {
        "kind": edit.kind,
        "of": [_place_json(place) for place in edit.of],
        "removed": [_place_json(place) for place in edit.removed],
        "added": list(edit.added),
        "under": edit.under,
        "reason": edit.reason,
    }


def _place_json(place: Place) -> dict[str, Any]:
    return {"path": place.path, "line": place.number, "text": place.text}
