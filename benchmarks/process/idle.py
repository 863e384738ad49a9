"""How often an idle Nacre wakes the processor: an opened agent that watches its notes, and `nacre chat`.

    python -m benchmarks.process.idle [--seconds 20] [--settle 10]

Counts the voluntary switches of every thread, as Linux tells them in `/proc/<pid>/task/<id>/status`, after
the process has had some seconds to come to rest. Each runs in a process of its own, in an empty home.
"""

from __future__ import annotations

import argparse
import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.corpus import write_workspace

AGENT = """
import asyncio, pathlib
from nacre import Agent
async def main():
    async with await Agent.open():
        await asyncio.Event().wait()
asyncio.run(main())
"""
CONTENDERS = {
    "an opened agent": (sys.executable, "-c", AGENT),
    "nacre chat": (sys.executable, "-m", "nacre", "chat"),
}


def switches(process_id: int) -> dict[str, int]:
    """How often each thread of a process has gone to sleep so far, by the thread's id."""
    counts = {}
    for task in Path(f"/proc/{process_id}/task").iterdir():
        lines = (task / "status").read_text(encoding="utf-8").splitlines()
        counts[task.name] = int(next(line for line in lines if line.startswith("voluntary_ctxt")).split()[1])
    return counts


def wakeups_per_second(command: tuple[str, ...], home: Path, settle: float, seconds: float) -> list[float]:
    """Of each thread that woke up at all, the busiest first. The process has a terminal of its own."""
    terminal, end = pty.openpty()
    environment = {**os.environ, "HOME": str(home), "TERM": "xterm-256color"}
    environment |= {"NACRE_STATE_DIR": str(home / "state"), "NACRE_WORKSPACE": str(home / "workspace")}
    process = subprocess.Popen(command, env=environment, stdin=end, stdout=end, stderr=end)
    os.close(end)
    # What it shows is read, as a terminal would: else it would wait for that.
    threading.Thread(target=_read_all, args=(terminal,), daemon=True).start()
    try:
        time.sleep(settle)
        if process.poll() is not None:
            raise SystemExit(f"{' '.join(command[:4])} ended with {process.returncode}")
        before = switches(process.pid)
        time.sleep(seconds)
        after = switches(process.pid)
    finally:
        process.terminate()
        process.wait()
    rates = (count - before.get(task, 0) for task, count in after.items())
    return sorted((count / seconds for count in rates if count), reverse=True)


def _read_all(terminal: int) -> None:
    try:
        while os.read(terminal, 65_536):
            pass
    except OSError:
        return  # the other end is closed


def main() -> None:
    """Measures each contender by itself."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--settle", type=float, default=10)
    arguments = parser.parse_args()
    for label, command in CONTENDERS.items():
        with tempfile.TemporaryDirectory(prefix="nacre-idle-") as folder:
            home = Path(folder)
            write_workspace(home / "workspace", chunks=100)
            rates = wakeups_per_second(command, home, arguments.settle, arguments.seconds)
        busiest = ", ".join(f"{rate:.2f}" for rate in rates[:4])
        print(f"{label:16} {sum(rates):6.2f} wakeups a second; by thread {busiest or 'none'}")


if __name__ == "__main__":
    main()
