"""Whether a corrected fact is found before the one that it corrects, by wording, and what is marked as old.

    python -m benchmarks.corrections [--misses] [--unseen | --third | --fourth | --fifth | --sixth]

Each half of the wordings in `data/corrections.toml` makes one memory: facts told in January or February,
corrected from May to September, in daily logs among other lines, on a page under headings with days, or on a
page without days and then in a log. Asked on 2026-11-20: whether the newer line is first, whether the older
one is marked, whether `as_of` 15 April gives the older one, whether "in March" does, and how many lines are
marked that are not the older one of a pair. `--misses` lists them, never those of the half that is held out.

`--unseen` asks about `corrections_2.toml` instead: one memory for each of five languages, of corrected facts
and of pairs of lines that are both true. Of these, "newer first" counts those with both lines among the hits.
`--third` asks about such pairs in `corrections.toml` and `--fourth` about those of six languages in
`corrections_2.toml`, whose misses may be read, `--fifth` about those of six languages whose misses may not,
`--sixth` about as many corrected facts as pairs that both hold.
"Still first" is asked of a memory without the corrections: whether a fact that holds stays before what else
was told of that person.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from nacre.extensions.providers.embedding.open_embedder import embedder_for
from nacre.memory.contracts.records import SearchHit, SearchReport
from nacre.memory.contracts.settings import resolve_settings
from nacre.memory.engine import MemoryEngine
from nacre.memory.workspace.folder import FolderWorkspace

DATA, UNSEEN = (
    tomllib.loads((Path(__file__).parent / "data" / name).read_text(encoding="utf-8"))
    for name in ("corrections.toml", "corrections_2.toml")
)
OTHERS: Mapping[str, Mapping[str, Any]] = {
    "third": DATA["third"],
    **{name: UNSEEN.pop(name) for name in ("fourth", "fifth", "sixth")},
    "unseen": UNSEEN,
}
HALVES = ("seen", "held_out")
KINDS = (
    *(
        "label",
        "is_now",
        "from_to",
        "negation",
        "sentences",
        "verbs",
        "german",
        "other",
        "page_log",
        "one_page",
    ),
)
PER_KIND = 16
MEMORY = 20
"""Pairs, and people, in one memory."""
FREE_DAYS = 0.6
"""The share of days without a log, unless a fact was told."""
AS_OF = date(2026, 4, 15)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A fact that was told on `told` and corrected on `corrected`; without `was`, both lines are true."""

    kind: str
    layout: str
    person: str
    older: str
    newer: str
    ask: str
    was: str
    told: date
    corrected: date


def pairs(half: str, chance: random.Random) -> list[Pair]:
    """The pairs of one half, in an order by chance; each of `MEMORY` neighbors is about another person."""
    wanted = [(kind, at) for at in range(PER_KIND) for kind in KINDS]
    chance.shuffle(wanted)
    return [
        _pair(half, kind, at, DATA["people"][number % MEMORY], chance)
        for number, (kind, at) in enumerate(wanted)
    ]


def _pair(half: str, kind: str, at: int, person: str, chance: random.Random) -> Pair:
    things = list(DATA["things"].items())
    name, thing = things[at % len(things)]
    wordings = thing[half]["verbs"] if kind == "verbs" else DATA[half][kind]
    wording = wordings[(at // len(things) + at) % len(wordings)]
    old, new = thing["values"][chance.randrange(len(thing["values"]))]
    words = {f"k_{code}": names[name] for code, names in DATA["words"].items()}
    filled = {"p": person, "o": old, "n": new, "k": thing["k"], **words}
    asks, was = thing["ask"], thing["was"]
    if code := next((code for code in DATA["words"] if f"k_{code}" in wording[0]), ""):
        asks, was = DATA["questions"][code][:1], DATA["questions"][code][1:]
        filled |= {"k": words[f"k_{code}"]}
    return Pair(
        kind=kind,
        layout=kind,
        person=person,
        older=wording[0].format(**filled),
        newer=wording[1].format(**filled),
        ask=asks[at % len(asks)].format(**filled),
        was=was[at % len(was)].format(**filled),
        told=(days := _days(chance))[0],
        corrected=days[1],
    )


def _days(chance: random.Random) -> tuple[date, date]:
    told = date(2026, 1, 3) + timedelta(days=chance.randrange(54))
    return told, date(2026, 5, 2) + timedelta(days=chance.randrange(150))


def pairs_in(rows: Mapping[str, Any], chance: random.Random) -> list[Pair]:
    """The pairs of one language in `UNSEEN` or `THIRD`; the kind of those that are both true is `both`."""
    told = []
    for section in ("corrected", "both"):
        for row in rows[section]:
            first, second = _days(chance)
            kind = "both" if section == "both" else row["layout"]
            told.append(Pair(**{"was": "", **row}, kind=kind, told=first, corrected=second))
    return told


def write(folder: Path, told: Sequence[Pair], filler: Sequence[str], chance: random.Random) -> None:
    """Daily logs and pages of these pairs; a pair without a `newer` line was never corrected."""
    logs: dict[date, list[str]] = defaultdict(list)
    pages: dict[str, list[str]] = defaultdict(list)
    for pair in told:
        match pair.layout:
            case "page_log":
                pages[pair.person] += [f"# {pair.person}", "", pair.older]
                logs[pair.corrected] += [pair.newer] if pair.newer else []
            case "one_page":
                pages[pair.person] += [f"# {pair.person}", "", f"## {pair.told}", "", pair.older]
                pages[pair.person] += ["", f"## {pair.corrected}", "", pair.newer] if pair.newer else []
            case _:
                logs[pair.told].append(pair.older)
                logs[pair.corrected] += [pair.newer] if pair.newer else []
    names = [pair.person for pair in told]
    for day in (date(2026, 1, 1) + timedelta(days=at) for at in range(280)):
        if not logs[day] and chance.random() < FREE_DAYS:
            continue
        lines = [chance.choice(filler).format(p=chance.choice(names)) for _ in range(3)] + logs[day]
        chance.shuffle(lines)
        text = f"# {day}\n\n" + "".join(f"{'' if line[0] in '-|' else '- '}{line}\n" for line in lines)
        (folder / f"{day}.md").write_text(text, encoding="utf-8")
    for name, lines in pages.items():
        (folder / f"{name.lower()}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def place_of(hits: Sequence[SearchHit], folder: Path, line: str) -> int:
    """The rank of the first hit with a line, from 0; a large number if there is none."""
    for rank, hit in enumerate(hits):
        lines = (folder / hit.path).read_text(encoding="utf-8").split("\n")[hit.start_line - 1 : hit.end_line]
        if any(line in each for each in lines):
            return rank
    return 99


@dataclass
class Counts:
    """The counts for the pairs of one wording."""

    pairs: int = 0
    newer_first: int = 0
    marked: int = 0
    as_of: int = 0
    was: int = 0
    kept: int = 0
    wrong_marks: int = 0

    def cells(self) -> str:
        counts = (self.newer_first, self.marked, self.as_of, self.was, self.kept)
        share = [f"{each / self.pairs:.2f}" for each in counts]
        return " | ".join((*share, str(self.wrong_marks)))


async def measured(
    half: str, embedder_name: str, show: bool, other: Mapping[str, Any] | None = None
) -> dict[str, Counts]:
    """Writes the memories of one half, or of one language of an `other` file, asks them, and counts."""
    counts: dict[str, Counts] = defaultdict(Counts)
    chance = random.Random({"seen": 7, "held_out": 11}.get(half, 13))
    told = pairs_in(other[half], chance) if other else pairs(half, chance)
    filler = other[half]["filler"] if other else DATA["filler"]
    for start in range(0, len(told), MEMORY):
        some = told[start : start + MEMORY]
        kept = [replace(pair, newer="") for pair in some]
        for lines, by in ((some, chance), (kept, random.Random(start))):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                (folder / "memory").mkdir()
                write(folder / "memory", lines, filler, by)
                await _memory(folder, lines, embedder_name, counts, show)
    return counts


async def _memory(
    folder: Path, told: Sequence[Pair], embedder_name: str, counts: Mapping[str, Counts], show: bool
) -> None:
    settings = resolve_settings({"provider": embedder_name, "sync": {"onSearch": False, "watch": False}})
    embedder = embedder_for(settings, {}, now_seconds=time.time, home=folder, models_folder=folder)
    engine = await MemoryEngine.open(
        workspace=FolderWorkspace(folder, lock_dir=folder / "locks"),
        index_path=folder / "index.sqlite",
        settings=settings,
        embedder=embedder,
        now=lambda: datetime(2026, 11, 20, 12, tzinfo=UTC),
    )
    corrections = [(pair.older, pair.newer) for pair in told if pair.was]
    try:
        await engine.sync(reason="benchmark")
        for pair in told:
            if pair.newer:
                await _ask(engine, folder, pair, corrections, counts[pair.kind], show)
            else:
                await _ask_for_kept(engine, folder, pair, counts[pair.kind], show)
    finally:
        await engine.close()
        if embedder is not None:
            await embedder.close()


async def _ask_for_kept(engine: MemoryEngine, folder: Path, pair: Pair, counts: Counts, show: bool) -> None:
    report = await engine.search(pair.ask)
    is_first = place_of(report.hits, folder, pair.older) == 0
    counts.kept += is_first
    counts.wrong_marks += sum(len(hit.superseded) for hit in report.hits)
    if show and not is_first:
        print(f"{pair.kind}, never corrected: {pair.ask} | {pair.older}")
        _print_hits(report)


async def _ask(
    engine: MemoryEngine,
    folder: Path,
    pair: Pair,
    corrections: Sequence[tuple[str, str]],
    counts: Counts,
    show: bool,
) -> None:
    now = await engine.search(pair.ask)
    then = await engine.search(pair.ask, as_of=AS_OF)
    march = await engine.search(pair.was or pair.ask)
    if problem := next((each.degraded for each in (now, then, march) if each.degraded), ""):
        raise SystemExit(problem)
    counts.pairs += 1
    older, newer = (place_of(now.hits, folder, line) for line in (pair.older, pair.newer))
    first = newer < older or older == newer < 99 if pair.was else max(older, newer) < 99
    counts.newer_first += first
    marks = [
        (_line(folder, hit.path, old.line), _line(folder, *_place(old.by)))
        for hit in (*now.hits, *march.hits)
        for old in hit.superseded
    ]
    counts.marked += any(pair.older in line for line, _ in marks)
    wrong = [mark for mark in marks if not any(old in mark[0] and new in mark[1] for old, new in corrections)]
    counts.wrong_marks += len(wrong)
    older, newer = (place_of(then.hits, folder, line) for line in (pair.older, pair.newer))
    as_of = older < newer and older < 3
    counts.as_of += as_of
    older, newer = (place_of(march.hits, folder, line) for line in (pair.older, pair.newer))
    was = older < newer or older == newer < 99
    counts.was += was
    if show and not (first and was and as_of and not wrong):
        print(f"{pair.kind}: {pair.ask} | {pair.older} | {pair.newer}")
        print(f"  first {first}, in March {was}, as of {as_of}, wrong marks {wrong}")
        _print_hits(now)


def _place(citation: str) -> tuple[str, int]:
    path, _, number = citation.partition("#L")
    return path, int(number)


def _line(folder: Path, path: str, number: int) -> str:
    return (folder / path).read_text(encoding="utf-8").split("\n")[number - 1]


def _print_hits(report: SearchReport) -> None:
    for hit in report.hits[:3]:
        print(f"    {hit.score:.2f} {hit.citation} {hit.snippet[:150]!r} {hit.superseded}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--misses", action="store_true", help="print the missed pairs of the seen half")
    parser.add_argument("--embedder", default="local", help="local, or none for words alone")
    parser.add_argument("--half", choices=HALVES, action="append")
    for name in OTHERS:
        parser.add_argument(f"--{name}", dest="other", action="store_const", const=name)
    arguments = parser.parse_args()
    other = OTHERS.get(arguments.other)
    print("| half | wording | newer first | older marked | as of | in March | still first | wrong marks |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for half in tuple(other) if other else arguments.half or HALVES:
        show = arguments.misses and (half == "seen" or arguments.other in ("third", "fourth", "sixth"))
        counts = asyncio.run(measured(half, arguments.embedder, show, other))
        everything = Counts()
        for kind, each in counts.items():
            print(f"| {half} | {kind} | {each.cells()} |", flush=True)
            for field in () if kind == "both" else vars(each):
                setattr(everything, field, getattr(everything, field) + getattr(each, field))
        print(f"| {half} | all | {everything.cells()} |", flush=True)


if __name__ == "__main__":
    main()
