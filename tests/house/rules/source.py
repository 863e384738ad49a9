"""A Python file as the rules of the house see it: its text, its tree, what it imports and what it uses."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

_LOOKED_AT = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Import,
    ast.ImportFrom,
    ast.Call,
    ast.Attribute,
)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A Python file: `path` from the repository's root, `module` as it is imported."""

    path: str
    module: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        gc.disable()  # nodes are no garbage: looking for some among them takes longer than parsing
        try:
            return ast.parse(self.text)
        finally:
            gc.freeze()
            gc.enable()

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """What the rules look at, in one walk: definitions, imports, calls and names with a dot."""
        return tuple(_looked_at(self.tree))

    @property
    def root(self) -> str:
        """The root room that the file belongs to, for example `memory`; a module of the root is one."""
        return self.path.split("/", 1)[0].removesuffix(".py")

    @property
    def room(self) -> str:
        """The folder that holds the file, for example `memory/text`; of a module of the root its name."""
        return self.path.rpartition("/")[0] or self.root

    @cached_property
    def imports(self) -> frozenset[tuple[str, str]]:
        """Each imported module with the name taken from it, `""` for the module itself.

        Imports inside functions, imports for type checkers and `import_module("…")` count.
        """
        return frozenset(_imports(self))


def imported_modules(source: Source) -> set[str]:
    """Every module that the file imports anywhere, for type checkers too."""
    return {name for module, member in source.imports for name in (module, f"{module}.{member}")}


def uses(source: Source, names: set[str]) -> list[str]:
    """Places that name one of `names`, for example `os.environ`, or take it from its module."""
    found, last = [], {name.rpartition(".")[2] for name in names}
    for node in source.nodes:
        if isinstance(node, ast.Attribute):
            if node.attr not in last:
                continue
            name = dotted(node)
            if any(name == wanted or name.endswith("." + wanted) for wanted in names):
                found.append(f"{source.path}:{node.lineno} {name}")
        elif isinstance(node, ast.ImportFrom):
            found += [
                f"{source.path}:{node.lineno} {node.module}.{alias.name}"
                for alias in node.names
                if f"{node.module}.{alias.name}" in names
            ]
    return found


def dotted(node: ast.expr) -> str:
    """`a.b.c` of an expression that is such a name; of another one, what can be read of it."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _looked_at(tree: ast.Module) -> Iterator[ast.AST]:
    # `ast.walk` takes three times as long, which is seconds for the whole repository
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _LOOKED_AT):
            yield node
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += [each for each in value if isinstance(each, ast.AST)]


def _imports(source: Source) -> Iterator[tuple[str, str]]:
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, source)
            yield from ((base, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and dotted(node.func).endswith("import_module"):
            yield from ((str(value.value), "") for value in node.args[:1] if isinstance(value, ast.Constant))


def _absolute(node: ast.ImportFrom, source: Source) -> str:
    if not node.level:
        return node.module or ""
    package = source.module if source.path.endswith("__init__.py") else source.module.rpartition(".")[0]
    for _ in range(node.level - 1):
        package = package.rpartition(".")[0]
    return f"{package}.{node.module}" if node.module else package
