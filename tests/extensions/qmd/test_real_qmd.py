"""The real program from npm, by words alone, so without a model. `make qmd` installs it."""

from __future__ import annotations

from pathlib import Path
from shutil import which

import pytest

from nacre.extensions.qmd.qmd_memory import qmd_home
from tests.extensions.qmd.homes import called, group_chat, private_chat, started, written

BUILT = Path(__file__).parents[3] / "build" / "qmd"
NODE = BUILT / "node_modules" / "node" / "bin" / "node"
SCRIPT = BUILT / "node_modules" / "@tobilu" / "qmd" / "dist" / "cli" / "qmd.js"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (NODE.exists() and SCRIPT.exists()),
        reason="qmd is not installed" if which("npm") else "there is no npm to install qmd with",
    ),
]

QMD = {"command": f'"{NODE}" "{SCRIPT}"', "limits": {"timeoutMs": 60_000}, "update": {"onBoot": False}}


@pytest.mark.covers("SEED-15")
async def test_notes_are_found_read_and_followed(tmp_path: Path) -> None:
    """Odd names and all; what is written later is found later, and what is removed is not."""
    docs = tmp_path / "docs" / "Sub Dir"
    docs.mkdir(parents=True)
    (docs / "Ünder_Score & x.md").write_text("# Über uns\n\nAn Omada manual.\n", encoding="utf-8")
    config = written(tmp_path, {**QMD, "paths": [{"path": str(tmp_path / "docs"), "name": "docs"}]})
    chat = private_chat(config)
    async with started(config) as engine:
        await engine.sync()
        found = await called(engine, chat, "memory_search", query="Omada")
        option = await called(engine, chat, "memory_search", query="--help Omada")
        nothing = await called(engine, chat, "memory_search", query="zeppelin")
        (config.workspace / "memory/2026-03-14.md").write_text("- A zeppelin lands.\n", encoding="utf-8")
        (config.workspace / "memory/2026-03-13.md").unlink()
        await engine.sync()
        later = await called(engine, chat, "memory_search", query="zeppelin")
        gone = await called(engine, chat, "memory_search", query="Router")
        path = "qmd/docs-main/Sub Dir/Ünder_Score & x.md"
        read = await called(engine, chat, "memory_get", path=path)
        group = await called(engine, group_chat(config), "memory_search", query="boat")

    assert {item["path"] for item in found["results"]} == {"memory/2026-03-13.md", path}
    assert {found["provider"], option["provider"], nothing["provider"]} == {"qmd"}
    assert nothing["results"] == []
    assert [item["path"] for item in later["results"]] == ["memory/2026-03-14.md"]
    assert gone["results"] == []
    assert "An Omada manual." in read["text"]
    assert group["results"] == []


async def test_a_damaged_index_is_put_aside_and_made_again(tmp_path: Path) -> None:
    """The other engine answers meanwhile; the next update mends it from the notes."""
    config = written(tmp_path, QMD)
    chat = private_chat(config)
    async with started(config) as engine:
        await engine.sync()
        index = qmd_home(config).cache / "qmd"
        for file in index.glob("index.*"):
            file.write_bytes(b"this is no index any more" * 40)
        broken = await called(engine, chat, "memory_search", query="Halcyon")
        await engine.sync()
        mended = await called(engine, chat, "memory_search", query="Halcyon")

    assert broken["results"][0]["path"] == "MEMORY.md"
    assert "file is not a database" in broken["fallback"]["reason"]
    assert mended["provider"] == "qmd"
    assert mended["results"][0]["path"] == "MEMORY.md"
    assert list((index / "damaged").iterdir())
