"""How often talk that promises nothing is taken for a request or a promise to remember, by language.

    python -m benchmarks.false_alarms FOLDER [--show]

`FOLDER` holds checkouts of public dialogues; a turn is a line of one person and the answer of the other:

- `XDailyDialog` (`liuzeming01/XDailyDialog`): everyday talk in English, German, Italian and Chinese
- `Xpersona` (`HLTCHKUST/Xpersona`): strangers who tell of themselves, in French, Italian, Japanese, Korean,
  Chinese
- `chat-task-2024-data` (`selBaez/chat-task-2024-data`): customers and support, in German, French, Portuguese,
  Dutch and Korean
- `chatterbot-corpus` (`gunthercox/chatterbot-corpus`): small talk with a bot, here Spanish and Russian
- `NLP_Datasets` (`Koziev/NLP_Datasets`): dialogues of Russian jokes

An alarm is a turn of which `promised` would keep something, or say that nothing was kept. Most are requests
of people to each other ("don't forget your umbrella"), which nobody sends to an assistant; they count.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import yaml

from nacre.runtime.turn.promises import promised

Turn = tuple[str, str, str]
"""Language, what one says, what the other answers."""

_CHATTERBOT = {"spanish": "es", "russian": "ru"}
_PERSONA = {"Fr": "fr", "It": "it", "Jp": "ja", "Ko": "ko", "Zh": "zh"}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--show", action="store_true", help="list the alarms")
    given = options.parse_args()
    turns, asked, claimed = Counter[str](), Counter[str](), Counter[str]()
    for language, said, answer in dict.fromkeys(_turns(given.folder)):
        turns[language] += 1
        kept, is_asked = promised(said, answer)
        if kept or is_asked:
            (asked if is_asked else claimed)[language] += 1
            if given.show:
                print(f"{language}: {said[:140]!r} | {answer[:80]!r} | {kept[:80]!r}")
    print("| language | turns | as a request | as a claim | one in |\n|---|---|---|---|---|")
    for language, count in turns.most_common():
        alarms = asked[language] + claimed[language]
        rate = f"{count / alarms:,.0f}" if alarms else "-"
        print(f"| {language} | {count:,} | {asked[language]} | {claimed[language]} | {rate} |")


def _turns(folder: Path) -> Iterator[Turn]:
    for path in sorted(folder.glob("XDailyDialog/data/??_*_human.txt")):
        for line in path.read_text("utf-8").splitlines():
            parts = [part for part in line.split("__eou__") if "\t" not in part]
            yield from _talk(path.name[:2], parts)
    for path in sorted(folder.glob("Xpersona/dataset/*_human_annotated.json")):
        language = _PERSONA.get(path.name[:2])
        for dialogue in json.loads(path.read_text("utf-8")) if language else ():
            parts = [_written(part) for pair in dialogue["dialogue"] for part in pair]
            yield from _talk(language or "", parts)
    for path in sorted(folder.glob("chat-task-2024-data/train/en-*.csv")):
        yield from _support(path)
    for path in sorted(folder.glob("chatterbot-corpus/chatterbot_corpus/data/*/*.yml")):
        if language := _CHATTERBOT.get(path.parent.name):
            for parts in yaml.safe_load(path.read_text("utf-8"))["conversations"]:
                yield from _talk(language, map(str, parts))
    for path in folder.glob("NLP_Datasets/Conversations/Data/extract_dialogues_from_anekdots.tar.xz"):
        with tarfile.open(path) as packed:
            for member in packed:
                text = file.read().decode("utf-8") if (file := packed.extractfile(member)) else ""
                for block in re.split(r"\n\s*\n", text):
                    yield from _talk("ru", (line.lstrip("- ") for line in block.splitlines()))


def _talk(language: str, parts: Iterable[str]) -> Iterator[Turn]:
    for said, answer in pairwise(part.strip() for part in parts):
        if said and answer:
            yield language, said, answer


def _written(text: str) -> str:
    """Without the spaces between the signs of a language that writes none."""
    return re.sub(r"(?<=[\u3040-\u9fff]) (?=[\u3040-\u9fff])", "", text)


def _support(path: Path) -> Iterator[Turn]:
    """Each customer's lines with the next lines of the support, all in the customer's language."""
    talks: dict[str, list[list[str]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            text = row["reference" if row["source_language"] == "en" else "source"]
            talk = talks.setdefault(row["doc_id"], [])
            if talk and talk[-1][0] == row["sender"]:
                talk[-1][1] += f"\n{text}"
            else:
                talk.append([row["sender"], text])
    for talk in talks.values():
        for (sender, said), (_, answer) in pairwise(talk):
            if sender == "customer":
                yield path.stem[3:], said, answer


if __name__ == "__main__":
    main()
