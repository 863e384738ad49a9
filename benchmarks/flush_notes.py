"""How well recorded answers to a flush request answer later questions, beside the raw lines.

    python -m benchmarks.flush_notes ../shared/eval/data/locomo_all/all

`data/flush_notes.toml` has answers to two forms of the request for three conversations. For the raw logs
alone, and with each form's notes below them, prints the number of questions, and for what share of them the
six best snippets have every word of the answer. The search is by words alone; held-out questions stand apart.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nacre.memory.contracts.settings import MemorySearchSettings
from nacre.memory.engine import MemoryEngine
from nacre.memory.workspace.folder import FolderWorkspace

NOTES = Path(__file__).parent / "data" / "flush_notes.toml"
HITS = 6
NOW = datetime(2023, 10, 22, tzinfo=UTC)
_FREE = frozenset(("a", "an", "the", "of", "to", "and", "in", "on", "for", "his", "her", "is", "was", "by"))


def questions(data: Path, conversation: str, days: Sequence[str]) -> list[dict[str, Any]]:
    """The questions of a conversation that these days answer."""
    found = [json.loads(line) for line in (data / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    return [
        each
        for each in found
        if each["id"].startswith(f"{conversation}-")
        and each.get("answer")
        and each.get("category") != "adversarial"
        and each["relevant"]
        and all(Path(place["path"]).stem in days for place in each["relevant"])
    ]


async def shares(
    data: Path, asked: Sequence[dict[str, Any]], days: Sequence[str], notes: Mapping[str, str]
) -> str:
    """The counts and shares of both halves of the questions, as text."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "memory").mkdir()
        for day in days:
            text = (data / f"memory/{day}.md").read_text(encoding="utf-8")
            noted = f"\n\n## Notes of the conversation, 23:00\n\n{notes[day]}" if day in notes else ""
            (folder / f"memory/{day}.md").write_text(text + noted, encoding="utf-8")
        engine = await MemoryEngine.open(
            workspace=FolderWorkspace(folder, lock_dir=folder / "locks"),
            index_path=folder / "index.sqlite",
            settings=MemorySearchSettings(),
            embedder=None,
            now=lambda: NOW,
        )
        await engine.sync(reason="benchmark")
        halves: dict[bool, list[bool]] = {False: [], True: []}
        for each in asked:
            report = await engine.search(each["query"], max_results=HITS)
            shown = _words(" ".join(f"{hit.snippet} {hit.path}" for hit in report.hits))
            is_held_out = hashlib.sha256(each["query"].encode()).digest()[0] % 2 == 1
            halves[is_held_out].append(_words(str(each["answer"])) - _FREE <= shown)
        await engine.close()
    return ", ".join(
        f"{'held out' if held else 'visible'} {sum(found) / max(1, len(found)):.3f} of {len(found)}"
        for held, found in halves.items()
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[^\W_]+", text.lower()))


async def _main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    recorded: dict[str, dict[str, dict[str, str]]] = tomllib.loads(NOTES.read_text(encoding="utf-8"))
    for conversation, forms in recorded.items():
        days = sorted(forms["new"])
        asked = questions(data, conversation, days)
        for form, notes in {"raw": {}, **forms}.items():
            print(f"{conversation} {form}: {await shares(data, asked, days, notes)}")


if __name__ == "__main__":
    asyncio.run(_main())
