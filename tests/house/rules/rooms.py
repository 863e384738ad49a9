"""Rules for rooms: who may import whom, no circles, few entries in a folder, a README that lists them.

A room is a folder with Python in it. Each rule takes what it judges as arguments and knows nothing of
the real tree, so that a test can show that it fails for a bad one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch

from tests.house.rules.source import Source

PUBLIC_LISTS = {"nacre", "nacre.memory", "nacre.sessions"}
"""Packages whose `__init__.pyi` names what users import."""
RoomGraph = Mapping[str, Mapping[str, list[str]]]
"""For each room the rooms that it imports from, with the imports that say so."""
Floors = tuple[tuple[str, ...], ...]
"""Rooms from the top floor to the lowest."""

_DOOR = re.compile(r"(pure|edge|contract|data|room)\b")


@dataclass(frozen=True)
class Never:
    """Rooms that may not import other rooms although these are lower. `*` stands for any text."""

    rooms: tuple[str, ...]
    imports: tuple[str, ...]
    reason: str
    but: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Law:
    """Which room may import which: from lower floors only, and never what `nevers` names."""

    roots: Floors
    floors: Mapping[str, Floors]
    nevers: tuple[Never, ...] = ()

    def floor(self, room: str) -> tuple[int, int] | None:
        """How high the room lies: its root room's floor, then its own; None for an unknown one."""
        root = room.split("/", 1)[0]
        here, inside = _height(self.roots, root), _height(self.floors.get(root, ((root,),)), room)
        return None if here is None or inside is None else (here, inside)

    @property
    def rooms(self) -> list[str]:
        """Every room that has a floor, from top to bottom."""
        roots = [root for floor in self.roots for root in floor]
        return [room for root in roots for floor in self.floors.get(root, ((root,),)) for room in floor]


def room_graph(sources: Iterable[Source]) -> RoomGraph:
    """Who imports whom, over all modules; a folder that holds nothing but rooms is none itself."""
    by_module = {source.module: source for source in sources}
    graph: dict[str, dict[str, list[str]]] = {}
    for source in by_module.values():
        targets = _targets(source, by_module)
        if source.path.endswith("__init__.py") and not targets:
            continue
        edges = graph.setdefault(source.room, {})
        for target in sorted(targets):
            room = by_module[target].room
            if room != source.room:
                edges.setdefault(room, []).append(f"{source.path} imports {target}")
    return graph


def unlawful_imports(graph: RoomGraph, law: Law) -> list[str]:
    """Imports that do not lead down, and those that are named as never allowed."""
    return [
        f"{imported}: {problem}"
        for room, edges in sorted(graph.items())
        for target, imports in sorted(edges.items())
        if (problem := _problem(room, target, law))
        for imported in imports
    ]


def misplaced_rooms(rooms: Iterable[str], law: Law) -> list[str]:
    """Rooms without a floor, floors and refusals without their room, and rooms with two floors."""
    there, placed = set(rooms), law.rooms
    patterns = [pattern for never in law.nevers for pattern in (*never.rooms, *never.imports, *never.but)]
    return [
        *(f"{room} has no floor" for room in sorted(there - set(placed))),
        *(f"{room} has a floor and is not there" for room in sorted(set(placed) - there)),
        *(f"{room} has two floors" for room in sorted(set(placed)) if placed.count(room) > 1),
        *(f"no room is called {name}" for name in patterns if not any(fnmatch(room, name) for room in there)),
    ]


def import_cycles(sources: Iterable[Source]) -> list[str]:
    """Modules that import each other, directly or around a circle."""
    by_module = {source.module: source for source in sources}
    return _circles({module: _targets(source, by_module) - {module} for module, source in by_module.items()})


def room_cycles(graph: RoomGraph) -> list[str]:
    """Rooms that import each other, directly or around a circle."""
    return _circles({room: set(edges) for room, edges in graph.items()})


def crowded_folders(entries: Mapping[str, int], most: int) -> list[str]:
    """Folders with more than `most` entries."""
    return [f"{folder} has {count} entries" for folder, count in sorted(entries.items()) if count > most]


def tests_without_room(folders: Iterable[str], rooms: Iterable[str], others: Iterable[str]) -> list[str]:
    """Folders of tests that are named neither after a room nor as one of `others` (also inside of these)."""
    known = set(rooms) | {parent for room in rooms for parent in _parents(room)}
    return [
        folder
        for folder in folders
        if folder not in known and not any(f"/{other}/" in f"/{folder}/" for other in others)
    ]


def room_list_problems(source: Source) -> list[str]:
    """A package's `__init__` that is more than a docstring, imports, constants, a loader of its stub."""
    return [
        f"{source.path}:{node.lineno} is more than a list of names"
        for node in source.tree.body
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr | ast.Assign)
    ]


def taken_from_lists(source: Source) -> list[str]:
    """Imports from a package's list of public names: these are for users, a room names the module."""
    return [
        f"{source.path} imports {base}.{member}"
        for base, member in sorted(source.imports)
        if base in PUBLIC_LISTS and member not in ("", "__version__")
    ]


def unlisted_files(readme: str, names: Iterable[str]) -> list[str]:
    """Files of a room that its README's table does not list together with a door."""
    listed = {
        match[1]
        for line in readme.splitlines()
        if line.startswith("|") and _DOOR.match(line.strip(" |").split("|")[-1].strip())
        for match in re.finditer(r"`([^`|]+)`", line.split("|")[1])
    }
    return sorted(set(names) - listed) + [f"{name} (not there)" for name in sorted(listed - set(names))]


def _problem(room: str, target: str, law: Law) -> str:
    here, there = law.floor(room), law.floor(target)
    if here is None or there is None:
        return f"{room if here is None else target} has no floor"
    same_root = room.split("/", 1)[0] == target.split("/", 1)[0]
    if not (there[1] < here[1] if same_root else there[0] < here[0]):
        return f"{target} is not below {room}"
    for never in law.nevers:
        if (
            any(fnmatch(room, name) for name in never.rooms)
            and any(fnmatch(target, name) for name in never.imports)
            and not any(fnmatch(target, name) for name in never.but)
        ):
            return never.reason
    return ""


def _targets(source: Source, by_module: Mapping[str, Source]) -> set[str]:
    # `from nacre.memory import paths` needs the module, not the package's list of names.
    found = {f"{base}.{name}" if f"{base}.{name}" in by_module else base for base, name in source.imports}
    return found & by_module.keys()


def _height(floors: Floors, room: str) -> int | None:
    return next((len(floors) - at for at, floor in enumerate(floors) if room in floor), None)


def _parents(room: str) -> list[str]:
    parts = room.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


def _circles(graph: Mapping[str, set[str]]) -> list[str]:
    return sorted({" -> ".join(circle) for start in graph if (circle := _circle(graph, start))})


def _circle(graph: Mapping[str, set[str]], start: str) -> list[str]:
    paths, seen = [[start]], {start}
    while paths:
        path = paths.pop(0)
        for target in sorted(graph.get(path[-1], ())):
            if target == start:
                least = path.index(min(path))
                return [*path[least:], *path[:least], min(path)]
            if target not in seen:
                seen.add(target)
                paths.append([*path, target])
    return []
