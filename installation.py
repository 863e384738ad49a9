"""How Nacre was installed, and the command that adds an extra to this environment."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

_TOOLS: Mapping[str, str] = {"uv/tools": "uv tool install --force", "pipx/venvs": "pipx install --force"}
"""The folders of programs that give each tool an environment of its own: https://docs.astral.sh/uv,
https://pipx.pypa.io. They reinstall a tool to add an extra."""


def install_command(extra: str, *, package: str = "nacre") -> str:
    """The shell command that installs `package[extra]` in the environment that runs this program."""
    return command_for(
        extra,
        package=package,
        prefix=Path(sys.prefix),
        python=Path(sys.executable),
        has_pip=find_spec("pip") is not None,
        source=_source(package),
    )


def install_extra(extra: str) -> str:
    """Runs `install_command(extra)` with its output on stderr; a sentence if it failed, else empty."""
    import importlib
    import subprocess

    command = install_command(extra)
    try:
        run = subprocess.run(shlex.split(command), stdin=subprocess.DEVNULL, stdout=2, check=False)
        problem = f"exit code {run.returncode}" if run.returncode else ""
    except OSError as error:
        problem = error.strerror or str(error)
    importlib.invalidate_caches()
    return f"Could not install the extra {extra!r} ({problem}). Install it with: {command}" if problem else ""


def command_for(
    extra: str, *, package: str, prefix: Path, python: Path, has_pip: bool, source: Mapping[str, object]
) -> str:
    """`install_command` for a named environment. `source` is the content of `direct_url.json` (PEP 610)."""
    named, options = package, ""
    url = urlsplit(str(source.get("url", "")))
    if url.scheme == "file" and url.path:
        named = unquote(url.path)
        dir_info = source.get("dir_info")
        options = "-e " if isinstance(dir_info, Mapping) and dir_info.get("editable") else ""
    wanted = shlex.quote(f"{named}[{extra}]" if extra else named)
    for folders, command in _TOOLS.items():
        if package == "nacre" and folders in prefix.as_posix():
            return f"{command} {options}{wanted}"
    interpreter = shlex.quote(str(python))
    if has_pip:
        return f"{interpreter} -m pip install {options}{wanted}"
    return f"uv pip install --python {interpreter} {options}{wanted}"


def _source(package: str) -> Mapping[str, object]:
    from importlib.metadata import distributions

    for found in distributions(name=package):  # a checkout may hold metadata of its own
        try:
            source = json.loads(found.read_text("direct_url.json") or "{}")
        except (OSError, ValueError):
            continue
        if isinstance(source, dict) and source:
            return source
    return {}
