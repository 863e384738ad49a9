"""What an install brings: our packages and data, the libraries that are imported, the tested versions."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.rules.files import foreign_libraries
from tests.house.tree import FOLDERS, HOUSE, ROOMS, ROOT

CONSTRAINTS = ROOT / "constraints.txt"
EXTRAS = {
    "acp": "acp",
    "aiohttp": "matrix",
    "anyio": "mcp",
    "discord": "discord",
    "imap_tools": "email",
    "ircstates": "irc",
    "irctokens": "irc",
    "jinja2": "serve",
    "keyring": "keyring",
    "litellm": "litellm",
    "lancedb": "lancedb",
    "llama_cpp": "gguf",
    "matplotlib": "plot",
    "mcp": "mcp",
    "httpx2": "mcp",
    "mcp_types": "mcp",
    "nio": "matrix",
    "opentelemetry": "otel",
    "psycopg": "postgres",
    "psycopg_pool": "postgres",
    "prometheus_client": "serve",
    "pyarrow": "lancedb",
    "pygments": "serve",
    "pypdf": "pdf",
    "pyrage": "age",
    "sentence_transformers": "sentence-transformers",
    "slack_sdk": "slack",
    "slixmpp": "xmpp",
    "sse_starlette": "serve",
    "starlette": "serve",
    "telegram": "telegram",
    "tinycss2": "email",
    "uvicorn": "serve",
}
"""Libraries that come only when asked for, and the extra that brings them."""
BROUGHT_ANYWAY = {
    "aiohttp": "litellm needs it, which the tests bring",
    "anyio": "httpx needs it",
    "jinja2": "litellm needs it",
    "litellm": "its tests are run",
    "pygments": "rich needs it",
}
"""Libraries of extras that a dependency brings along, so that they have an exact version too."""
PACKAGES = {
    "acp": "agent_client_protocol",
    "discord": "discord.py",
    "dotenv": "python_dotenv",
    "llama_cpp": "llama_cpp_python",
    "imap_tools": "imap_tools",
    "markdown_it": "markdown_it_py",
    "anyio": "mcp",
    "httpx2": "mcp",
    "mcp_types": "mcp",
    "nio": "matrix_nio",
    "opentelemetry": "opentelemetry_api",
    "telegram": "python_telegram_bot",
    "yaml": "PyYAML",
}
"""Packages that are called differently from what is imported."""


def _constraints() -> dict[str, str]:
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def _direct(group: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(text) for text in {**project, **project["optional-dependencies"]}[group]]


def _tree() -> set[str]:
    """Every package that Nacre and its test tools need on this system, all the way down."""
    seen: set[str] = set()
    waiting = [*_direct("dependencies"), *_direct("dev")]
    while waiting:
        asked = waiting.pop()
        for extra in {"", *asked.extras}:
            key = f"{canonicalize_name(asked.name)}[{extra}]"
            if key in seen:
                continue
            seen.add(key)
            try:
                texts = requires(asked.name) or []
            except PackageNotFoundError as error:
                raise AssertionError(f"{asked.name} is required but not installed") from error
            waiting += [
                need
                for need in map(Requirement, texts)
                if not need.marker or need.marker.evaluate({"extra": extra})
            ]
    return {key.partition("[")[0] for key in seen}


def test_constraints_name_the_whole_tree() -> None:
    """Nothing that gets installed is left to chance, and nothing is listed that is not installed."""
    assert set(_constraints()) == _tree()


def test_constraints_are_exact_and_without_addresses() -> None:
    """Each line is a name and one version; where packages come from is the owner's business."""
    for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line), line


def test_constraints_lie_within_the_bounds_of_the_project() -> None:
    """The tested version of each direct dependency is one that pyproject.toml allows."""
    versions = _constraints()
    direct = [*_direct("dependencies"), *_direct("dev")]

    assert [
        str(need) for need in direct if versions[canonicalize_name(need.name)] not in need.specifier
    ] == []


def test_packages_list_equals_the_tree() -> None:
    """Every folder with Python in it is installed, and nothing else."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]

    assert sorted(setuptools["packages"]) == [
        "nacre",
        *(f"nacre.{folder.replace('/', '.')}" for folder in FOLDERS),
    ]


def test_data_files_are_installed() -> None:
    """Whatever is neither Python nor a README nor a record of decisions comes along with an install."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    packaged = {
        file
        for package, patterns in setuptools["package-data"].items()
        for pattern in patterns
        for file in ROOT.joinpath(*package.split(".")[1:]).glob(pattern)
    }
    data = {
        file
        for room in ROOMS
        for file in (ROOT / room).rglob("*")
        if file.is_file()
        and file.suffix not in (".py", ".pyc")
        and file.name not in ("README.md", "decisions.md")
        and not _hidden(file)
    }

    assert sorted(data - packaged) == []


def test_dependencies_are_what_is_imported() -> None:
    """pyproject.toml asks for each imported library and for nothing else; some only as an extra."""
    groups = ("dependencies", *sorted(set(EXTRAS.values())))
    asked = {need.name.replace("-", "_") for group in groups for need in _direct(group)}

    imported = {PACKAGES.get(library, library) for source in HOUSE for library in foreign_libraries(source)}
    # of this one only the SQLite extension that it brings is used
    found = {"sqlite_vec" for source in HOUSE if 'find_spec("sqlite_vec")' in source.text}
    # Starlette imports this one when a form is read
    found |= {"python_multipart" for source in HOUSE if ".form(" in source.text}
    # httpcore, below httpx, imports this one for each request
    found |= {"sniffio" for source in HOUSE if "import httpx" in source.text}
    assert asked == imported | found
    exact = {name.replace("-", "_") for name in _constraints()}
    assert exact & set(EXTRAS) == set(BROUGHT_ANYWAY)


@pytest.mark.skipif(Path(sys.prefix) != ROOT / ".venv", reason="`make` did not make this environment")
def test_editors_find_the_checkout_without_settings() -> None:
    """`nacre` lies in a folder of the search path, where what runs no import hooks finds it."""
    found = PathFinder.find_spec("nacre")

    assert found is not None, "run `make test`, which names the folder in the environment"
    assert found.origin is not None
    assert Path(found.origin).samefile(ROOT / "__init__.py")
    assert Path(found.origin).with_name("py.typed").is_file()


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(ROOT).parts)
