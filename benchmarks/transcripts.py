"""Writes two people's talks anew, as talks of a person with an assistant whose answers are long.

    python -m benchmarks.transcripts ../shared/eval/data/locomo_all build/transcripts [--form bold]
    python -m benchmarks.recall build/transcripts --way lexical --way default

One data set for each form in which a transcript may name its speakers. Of each talk the first of the two is
the person, the other the assistant, each of whose remarks goes on with eight remarks of other days. Questions
and evidence stay; a question has the category `person` if its evidence is the person's alone, otherwise
`assistant`. The form `notes` has `Note:` and `Idea:` in the place of speakers.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

FORMS = {
    "plain": ("User: ", "Assistant: "),
    "bold": ("**User:** ", "**Assistant:** "),
    "item": ("- **You**: ", "- **ChatGPT**: "),
    "clock": ("[10:31] Ann: ", "[10:32] Claude: "),
    "heading": ("### User\n\n", "### Assistant\n\n"),
    "human": ("Human: ", "AI: "),
    "tag": ("<user>\n", "<assistant>\n"),
    "german": ("Benutzer: ", "Assistent: "),
    "chinese": ("用户：", "助手："),
    "notes": ("Note: ", "Idea: "),
}
MORE = 8
_TALK = re.compile(r"## Conversation of (\w+) and (\w+)")
_SAID = re.compile(r"- (\w+): (.*)")


class Talks:
    """The talks of one data set, in one form."""

    def __init__(self, folder: Path, form: str) -> None:
        self._folder, self._labels = folder, FORMS[form]
        self._chance = random.Random(5)
        self._places: dict[tuple[str, int], tuple[int, bool]] = {}
        self._texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.glob("memory/*.md"))}
        self._remarks: dict[str, list[str]] = {}
        for text in self._texts.values():
            for name, said in _SAID.findall(text):
                self._remarks.setdefault(name, []).append(said)

    def write(self, into: Path) -> None:
        """Writes notes and questions."""
        (into / "memory").mkdir(parents=True, exist_ok=True)
        for path, text in self._texts.items():
            lines = "\n".join(self._rewritten(f"memory/{path.name}", text)) + "\n"
            (into / "memory" / path.name).write_text(lines, encoding="utf-8")
        raw = (self._folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
        asked = [json.dumps(query, ensure_ascii=False) for query in map(self._question, raw) if query]
        (into / "queries.jsonl").write_text("\n".join(asked) + "\n", encoding="utf-8")

    def _rewritten(self, path: str, text: str) -> Iterator[str]:
        person, count = "", 0
        for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
            if talk := _TALK.match(line):
                person = talk[1]
            said = _SAID.match(line)
            parts = [line] if said is None else [*self._turn(said[1], said[2], person).split("\n"), ""]
            at = next((at for at, part in enumerate(parts) if said and said[2] in part), 0)
            self._places[path, number] = (count + at + 1, said is not None and said[1] == person)
            count += len(parts)
            yield from parts

    def _turn(self, name: str, said: str, person: str) -> str:
        if name == person:
            return self._labels[0] + said
        others = self._chance.choices(self._remarks[name], k=MORE)
        return "\n\n".join((self._labels[1] + said, *others))

    def _question(self, line: str) -> dict[str, object] | None:
        query = json.loads(line)
        places = [
            self._places[at["path"], number]
            for at in query["relevant"]
            for number in range(at["startLine"], at["endLine"] + 1)
        ]
        if query["category"] == "adversarial" or not places:
            return None
        paths = [at["path"] for at in query["relevant"] for _ in range(at["startLine"], at["endLine"] + 1)]
        query["relevant"] = [
            {"path": path, "startLine": number, "endLine": number}
            for path, (number, _) in zip(paths, places, strict=True)
        ]
        query["category"] = "person" if all(is_person for _, is_person in places) else "assistant"
        return dict(query)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="a data set of talks, such as locomo_all")
    parser.add_argument("into", type=Path)
    parser.add_argument("--form", action="append", choices=FORMS)
    arguments = parser.parse_args()
    for form in arguments.form or FORMS:
        for queries in sorted(arguments.data.glob("*/queries.jsonl")):
            Talks(queries.parent, form).write(arguments.into / form / queries.parent.name)


if __name__ == "__main__":
    main()
