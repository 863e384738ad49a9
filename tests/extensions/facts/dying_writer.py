"""Sets a fact again and again in processes that are killed at a byte of the page's write.

    python -m tests.extensions.facts.dying_writer <folder> kill|refuse <step>

Each process may write so many bytes into a file, from none up to the whole page in steps. `kill` ends it by
a signal at the first byte too many, as a kill at that moment does; `refuse` has the system say that there is
no room, as on a full disk. Prints in how many of these the page was as before, and in how many it was new.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from pathlib import Path

from tests.extensions.facts.pages import Clock, open_facts, page_of


def _write(folder: Path, limit_bytes: int, *, is_killed: bool) -> None:
    if is_killed:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
    try:
        asyncio.run(open_facts(folder, Clock()).set_fact("anna", "city", "Porto"))
    except OSError:
        os._exit(3)
    os._exit(0)


def main(folder: Path, how: str, step: int) -> None:
    """Tries every limit, and tells what became of the page."""
    page = page_of(folder)
    before = page.read_bytes()
    asyncio.run(open_facts(folder, Clock()).set_fact("anna", "city", "Porto"))
    after = page.read_bytes()
    old = new = 0
    for limit_bytes in (*range(0, len(after), step), len(after) - 1, len(after)):
        page.write_bytes(before)
        child = os.fork()
        if not child:
            _write(folder, limit_bytes, is_killed=how == "kill")
        _, status = os.waitpid(child, 0)
        found, has_room = page.read_bytes(), limit_bytes >= len(after)
        assert found == (after if has_room else before), (limit_bytes, found)
        assert os.waitstatus_to_exitcode(status) == (
            0 if has_room else -signal.SIGXFSZ if how == "kill" else 3
        )
        old, new = old + (found == before), new + (found == after)
    sys.stdout.write(f"old {old} new {new}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
