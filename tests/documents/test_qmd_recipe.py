"""`docs/qmd.md` names the collections that the code makes, and its recipe loads models for those."""

from __future__ import annotations

import re
from pathlib import Path

from nacre.extensions.qmd.home import QmdHome, wanted_collections
from nacre.runtime.settings.sections.memory import QmdPath

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "qmd.md").read_text(encoding="utf-8")


def _made(workspace: Path) -> set[str]:
    """The names of all kinds of collections of the agent `main`."""
    for name in ("MEMORY.md", "memory.md"):
        (workspace / name).touch()
    found = wanted_collections(
        agent_id="main",
        workspace=workspace,
        user_folder=workspace,
        includes_default=True,
        paths=[QmdPath(path="a"), QmdPath(path="b", name="docs")],
        sessions=workspace / "s",
    )
    return {collection.name for collection in found}


def test_the_table_names_each_collection(tmp_path: Path) -> None:
    """The page has the names as they are, with the agent's id behind them."""
    table = PAGE.partition("| Collection |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`[^|]*)\|", table, re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    shown = {name.replace("<agent>", "main").replace("<name>", "docs") for name in told}
    assert shown == _made(tmp_path)


def test_a_recipe_asks_no_collection_that_does_not_exist(tmp_path: Path) -> None:
    """Nor does it look in other folders than the agent's."""
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))
    commands = [line.partition("#")[0] for line in blocks.splitlines()]
    named = {name for line in commands for name in re.findall(r"(?:-c|--collection)[ =](\S+)", line)}
    assert named <= _made(tmp_path)
    home = QmdHome(Path("$STATE_DIR/agents/main/qmd"))
    assert f'export XDG_CONFIG_HOME="{home.config}"' in blocks
    assert f'export XDG_CACHE_HOME="{home.cache}"' in blocks
    assert re.search(r"^qmd query ", blocks, re.MULTILINE)
