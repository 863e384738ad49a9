"""The CPU time of 200 new chats at once: Nacre, and OpenAI Agents with a SQLiteSession for each; feeds
docs/engineering/comparison.md.

    python -m benchmarks.beside.new_chats --peer PYTHON [--chats 200] [--rounds 5]

PYTHON is an interpreter that has openai-agents. Each round runs both, one after the other, each in a process
of its own against one scripted provider in this process, whose time does not count. A process first has one
chat, so that imports and the first connection do not count either. Medians in milliseconds of CPU a chat.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from statistics import median

from nacre.runtime.models.scripted_provider import reply as replies
from nacre.testing import ProviderServer

NACRE = """
from nacre import Agent
async def opened(stack, url, folder):
    agent = await stack.enter_async_context(Agent.open(
        state_dir=folder, environment={"HOME": folder, "NACRE_MODEL": url + "/some-model"}, profile=PROFILE))
    async def chat(name):
        return (await agent.ask("Hello, how are you?", session=name)).text
    return chat
"""
AGENTS = """
from agents import Agent, OpenAIChatCompletionsModel, Runner, SQLiteSession, set_tracing_disabled
from openai import AsyncOpenAI
async def opened(stack, url, folder):
    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel("some-model", AsyncOpenAI(base_url=url, api_key="none"))
    agent = Agent(name="bot", instructions="Be brief.", model=model)
    async def chat(name):
        session = SQLiteSession(name, folder + "/chats.db")
        return (await Runner.run(agent, "Hello, how are you?", session=session)).final_output
    return chat
"""
RUN = """
import asyncio, sys, time
from contextlib import AsyncExitStack
url, folder, chats = sys.argv[1], sys.argv[2], int(sys.argv[3])
async def main():
    async with AsyncExitStack() as stack:
        chat = await opened(stack, url, folder)
        await chat("warm")
        began = time.process_time()
        said = await asyncio.gather(*(chat(f"chat{number}") for number in range(chats)))
        assert said == ["Fine, thank you."] * chats, said[:3]
        print(1_000 * (time.process_time() - began) / chats)
asyncio.run(main())
"""


def cpu_ms(python: str, program: str, url: str, chats: int) -> float:
    """CPU milliseconds of each chat in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [python, "-c", program + RUN, url, folder, str(chats)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            cwd=folder,
            env={"HOME": folder, "PATH": os.environ["PATH"]},
        )
    return float(run.stdout)


def main() -> None:
    """Prints a row for each round, and the medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", required=True)
    parser.add_argument("--chats", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    told = parser.parse_args()
    programs = {
        "Nacre": (sys.executable, 'PROFILE = "assistant"' + NACRE),
        "Nacre, profile bare": (sys.executable, 'PROFILE = "bare"' + NACRE),
        "OpenAI Agents": (told.peer, AGENTS),
    }
    found: dict[str, list[float]] = {name: [] for name in programs}
    with ProviderServer(responder=lambda _: replies("Fine, thank you.")) as provider:
        for number in range(told.rounds):
            for name, (python, program) in programs.items():
                found[name].append(cpu_ms(python, program, provider.url, told.chats))
            print(number + 1, {name: f"{times[-1]:.1f}" for name, times in found.items()}, flush=True)
    print("median", {name: f"{median(times):.1f}" for name, times in found.items()})


if __name__ == "__main__":
    main()
