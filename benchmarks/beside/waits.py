"""How long nobody should wait: each row beside its peer, in one command, as a table with ratios.

    python -m benchmarks.beside.waits [--peers DIR] [--sessions 5000] [--chunks 2000] [--rounds 5] [--all]

Commands are timed in processor time (user and system of the process), for a machine that others use too, and
take turns with their peers. `--peers` names a virtual environment with `llm` and `openai-agents`, made if
there is none. Below it, `--all` runs the other benchmarks: turns, bridges, HTTP clients, the index, searches,
opening a session and its compaction. `docs/engineering/comparison.md` shows its table.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.beside.many_streams import free_port, running
from benchmarks.corpus import write_workspace
from benchmarks.session import STAMP, write_session
from nacre.runtime.contracts.clock import random_id
from nacre.runtime.settings.config import load_config
from nacre.runtime.storage.storage import storage_of
from nacre.sessions.disk.json_text import to_line
from nacre.sessions.entries.entries import SessionHeader, header_to_json
from nacre.sessions.index.record import SessionRecord

QUESTION = "what did we decide about the backup drive"
NACRE = (sys.executable, "-m", "nacre")
PYTHON = (sys.executable, "-c", "pass")
RUN = """import os, sys
quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, used = os.wait4(child, 0)
print([status, used.ru_utime + used.ru_stime, used.ru_maxrss])"""
"""A process counts the memory of its parent as its own peak, so that a small one starts it."""
HTTPX = """import httpx, sys
body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
with httpx.stream("POST", sys.argv[1] + "/chat/completions", json=body) as response:
    print(sum(1 for line in response.iter_lines()))"""
AGENTS = """import asyncio, sys, openai, agents
client = openai.AsyncOpenAI(base_url=sys.argv[1], api_key="k")
agents.set_tracing_disabled(True)
model = agents.OpenAIChatCompletionsModel(model="m", openai_client=client)
async def main():
    run = agents.Runner.run_streamed(agents.Agent(name="a", model=model), "hello")
    async for event in run.stream_events():
        pass
    print(run.final_output)
asyncio.run(main())"""
OTHERS = (
    ("benchmarks.turn", "--history", "10", "--chats", "1", "--new", "60", "--turns", "30"),
    ("benchmarks.process.chats", "--chats", "1", "100", "1000", "--messages", "100"),
    ("benchmarks.beside.many_streams",),
    ("benchmarks.index_speed", "--chunks", "10000", "--dimensions", "1536"),
    ("benchmarks.process.start_up", "--rounds", "5"),
    ("benchmarks.search_speed",),
    ("benchmarks.session", "--entries", "10000"),
    ("benchmarks.long_session", "--entries", "10000"),
)


@dataclass
class Timed:
    """A command, and what its runs took. `beside` is the label of what it is compared with."""

    label: str
    command: Sequence[str]
    beside: str = ""
    home: str = ""
    took_seconds: list[float] = field(default_factory=list)
    peak_mb: float = 0.0

    def run(self, environment: Mapping[str, str]) -> None:
        """One run. Raises `SystemExit` when it failed."""
        told = subprocess.run(
            (sys.executable, "-I", "-S", "-c", RUN, *self.command),
            env={**environment, "HOME": self.home or environment["HOME"]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=True,
        )
        status, seconds, peak_kb = json.loads(told.stdout)
        if status:
            raise SystemExit(f"{self.label} ended with {os.waitstatus_to_exitcode(status)}.")
        self.took_seconds.append(seconds)
        self.peak_mb = max(self.peak_mb, peak_kb / 1024)


async def write_sessions(home: Path, number: int) -> None:
    """So many chats of eight messages, in the state folder of `home`."""
    store = storage_of(load_config({"HOME": str(home)})).sessions(
        now=lambda: datetime.now(UTC), new_id=random_id
    )
    folder = Path(store.place).parent
    folder.mkdir(parents=True)
    at_ms = int(datetime.now(UTC).timestamp() * 1000)
    records = {
        f"agent:main:telegram:group:{chat}": SessionRecord(session_id=random_id(), updated_at_ms=at_ms + chat)
        for chat in range(number)
    }
    await store.index.edit(lambda _: records)
    await store.close()
    one = folder / "one"
    write_session(one, 8, 0)  # the words of each would take longer to draw than all rows
    _, _, messages = one.read_bytes().partition(b"\n")
    for record in records.values():
        header = header_to_json(SessionHeader(id=record.session_id, timestamp=STAMP, cwd=str(folder)))
        (folder / f"{record.session_id}.jsonl").write_bytes(to_line(header) + messages)
    one.unlink()


def rows(folder: Path, url: str, peers: Path | None, rg: str | None) -> list[Timed]:
    """All commands; those that others are compared with come first."""
    chats, notes, model = (str(folder / name) for name in ("chats", "notes", "model"))
    found = [
        Timed("python", PYTHON),
        Timed("httpx", (sys.executable, "-c", HTTPX, url), "python"),
    ]
    send = [*NACRE, "send", "-m", "hello"]
    if peers is not None:
        python = str(peers / "bin" / "python")
        llm = (str(peers / "bin" / "llm"), "prompt", "hello", "-m", "gpt-4o-mini", "--key", "k")
        found += [
            Timed("llm, one answer", llm, "httpx"),
            Timed("openai-agents, one answer", (python, "-c", AGENTS, url), "httpx"),
            Timed("nacre send", send, "llm, one answer", model),
        ]
    if rg:
        found.append(
            Timed("ripgrep", (rg, "-i", "backup", str(folder / "notes" / ".nacre" / "workspace")), "python")
        )
    return [
        *found,
        Timed("nacre send", send, "httpx", model),
        Timed("nacre status", (*NACRE, "status"), "python", chats),
        Timed("nacre sessions list", (*NACRE, "sessions", "list"), "python", chats),
        Timed("nacre memory search, words", (*NACRE, "memory", "search", QUESTION), "python", notes),
    ]


def table(measured: Sequence[Timed], rounds: int) -> str:
    """Markdown: medians, the most memory, and the ratio to what stands beside it."""
    usual = {each.label: median(each.took_seconds) for each in measured}
    lines = [
        f"| Processor time of a command, medians of {rounds} | Seconds | MB | Beside | Ratio |",
        "|---|---|---|---|---|",
    ]
    for each in measured:
        own = median(each.took_seconds)
        ratio = f"{own / usual[each.beside]:.2f}" if each.beside else "1"
        lines.append(f"| {each.label} | {own:.2f} | {each.peak_mb:.0f} | {each.beside} | {ratio} |")
    return "\n".join(lines)


def made_peers(place: Path) -> Path:
    """The environment with the peers, made from the package index if it is missing."""
    if not (place / "bin" / "llm").exists():
        venv.create(place, with_pip=True)
        subprocess.run([place / "bin" / "pip", "install", "-q", "llm", "openai-agents"], check=True)
    return place


def settings(home: Path, url: str) -> None:
    """Settings without a model for search, and with one for answers if there is a `url`."""
    state = home / ".nacre"
    state.mkdir(parents=True, exist_ok=True)
    defaults = {"memorySearch": {"provider": "none"}, **({"model": {"primary": "openai/m"}} if url else {})}
    providers = {"openai": {"baseUrl": url, "apiKey": "k"}} if url else {}
    (state / "nacre.json5").write_text(
        json.dumps({"agents": {"defaults": defaults}, "models": {"providers": providers}}), encoding="utf-8"
    )


def measure(peers: Path | None, sessions: int, chunks: int, rounds: int) -> None:
    """Prepares the homes and prints the table."""
    folder = Path(tempfile.mkdtemp(prefix="nacre-waits-"))
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    settings(folder / "chats", "")
    settings(folder / "notes", "")
    settings(folder / "model", url)
    asyncio.run(write_sessions(folder / "chats", sessions))
    write_workspace(folder / "notes" / ".nacre" / "workspace", chunks=chunks)
    environment = {**os.environ, "HOME": str(folder), "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    this = (sys.executable, "-m", "benchmarks.beside.many_streams", "--provide", str(port))
    with running((*this, "--tokens", "20", "--a-second", "1000"), environment, port):
        measured = rows(folder, url, peers, shutil.which("rg"))
        for number in range(rounds + 1):
            for each in measured:
                each.run(environment)
                if not number:  # the first run compiles the modules and makes the index
                    each.took_seconds.clear()
    print(f"{sessions} sessions, {chunks} chunks, load average {os.getloadavg()[0]:.1f}\n")
    print(table(measured, rounds))
    shutil.rmtree(folder)


def main() -> None:
    """Reads the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", type=Path, help="a virtual environment, made if it is missing")
    parser.add_argument("--sessions", type=int, default=5_000)
    parser.add_argument("--chunks", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--all", action="store_true", help="also what is no command, some minutes")
    given = parser.parse_args()
    measure(given.peers and made_peers(given.peers.absolute()), given.sessions, given.chunks, given.rounds)
    for name, *arguments in OTHERS if given.all else ():
        print(f"\n{name} {' '.join(arguments)}", flush=True)
        subprocess.run([sys.executable, "-m", name, *arguments], check=True)


if __name__ == "__main__":
    main()
