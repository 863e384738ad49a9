"""Installs small extensions into a folder, in the form that an installer leaves, and runs Nacre with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.program import environment, run_nacre
from tests.servers.warm_python import run_warm

RUN_SECONDS = 60


def install(site: Path, name: str, code: str, *, manifest: Any = None, entry: str = "extension") -> None:
    """A package with this code and, unless it is `None`, this manifest; `id` stands in it by itself."""
    package, info = site / f"nacre_{name}", site / f"nacre_{name}-0.3.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text(code, encoding="utf-8")
    if manifest is not None:
        text = manifest if isinstance(manifest, str) else json.dumps({"id": name, **manifest})
        (package / "nacre.extension.json").write_text(text, encoding="utf-8")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: nacre-{name}\nVersion: 0.3\n")
    (info / "entry_points.txt").write_text(f"[nacre.extensions]\n{name} = nacre_{name}:{entry}\n")


def listed(home: Path, site: Path) -> dict[str, dict[str, Any]]:
    """What `nacre admin extensions --json` prints, by id."""
    run = run_nacre(home, "admin", "extensions", "--json", PYTHONPATH=str(site))
    assert run.returncode == 0, run.stderr
    return {item["id"]: item for item in json.loads(run.stdout)}


def told(home: Path, site: Path, *texts: str) -> dict[str, Any]:
    """What an agent with these extensions does with these messages; see `extended_driver.py`."""
    run = run_warm(
        *("-m", "tests.runtime.extensions.extended_driver", *texts),
        cwd=Path(__file__).parents[3],
        env=environment(home, PYTHONPATH=str(site)),
        timeout_seconds=RUN_SECONDS,
    )
    assert run.returncode == 0, run.stderr
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result
