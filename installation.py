"""How Nacre was installed, and the command that adds an extra to this environment."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


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
    """Runs `install_command(extra)` in `/`, where no file decides; a sentence if it failed, else empty."""
    import importlib
    import subprocess

    command = install_command(extra)
    try:
        run = subprocess.run(shlex.split(command), cwd="/", stdin=subprocess.DEVNULL, stdout=2, check=False)
        problem = f"exit code {run.returncode}" if run.returncode else ""
    except OSError as error:
        problem = error.strerror or str(error)
    importlib.invalidate_caches()
    return f"Could not install the extra {extra!r} ({problem}). Install it with: {command}" if problem else ""


def command_for(
    extra: str, *, package: str, prefix: Path, python: Path, has_pip: bool, source: Mapping[str, Any]
) -> str:
    """`install_command` for a named environment. `source` is the content of `direct_url.json` (PEP 610).

    A tool of uv (https://docs.astral.sh/uv) or pipx (https://pipx.pypa.io) becomes what the command says,
    so that its other extras, packages and Python are named too. Both change it in place.
    """
    receipt = _receipt(prefix) if package == "nacre" else None
    if receipt is not None:
        command, kept, options = receipt
        wanted = _requirement(package, ",".join(dict.fromkeys([*kept, *filter(None, [extra])])), source)
        return shlex.join([*command, *wanted, *options])
    wanted = _requirement(package, extra, source)
    if has_pip:
        return shlex.join([str(python), "-m", "pip", "install", *wanted])
    return shlex.join(["uv", "pip", "install", "--python", str(python), *wanted])


def _requirement(package: str, extras: str, source: Mapping[str, Any]) -> list[str]:
    brackets = f"[{extras}]" if extras else ""
    text = str(source.get("url", ""))
    url = urlsplit(text)
    if vcs := source.get("vcs_info"):
        revision = f"@{vcs['requested_revision']}" if vcs.get("requested_revision") else ""
        return [f"{package}{brackets} @ {vcs['vcs']}+{text}{revision}"]
    if url.scheme == "file" and url.path:
        is_editable = source.get("dir_info", {}).get("editable")
        return [*(["-e"] if is_editable else []), unquote(url.path) + brackets]
    return [f"{package}{brackets} @ {text}" if text else package + brackets]


def _receipt(prefix: Path) -> tuple[list[str], list[str], list[str]] | None:
    """The command that installs the tool in this folder again, its extras, and what follows them."""
    try:
        tool = tomllib.loads((prefix / "uv-receipt.toml").read_text("utf-8"))["tool"]
        named = {each["name"]: each for each in tool["requirements"]}
        options = [word for name in named if name != "nacre" for word in _with(named[name])]
        options += ["--python", tool["python"]] if tool.get("python") else []
        return ["uv", "tool", "install"], named["nacre"].get("extras", []), options
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        pass
    try:
        main = json.loads((prefix / "pipx_metadata.json").read_text("utf-8"))["main_package"]
        extras = re.search(r"\[([^\]]+)\]", main["package_or_url"])
        return ["pipx", "install", "--force"], extras[1].split(",") if extras else [], []
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _with(requirement: Mapping[str, Any]) -> Iterator[str]:
    """A package that the owner of a tool of uv had installed beside it."""
    folder = requirement.get("editable")
    yield "--with-editable" if folder else "--with"
    extras = f"[{','.join(requirement['extras'])}]" if requirement.get("extras") else ""
    place = folder or requirement.get("directory") or requirement.get("path")
    if place:
        yield place + extras
    else:
        yield requirement["name"] + extras + requirement.get("specifier", "")


def _source(package: str) -> Mapping[str, object]:
    from importlib.metadata import distributions

    for found in distributions(name=package):  # a checkout may have its own metadata
        try:
            source = json.loads(found.read_text("direct_url.json") or "{}")
        except (OSError, ValueError):
            continue
        if isinstance(source, dict) and source:
            url = urlsplit(str(source.get("url", "")))
            # a container image is built from source that is not there when it runs
            is_gone = url.scheme == "file" and not Path(unquote(url.path)).exists()
            return {} if is_gone else source
    return {}
