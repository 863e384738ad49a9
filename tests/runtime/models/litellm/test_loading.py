"""litellm comes late, quietly, and without the network or a stranger's `.env`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nacre.runtime.models.completions.price_map import package_folder, price_map_entry

PROGRAM = """
import asyncio, logging, os, socket, sys, warnings

def refuse(*args):
    raise AssertionError(f"network: {args}")

socket.socket.connect = socket.getaddrinfo = refuse
logging.basicConfig(level=logging.DEBUG)
from nacre.runtime.models.litellm import loading as litellm_loading
from nacre.runtime.models.litellm import model as litellm_model
assert "litellm" not in sys.modules

async def main():
    seen = []
    async def tick():
        while True:
            seen.append(1)
            await asyncio.sleep(0.01)
    ticking = asyncio.create_task(tick())
    first, second = await asyncio.gather(litellm_loading.load_litellm(), litellm_loading.load_litellm())
    ticking.cancel()
    assert first is second is sys.modules["litellm"]
    assert first.model_cost["gpt-4o"]["max_input_tokens"]
    assert not (first.callbacks or first.success_callback or first.failure_callback)
    print(len(seen) > 20, os.environ.get("OPENAI_API_KEY"))

asyncio.run(main())
"""


@pytest.mark.slow
def test_it_loads_offline_off_the_loop_and_reads_no_dotenv(tmp_path: Path) -> None:
    """The event loop goes on while litellm loads: no network, not a word printed, and no `.env`."""
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-from-a-strange-folder\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        cwd=tmp_path,
        env={"PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "True None", done.stderr
    assert "litellm" not in done.stderr.lower()


def test_facts_of_a_model_need_no_import() -> None:
    """The price map is read as a file; a bare name counts only for its own provider."""
    assert package_folder() is not None
    assert price_map_entry("openai/gpt-4o")["max_input_tokens"] == 128_000
    assert price_map_entry("gpt-4o")["max_input_tokens"] == 128_000
    assert price_map_entry("mistral/gpt-4o") == {}
    assert price_map_entry("nobody/nothing") == {}
