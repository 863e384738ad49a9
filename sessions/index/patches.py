"""One edit of the index as a line of `sessions.json.changes`. A contract: bytes on disk. Pure.

    {"type": "edit", "changes": [{"key": "agent:main:main",
        "was": {"sessionId": "s-1", "updatedAt": 5}, "now": {"sessionId": "s-1", "updatedAt": 9}}]}

`was` and `now` hold what differs in the key's line, before and after, and its session in any case. A field
of `was` alone is gone, one of `now` alone is new. `was` is null when there was no line, `now` when there is
none any more; what stood there instead of an object is in `odd`.

A change is made only to a line that still names the session it named, and to a field only if it still is
what it was. So whatever another program changed in `sessions.json` stays as that program left it. And a
file in which some of the changes are contained already, or all, becomes the same by all of them as one in
which none is: a value that is not the one in `was` stays until the change that began from it, and is in
step from there on. Who dies between writing `sessions.json` and beginning a new file of changes leaves
nothing to mend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nacre.records.record import Record
from nacre.sessions.disk.lines import to_line
from nacre.sessions.index.record import MIRRORED

CHANGES_VERSION = 1

_SESSION = "sessionId"
_NOTHING = object()


class Patch(Record):
    """What one edit changes in one key's line; `odd` is what stood there when it was no object."""

    key: str
    was: Mapping[str, Any] | None
    now: Mapping[str, Any] | None
    odd: object = _NOTHING

    @property
    def is_told_elsewhere(self) -> bool:
        """Whether all of it could be read from the session's transcript again."""
        if self.was is None or self.now is None:
            return False
        was, now = self.was, self.now
        return MIRRORED.issuperset({*_differing(was, now), *_differing(now, was)})


def patch_of(key: str, lines: Mapping[str, Any], after: Mapping[str, Any] | None) -> Patch:
    """The change of a key's line among `lines` to `after`; `None` takes the line away."""
    before = lines.get(key)
    if not isinstance(before, dict):
        return Patch(key=key, was=None, now=after, odd=before if key in lines else _NOTHING)
    if after is None:
        return Patch(key=key, was=_session(before), now=None)
    return Patch(
        key=key,
        was=_session(before) | _differing(before, after),
        now=_session(after) | _differing(after, before),
    )


def apply_patch(lines: dict[str, Any], patch: Patch) -> None:
    """Makes a change where it still fits, as told above. A line that changes is another object then."""
    key, line = patch.key, lines.get(patch.key, _NOTHING)
    if patch.was is None or not isinstance(line, dict):
        if patch.was is None and not isinstance(line, dict) and line == patch.odd:
            _put(lines, key, patch.now)
    elif _session(line) == _session(patch.was):
        _put(lines, key, None if patch.now is None else _merged(line, patch.was, patch.now))


def edit_line(patches: Iterable[Patch]) -> bytes:
    """The line of an edit, line feed included."""
    return to_line({"type": "edit", "changes": [_to_json(patch) for patch in patches]})


def header_line(*, has_base: bool) -> bytes:
    """The first line of a file of changes; `has_base` if they go on from a `sessions.json`."""
    return to_line({"type": "header", "version": CHANGES_VERSION, "base": has_base})


def patches_of(raw: Mapping[str, Any]) -> list[Patch] | None:
    """The changes of an edit's line; `None` when it is none."""
    changes = raw.get("changes")
    if raw.get("type") != "edit" or not isinstance(changes, list):
        return None
    read = [_from_json(change) for change in changes]
    known = [patch for patch in read if patch is not None]
    return known if len(known) == len(read) else None


def _put(lines: dict[str, Any], key: str, line: Mapping[str, Any] | None) -> None:
    if line is None:
        lines.pop(key, None)
    else:
        lines[key] = dict(line)


def _merged(line: Mapping[str, Any], was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    fitting = {
        name
        for name in {*was, *now}
        if (name in was and name in line and line[name] == was[name])
        or (name not in was and name not in line)
    }
    merged = {name: value for name, value in line.items() if name not in fitting or name in now}
    return merged | {name: value for name, value in now.items() if name in fitting}


def _differing(line: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a line that the other one lacks or has another value of."""
    return {name: value for name, value in line.items() if name not in other or other[name] != value}


def _session(line: Mapping[str, Any]) -> dict[str, Any]:
    return {_SESSION: line[_SESSION]} if _SESSION in line else {}


def _to_json(patch: Patch) -> dict[str, Any]:
    raw = {"key": patch.key, "was": patch.was, "now": patch.now}
    return raw if patch.odd is _NOTHING else {**raw, "odd": patch.odd}


def _from_json(raw: object) -> Patch | None:
    if not isinstance(raw, dict) or not isinstance(raw.get("key"), str):
        return None
    was, now = raw.get("was"), raw.get("now")
    if not isinstance(was, dict | None) or not isinstance(now, dict | None):
        return None
    return Patch(key=raw["key"], was=was, now=now, odd=raw.get("odd", _NOTHING))
