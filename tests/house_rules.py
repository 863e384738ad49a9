"""The rules of the house as functions: source in, complaints out. `test_architecture.py` applies them.

Each rule looks at one parsed file (or at the graph of all) and knows nothing of the real tree, so
that a test can show that it fails for a bad one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60
ROOMS_SEEN_BY = {
    "cli": {"cli", "runtime", "sessions", "memory", "prompts"},
    "runtime": {"runtime", "sessions", "memory", "prompts"},
    "sessions": {"sessions"},
    "memory": {"memory"},
    "prompts": {"prompts"},
    "workspace_template": set[str](),
}
PUBLIC_LISTS = {"nacre", "nacre.memory", "nacre.sessions"}
"""Packages whose `__init__.pyi` names what users import."""
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "manager", "common", "base", "handler", "misc"}
CLOCKS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "time.time", "time.time_ns"}
ENVIRONMENT = {"os.environ", "os.environb", "os.getenv", "os.putenv"}
ID_MODULES = {"uuid", "secrets", "random"}
OPENERS = {"os.open", "os.fdopen", "io.open", "aiofiles.open", "codecs.open"}
READING_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes"}

_MODE = re.compile(r"[rwaxbt+]{1,3}")
_DOOR = re.compile(r"(pure|edge|contract|data|room)\b")
_DEF = (ast.FunctionDef, ast.AsyncFunctionDef)
_SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore)")
_NOQA = re.compile(r"# noqa: [A-Z]+\d+(, ?[A-Z]+\d+)* - \S+")
_TYPE_IGNORE = re.compile(r"# type: ignore\[[a-z, -]+\]")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A Python file: `path` from the repository's root, `module` as it is imported."""

    path: str
    module: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def room(self) -> str:
        return self.path.split("/", 1)[0]


def imported_modules(source: Source) -> set[str]:
    """Every module that the file imports anywhere, for type checkers too."""
    return {name for module, member in _imports(source) for name in (module, f"{module}.{member}")}


def wrong_direction(source: Source) -> list[str]:
    """Imports of a room that this room does not know."""
    allowed = ROOMS_SEEN_BY[source.room]
    return [
        f"{source.path} imports {name}"
        for name in sorted(imported_modules(source))
        if re.match(r"nacre\.[a-z]", name) and name.split(".")[1] not in allowed
    ]


def import_cycles(sources: Iterable[Source]) -> list[str]:
    """Modules that import each other, directly or around a circle."""
    by_module = {source.module: source for source in sources}
    graph: dict[str, set[str]] = {}
    for module, source in by_module.items():
        # `from nacre.memory import paths` needs the module, not the package's list of names.
        targets = {
            f"{base}.{member}" if f"{base}.{member}" in by_module else base
            for base, member in _imports(source)
        }
        graph[module] = (targets & by_module.keys()) - {module}
    return sorted({" -> ".join(circle) for module in graph if (circle := _circle(graph, module))})


def over_budget(source: Source) -> list[str]:
    """A file or a function that is longer than its budget."""
    lines = source.text.count("\n")
    found = [f"{source.path} has {lines} lines"] if lines > MAX_FILE_LINES else []
    for node in ast.walk(source.tree):
        if isinstance(node, _DEF) and (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION_LINES:
            found.append(f"{source.path}: {node.name} has {(node.end_lineno or 0) - node.lineno + 1} lines")
    return found


def clock_reads(source: Source) -> list[str]:
    """Places that ask the machine for the time."""
    return _uses(source, CLOCKS)


def environment_reads(source: Source) -> list[str]:
    """Places that look at the environment."""
    return _uses(source, ENVIRONMENT)


def id_sources(source: Source) -> list[str]:
    """Imports of modules that make ids or chance."""
    return [f"{source.path} imports {name}" for name in sorted(imported_modules(source) & ID_MODULES)]


def file_openings(source: Source) -> list[str]:
    """Calls that open, read or write a file."""
    found = _uses(source, OPENERS)
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "open":
            found.append(f"{source.path}:{node.lineno} open()")
        elif isinstance(node.func, ast.Attribute) and (
            node.func.attr in READING_METHODS or (node.func.attr == "open" and _has_mode(node))
        ):
            found.append(f"{source.path}:{node.lineno} .{node.func.attr}()")
    return found


def foreign_libraries(source: Source) -> set[str]:
    """Top-level names of imported packages that are neither Python's nor ours."""
    tops = {name.partition(".")[0] for name in imported_modules(source)}
    return {top for top in tops if top not in sys.stdlib_module_names and top not in ("nacre", "tests")}


def forbidden_in_tests(source: Source) -> list[str]:
    """Mocks, patches and sleeps."""
    names = imported_modules(source)
    found = [
        f"{source.path} imports {name}" for name in sorted(names) if re.search(r"\bmock\b|pytest_mock", name)
    ]
    return found + _uses(
        source, {"time.sleep", "monkeypatch.setattr", "monkeypatch.setitem", "monkeypatch.delattr"}
    )


def missing_docstrings(source: Source) -> list[str]:
    """A module, or a test, that does not say what it is for."""
    tree = source.tree
    found = [] if not tree.body or ast.get_docstring(tree) else [f"{source.path} has no docstring"]
    for node in ast.walk(tree):
        if isinstance(node, _DEF) and node.name.startswith("test_") and not ast.get_docstring(node):
            found.append(f"{source.path}: {node.name} has no docstring")
    return found


def bare_suppressions(source: Source) -> list[str]:
    """Suppressions of a checker without a code, and of the linter without a reason."""
    return [
        f"{source.path}:{number} {line.strip()[-60:]}"
        for number, line in enumerate(source.text.splitlines(), start=1)
        if _SUPPRESSION.search(line) and not (_NOQA.search(line) or _TYPE_IGNORE.search(line))
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
        for base, member in _imports(source)
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


def stale(exceptions: Mapping[str, str], complaints: Iterable[str]) -> list[str]:
    """Exceptions that no complaint needs any more."""
    text = "\n".join(complaints)
    return [name for name in exceptions if name not in text]


def _imports(source: Source) -> Iterator[tuple[str, str]]:
    """Each imported module with the name taken from it, `""` for the module itself."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, source)
            yield from ((base, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and _dotted(node.func).endswith("import_module"):
            yield from ((str(value.value), "") for value in node.args[:1] if isinstance(value, ast.Constant))


def _absolute(node: ast.ImportFrom, source: Source) -> str:
    if not node.level:
        return node.module or ""
    package = source.module if source.path.endswith("__init__.py") else source.module.rpartition(".")[0]
    for _ in range(node.level - 1):
        package = package.rpartition(".")[0]
    return f"{package}.{node.module}" if node.module else package


def _circle(graph: Mapping[str, set[str]], start: str) -> list[str]:
    paths, seen = [[start]], {start}
    while paths:
        path = paths.pop(0)
        for target in sorted(graph[path[-1]]):
            if target == start:
                least = path.index(min(path))
                return [*path[least:], *path[:least], min(path)]
            if target not in seen:
                seen.add(target)
                paths.append([*path, target])
    return []


def _uses(source: Source, names: set[str]) -> list[str]:
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute):
            dotted = _dotted(node)
            if any(dotted == name or dotted.endswith("." + name) for name in names):
                found.append(f"{source.path}:{node.lineno} {dotted}")
        elif isinstance(node, ast.ImportFrom):
            found += [
                f"{source.path}:{node.lineno} {node.module}.{alias.name}"
                for alias in node.names
                if f"{node.module}.{alias.name}" in names
            ]
    return found


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _has_mode(call: ast.Call) -> bool:
    values = [*call.args[:2], *(word.value for word in call.keywords if word.arg == "mode")]
    return any(
        isinstance(value, ast.Constant)
        and isinstance(value.value, str)
        and bool(_MODE.fullmatch(value.value))
        for value in values
    )
