"""Keeps tests and benchmarks away from the assistant of whoever runs them.

`isolate` runs before anything else reads the environment: `tests/__init__.py` calls it for pytest, however it
is started, and `benchmarks/__init__.py` for the benchmarks. It keeps the variables that say how programs run,
drops all others (keys, settings, homes, sockets of the session), and points `HOME` at an empty folder.
"""

from __future__ import annotations

import atexit
import os
import pwd
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path

MARKER_VARIABLE = "NACRE_ISOLATED_HOME"
"""Names the temporary home to the processes that a test run starts, such as the workers of pytest-xdist."""
_MARKER_FILE = ".made-by-nacre-tests"

_KEPT = re.compile(
    # the machine: programs, languages, terminals, temporary files
    r"PATH|LD_LIBRARY_PATH|DYLD_\w+|TMPDIR|TEMP|TMP|SHELL|USER|LOGNAME|PWD|LANG|LANGUAGE|LC_\w+|TZ|TERM|COLUMNS|LINES"
    r"|CI|NO_COLOR|FORCE_COLOR|PY_COLORS"
    # Python, its test tools, and what limits the threads of numeric libraries
    r"|PYTHON\w*|PYENV_\w+|VIRTUAL_ENV|PYTEST_\w+|HYPOTHESIS_\w+|COV_\w+|COVERAGE_\w+|PLAYWRIGHT_\w+"
    r"|(?:OPENBLAS|NVPL|OMP|MKL|NUMEXPR|VECLIB|MALLOC|RAYON)_\w+"
    # the network, for tests that install packages
    r"|(?:https?|ftp|all|no)_proxy|(?:HTTPS?|FTP|ALL|NO)_PROXY|SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
    r"|GIT_SSL_CAINFO|NODE_EXTRA_CA_CERTS|(?:PIP|UV|PIPX)_\w+|npm_config_\w+"
    # how long and how hard single tests try, and what a benchmark is pointed at
    r"|NACRE_WORKER_(?:SECONDS|CHATS)|NACRE_SOAK_(?:TURNS|SEED)|NACRE_TAINT_MIXES|NACRE_MIGRATE_ROUNDS|BENCHMARK_\w+"
)
"""Names of the variables that a test run keeps. What is not named here is dropped, whatever it is."""

_INSTALLERS = {
    "PIP_CONFIG_FILE": (".config/pip/pip.conf", ".pip/pip.conf", "Library/Application Support/pip/pip.conf"),
    "UV_CONFIG_FILE": (".config/uv/uv.toml",),
    "UV_PYTHON_INSTALL_DIR": (".local/share/uv/python",),
    "PYENV_ROOT": (".pyenv",),
}
"""What `make fresh` needs of the real home: the index that pip and uv are set up for, and other Pythons."""


class OwnerInReachError(SystemExit):
    """The run was refused, because it could still read or write the owner's assistant."""


def isolate() -> Path:
    """Replaces the environment of this process once, and returns the temporary home. It is removed at exit.
    A process that an isolated one started keeps its environment.

    Raises:
        OwnerInReachError: temporary files, or what Nacre would open now, lie in the owner's assistant.
    """
    marked = os.environ.get(MARKER_VARIABLE, "")
    if marked and Path(marked, _MARKER_FILE).is_file():
        return Path(marked)
    owners = owners_places(os.environ)
    named = [os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP", "PYTEST_DEBUG_TEMPROOT")]
    refuse_within([Path(folder) for folder in named if folder], owners)
    home = Path(tempfile.mkdtemp(prefix="nacre-home-")).resolve()
    atexit.register(_remove, home, os.getpid())
    refuse_within([home], owners)
    (home / _MARKER_FILE).touch()
    replace_environment(os.environ, home)
    _refuse_reach(home)
    # the folders that hold the owner's things are remembered for what pytest is told later
    _remembered.extend(owners)
    return home


_remembered: list[Path] = []


def refuse_base_folder(folder: Path) -> None:
    """Checks the folder that pytest is told to empty (`--basetemp`).

    Raises:
        OwnerInReachError: the owner's assistant lies in it, or it in the assistant.
    """
    refuse_within([folder], _remembered)
    for place in _remembered:
        if place.is_relative_to(folder.resolve()):
            raise OwnerInReachError(f"{folder} would be emptied, and your assistant lies in it: {place}.")


def owners_places(environment: Mapping[str, str]) -> list[Path]:
    """The folders in which the assistant of the person who started the run may lie."""
    homes = [environment.get("HOME", ""), pwd.getpwuid(os.getuid()).pw_dir]
    named = [environment.get(name, "").strip() for name in ("NACRE_STATE_DIR", "NACRE_WORKSPACE")]
    places = [Path(home) / ".nacre" for home in homes if home] + [Path(name) for name in named if name]
    return [place.expanduser().resolve() for place in places]


def refuse_within(folders: Iterable[Path], owners: Iterable[Path]) -> None:
    """Checks that none of the folders lies in the owner's places.

    Raises:
        OwnerInReachError: one does.
    """
    for folder in folders:
        for place in owners:
            if folder.resolve().is_relative_to(place):
                raise OwnerInReachError(
                    f"Tests would write into your assistant: {folder} lies in {place}. "
                    "Set TMPDIR (and PYTEST_DEBUG_TEMPROOT, --basetemp) to a folder outside of it."
                )


def replace_environment(environment: MutableMapping[str, str], home: Path) -> None:
    """Keeps what `_KEPT` names, and adds the temporary home."""
    found = {
        variable: str(path)
        for variable, relative in _INSTALLERS.items()
        for path in (Path(environment.get("HOME") or "/", name) for name in reversed(relative))
        if path.exists()
    }
    kept = {name: value for name, value in environment.items() if _KEPT.fullmatch(name)}
    if any(name.lower().endswith("_proxy") for name in kept):  # the servers of tests are asked directly
        theirs = kept.get("no_proxy") or kept.get("NO_PROXY", "")
        kept["no_proxy"] = kept["NO_PROXY"] = ",".join(filter(None, (theirs, "localhost,127.0.0.1,::1")))
    environment.clear()
    environment.update({**found, **kept, "HOME": str(home), MARKER_VARIABLE: str(home)})


def _refuse_reach(home: Path) -> None:
    """Asks Nacre itself where it would read and write now."""
    from nacre.runtime.settings.config import home_folder, process_environment, settings_file

    environment = process_environment()
    for place in (settings_file(environment), home_folder(environment), Path.home()):
        if not place.resolve().is_relative_to(home):
            raise OwnerInReachError(
                f"Nacre would use {place}, which is outside of the temporary home {home}."
            )


def _remove(home: Path, maker: int) -> None:
    if os.getpid() == maker:
        shutil.rmtree(home, ignore_errors=True)
