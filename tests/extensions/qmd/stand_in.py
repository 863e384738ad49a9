"""A program in the place of qmd that says what the real one (2.8.3) said, or fails as it is told to.

It greps the notes of the collections that it was given, and writes down each call. `failing(…)` makes it
answer calls of one command with other words, another exit code, or never.
"""

from __future__ import annotations

import json
import sys
from ast import literal_eval
from pathlib import Path
from typing import Any

SOURCE = r"""
import os, sys
# What json and pathlib import is most of a start. What is kept is read by Python itself.
def kept(path):
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        return eval(file.read(), {"true": True})
def keep(path, text):
    # Others may read it at this moment: as a whole, before or after.
    new = f"{path}.{os.getpid()}"
    with open(new, "w") as file:
        file.write(text)
    os.replace(new, path)
here = os.path.dirname(__file__)
with open(os.path.join(here, "calls"), "a") as log:
    log.write(f"{sys.argv[1:]}\n")
failures = os.path.join(here, "failures.json")
rules = kept(failures)
for key in (" ".join(sys.argv[1:3]), sys.argv[1]):
    if (rule := rules.get(key)) and rule.get("times", 1):
        if "times" in rule:
            rule["times"] -= 1
            keep(failures, str(rules))
        if rule.get("hangs"):
            import signal
            signal.pause()
        if "repeat" in rule and sys.platform == "linux":
            import fcntl
            # a wide pipe still has words in it when the one who reads them has had enough
            fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)
        sys.stdout.write(rule.get("out", "") * rule.get("repeat", 1))
        sys.stderr.write(rule.get("err", ""))
        sys.exit(rule.get("code", 0))
config = os.path.join(os.environ["QMD_CONFIG_DIR"], "stand-in.json")
made = kept(config)
command = sys.argv[1]
if sys.argv[1:3] == ["collection", "list"]:
    print(f"Collections ({len(made)}):\n")
    for name, (path, mask) in made.items():
        print(f"{name} (qmd://{name}/)\n  Pattern:  {mask}\n  Files:    1\n  Updated:  2s ago\n")
elif sys.argv[1:3] == ["collection", "add"]:
    _, _, path, _, name, _, mask = sys.argv[1:]
    if name in made:
        print(f"Collection '{name}' already exists.", file=sys.stderr)
        sys.exit(1)
    made[name] = [path, mask]
    keep(config, str(made).replace("'", '"'))
elif sys.argv[1:3] == ["collection", "remove"]:
    made.pop(sys.argv[3], None)
    keep(config, str(made).replace("'", '"'))
elif command in ("search", "vsearch", "query"):
    _, query, _, _, most, _, name = sys.argv[1:]
    if name not in made:
        print(f"Collection not found: {name}", file=sys.stderr)
        sys.exit(1)
    import json
    from pathlib import Path
    root, mask = made[name]
    found = []
    for file in sorted(Path(root).glob(mask)):
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            if any(word in line.lower() for word in query.lower().split()):
                found.append({
                    "docid": "#dd06ae", "score": 0.5, "file": f"qmd://{name}/{file.relative_to(root).as_posix()}",
                    "line": number, "title": file.stem,
                    "snippet": f"@@ -{number},1 @@ (0 before, 0 after)\n{line}",
                })
                break
    print(json.dumps(found[: int(most)], indent=2))
"""


class StandIn:
    """The program in a folder of its own; `command` is what stands in the settings."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        script = folder / "stand_in.py"
        script.write_text(SOURCE, encoding="utf-8")
        # -S -E: a bare interpreter starts in half the time
        self.command = f'"{sys.executable}" -S -E "{script}"'

    def failing(self, **rules: dict[str, Any]) -> None:
        """What is answered instead, by command: `out`, `err`, `code`, `hangs`, `repeat`, how many `times`."""
        named = {name.replace("_", " "): rule for name, rule in rules.items()}
        (self._folder / "failures.json").write_text(json.dumps(named), encoding="utf-8")

    def answering(self, *items: dict[str, Any]) -> None:
        """What every search finds."""
        self.failing(search={"out": json.dumps(items)})

    def calls(self, command: str = "") -> list[list[str]]:
        """The arguments of each call so far, of one command if named."""
        log = self._folder / "calls"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        return [call for line in lines if (call := literal_eval(line))[0] == command or not command]


def hit(file: str, snippet: str = "@@ -1,1 @@\nforged words", **changes: Any) -> dict[str, Any]:
    """One item of an answer."""
    return {"docid": "#022061", "score": 0.9, "file": file, "line": 1, "snippet": snippet, **changes}
