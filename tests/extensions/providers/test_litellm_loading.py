"""litellm comes late, quietly, and without the network or a stranger's `.env`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import asyncio, logging, os, socket, sys, warnings

def refuse(*args):
    raise AssertionError(f"network: {args}")

socket.socket.connect = socket.getaddrinfo = refuse
logging.basicConfig(level=logging.DEBUG)
from nacre.extensions.providers.litellm import load_litellm
assert "litellm" not in sys.modules

async def main():
    seen = []
    async def tick():
        while True:
            seen.append(1)
            await asyncio.sleep(0.01)
    ticking = asyncio.create_task(tick())
    first, second = await asyncio.gather(load_litellm("openai/x"), load_litellm("openai/x"))
    ticking.cancel()
    assert first is second is sys.modules["litellm"]
    assert first.model_cost["gpt-4o"]["max_input_tokens"]
    assert not (first.callbacks or first.success_callback or first.failure_callback)
    print(len(seen) > 20, os.environ.get("OPENAI_API_KEY"))

asyncio.run(main())
"""

UNCOUNTED = """
import asyncio, socket

asked = []
resolve = socket.getaddrinfo

def recorded(host, *args, **kwargs):
    asked.append(host)
    if host not in ("127.0.0.1", b"127.0.0.1"):
        raise OSError("there is no network")
    return resolve(host, *args, **kwargs)

socket.getaddrinfo = recorded
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt
from nacre.extensions.providers.litellm import LiteLLMModel
from nacre.runtime.models.scripted import Clock
from nacre.sessions.contracts.messages import user_message
from tests.servers.provider_server import ProviderServer

async def main():
    hello = ModelRequest(system=SystemPrompt(stable=""), messages=(user_message("Hi", timestamp_ms=1),))
    async with ProviderServer() as server:
        for name in ("groq/llama-3.1-8b-instant", "together_ai/meta-llama/Llama-2-7b"):
            server.reply("Hello.", usage=None)
            model = LiteLLMModel(name, base_url=server.url, api_key="sk-test", now_ms=Clock().now_ms)
            print([item async for item in model.stream(hello)][-1].usage)
            await model.aclose()
    print(set(asked) - {"127.0.0.1", b"127.0.0.1"})

asyncio.run(main())
"""

AHEAD = """
import asyncio, sys, threading
from nacre import Agent
from nacre.extensions.providers.litellm import begin_loading, load_litellm

def loading():
    return [thread for thread in threading.enumerate() if thread.name == "litellm"]

async def main(state, how):
    own = {"state_dir": state, "environment": {"HOME": state}, "watch": how != "one turn"}
    async with await Agent.open(model="anthropic/claude-sonnet-4-5", **own):
        begun = len(loading())
        if how == "chat":
            assert await load_litellm("x/y") is await load_litellm("x/y") is sys.modules["litellm"]
            [thread.join(5) for thread in loading()]  # it has given the module and is about to end
    print(begun, len(loading()), begun and begin_loading().done())

asyncio.run(main(*sys.argv[1:]))
"""


def run_program(program: str, folder: Path, *arguments: str) -> str:
    """What a program prints that runs in a folder, with nothing in its environment."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env={"PATH": "", "HOME": str(folder), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.slow
def test_what_a_provider_did_not_count_is_not_counted_with_a_strangers_tokenizer(tmp_path: Path) -> None:
    """litellm would bring one from the network for such names, and wait for it."""
    assert run_program(UNCOUNTED, tmp_path).splitlines() == ["None", "None", "set()"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "seen"), [("chat", "1 0 True"), ("left at once", "1 1 False"), ("one turn", "0 0 0")]
)
def test_in_a_chat_it_loads_while_the_person_types(tmp_path: Path, how: str, seen: str) -> None:
    """Once, on a thread that the first message waits for, and that keeps no program from ending."""
    assert run_program(AHEAD, tmp_path, str(tmp_path), how).strip() == seen


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
