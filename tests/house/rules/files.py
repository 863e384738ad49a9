"""Rules for one file: source in, complaints out. `test_architecture.py` applies them.

Each rule looks at one parsed file and knows nothing of the real tree, so that a test can show that it
fails for a bad one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping

from tests.house.rules.source import Source, imported_modules, uses

MAX_FILE_LINES = 700
MAX_FUNCTION_LINES = 60
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "manager", "common", "base", "handler", "misc"}
CLOCKS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "time.time", "time.time_ns"}
ENVIRONMENT = {"os.environ", "os.environb", "os.getenv", "os.putenv"}
ID_MODULES = {"uuid", "secrets", "random"}
OPENERS = {"os.open", "os.fdopen", "io.open", "aiofiles.open", "codecs.open"}
READING_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes"}

_MODE = re.compile(r"[rwaxbt+]{1,3}")
_DEF = (ast.FunctionDef, ast.AsyncFunctionDef)
_SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore)")
_NOQA = re.compile(r"# noqa: [A-Z]+\d+(, ?[A-Z]+\d+)* - \S+")
_TYPE_IGNORE = re.compile(r"# type: ignore\[[a-z, -]+\]")


def over_budget(source: Source) -> list[str]:
    """A file or a function that is longer than its budget."""
    lines = source.text.count("\n")
    found = [f"{source.path} has {lines} lines"] if lines > MAX_FILE_LINES else []
    for node in source.nodes:
        if isinstance(node, _DEF) and (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION_LINES:
            found.append(f"{source.path}: {node.name} has {(node.end_lineno or 0) - node.lineno + 1} lines")
    return found


def clock_reads(source: Source) -> list[str]:
    """Places that ask the machine for the time."""
    return uses(source, CLOCKS)


def environment_reads(source: Source) -> list[str]:
    """Places that look at the environment."""
    return uses(source, ENVIRONMENT)


def id_sources(source: Source) -> list[str]:
    """Imports of modules that make ids or chance."""
    return [f"{source.path} imports {name}" for name in sorted(imported_modules(source) & ID_MODULES)]


def file_openings(source: Source) -> list[str]:
    """Calls that open, read or write a file."""
    found = uses(source, OPENERS)
    for node in source.nodes:
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
    return found + uses(
        source, {"time.sleep", "monkeypatch.setattr", "monkeypatch.setitem", "monkeypatch.delattr"}
    )


def missing_docstrings(source: Source) -> list[str]:
    """A module, or a test, that does not say what it is for."""
    tree = source.tree
    found = [] if not tree.body or ast.get_docstring(tree) else [f"{source.path} has no docstring"]
    for node in source.nodes:
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


def stale(exceptions: Mapping[str, str], complaints: Iterable[str]) -> list[str]:
    """Exceptions that no complaint needs any more."""
    text = "\n".join(complaints)
    return [name for name in exceptions if name not in text]


def _has_mode(call: ast.Call) -> bool:
    values = [*call.args[:2], *(word.value for word in call.keywords if word.arg == "mode")]
    return any(
        isinstance(value, ast.Constant)
        and isinstance(value.value, str)
        and bool(_MODE.fullmatch(value.value))
        for value in values
    )
