"""Searching by words, in every script, through the whole engine and without an embedder."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from nacre.memory.text.lexical import LEXICAL_VERSION
from tests.memory.doubles import open_engine, workspace

NOTES = {
    "memory/english.md": "- We discussed the deployment pipelines with the API gateway team.",
    "memory/chinese.md": "- 昨天讨论了新的数据库方案,决定使用 PostgreSQL。",
    "memory/japanese.md": "- 東京タワーの近くのレストランで晩ごはんを食べました。",
    "memory/korean.md": "- 프로젝트에서 데이터베이스를 변경했습니다.",
    "memory/spanish.md": "- Reunión sobre la configuración del jardín.",
    "memory/portuguese.md": "- A reunião decidiu a migração dos usuários.",
    "memory/arabic.md": "- ناقشنا استراتيجية المشروع في الاجتماع.",
    "memory/danish.md": "- Vi købte en rød cykel til børnene.",
    "memory/swedish.md": "- Räkningen för lägenheten är betald.",
    "memory/russian.md": "- Обсудили переезд в новую квартиру.",
    "memory/hindi.md": "- बैठक में परियोजना की समय सीमा तय हुई।",
    "memory/thai.md": "- วันนี้ประชุมเรื่องงบประมาณโครงการ",
    "memory/greek.md": "- Συζητήσαμε για τη μετακόμιση στην Αθήνα.",
    "memory/code.md": "- Commit a828e60 sets memorySearch.query.hybrid;\n"
    "  FOO_bar baz-1 fails with E_CONN_RESET (#1234).",
    "memory/other-code.md": "- Commit b77aa12 sets other.key;\n"
    "  bar FOO and 1 baz are elsewhere (#1235, 1234 lines).",
}


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("what did we discuss about the deployment pipeline?", "english"),
        ("API Gateway", "english"),
        ("讨论方案", "chinese"),
        ("我们讨论了什么数据库?", "chinese"),
        ("which PostgreSQL 方案", "chinese"),
        ("東京のレストラン", "japanese"),
        ("タワー", "japanese"),
        ("프로젝트 데이터베이스", "korean"),
        ("데이터베이스", "korean"),
        ("configuracion jardin", "spanish"),
        ("¿qué decidimos sobre la configuración?", "spanish"),
        ("migracao usuarios", "portuguese"),
        ("استراتيجية المشروع", "arabic"),
        ("rod cykel", "danish"),
        ("lagenheten rakningen", "swedish"),
        ("квартира", "russian"),
        ("परियोजना", "hindi"),
        ("งบประมาณ", "thai"),
        ("ΑΘΗΝΑ", "greek"),
        ("hello world FOO_bar", "code"),
        ("FOO_bar baz-1", "code"),
        ("a828e60", "code"),
        ("a828e6", "code"),
        ("memorySearch.query.hybrid", "code"),
        ("hybrid", "code"),
        ("E_CONN_RESET", "code"),
        ("#1234", "code"),
        ('"fails with E_CONN_RESET"', "code"),
    ],
)
@pytest.mark.covers("SRCH-1", "SRCH-17", "Q-3")
async def test_every_script_is_found(tmp_path: Path, query: str, name: str) -> None:
    """SRCH-1, 17: words, parts of words, accents, names of code and hashes find their note first."""
    workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")

    report = await engine.search(query)

    assert [hit.path for hit in report.hits[:1]] == [f"memory/{name}.md"]
    await engine.close()


SEAMS = {
    "memory/python.md": "- 这个脚本用Python写。",
    "memory/tower.md": "- 那座塔建于1885年。",
    "memory/machine.md": "- 新电脑有128GB内存。",
    "memory/fever.md": "- 昨晚体温38.5度。",
    "memory/issue.md": "- 今天修复#4711问题。",
    "memory/wireless.md": "- 新しいWiFiのパスワードを変えた。",
    "memory/deploy.md": "- 서버는nginx으로 돌린다.",
    "memory/thai.md": "- ซื้อiPadใหม่เมื่อวาน",
}


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("Python", "python"),
        ("用Python写", "python"),
        ("which script is in python?", "python"),
        ("1885", "tower"),
        ("1885年建的塔", "tower"),
        ("128GB", "machine"),
        ("38.5", "fever"),
        ("#4711", "issue"),
        ("WiFi", "wireless"),
        ("nginx", "deploy"),
        ("iPad", "thai"),
    ],
)
@pytest.mark.covers("Q-3")
async def test_words_and_numbers_that_touch_another_script_are_found(
    tmp_path: Path, query: str, name: str
) -> None:
    """Latin words and digits inside Chinese, Japanese, Korean and Thai text, asked bare or in a sentence."""
    fillers = {f"memory/log-{n}.md": f"- 第{n}天开会讨论了预算和计划。" for n in range(40)}
    workspace(tmp_path, fillers | SEAMS)
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    report = await engine.search(query)
    await engine.close()

    assert [hit.path for hit in report.hits[:1]] == [f"memory/{name}.md"]


async def test_an_index_with_words_cut_otherwise_is_built_again_by_itself(tmp_path: Path) -> None:
    """An index of the version before knows no such words; the first search brings it in line."""
    workspace(tmp_path, SEAMS)
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    await engine.close()
    index = sqlite3.connect(tmp_path / "state" / "main.sqlite")
    with index:
        index.execute(
            "UPDATE meta SET value = replace(value, ?, '2:') WHERE key = 'identity.lexical'",
            (f"{LEXICAL_VERSION}:",),
        )
    index.close()
    engine = await open_engine(tmp_path)
    problem = (await engine.status()).identity_problem
    async with asyncio.timeout(60):
        status = None
        while status is None or status.identity_problem:
            # A search waits for a short sync only, and a long one ends beside it.
            await engine.search("Python")
            status = await engine.status()
    await engine.close()

    assert "lexical" in problem
    assert (status.identity_problem, status.files) == ("", len(SEAMS))
    assert status.identity["identity.lexical"].startswith(f"{LEXICAL_VERSION}:")


async def test_one_character_is_enough_of_a_question(tmp_path: Path) -> None:
    """A cat in Chinese and a cherry tree in Korean are words of one character: what stands alone is asked."""
    fillers = {f"memory/log-{n}.md": f"- 第{n}天开会讨论了预算和计划。" for n in range(40)}
    workspace(
        tmp_path, fillers | {"memory/cat.md": "- 我昨天在北京买了一只猫。", "memory/tree.md": "- 벚 나무"}
    )
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    for query, name in (("猫", "cat"), ("猫?", "cat"), ("벚", "tree")):
        assert (await engine.search(query)).hits[0].path == f"memory/{name}.md"
    await engine.close()


async def test_an_unanswerable_question_gets_nothing(tmp_path: Path) -> None:
    """SRCH-8: at the default least score, a note that shares one everyday word is noise and left out."""
    filler = {f"memory/{n}.md": f"- Walked the dog along the river, day {n}." for n in range(30)}
    workspace(tmp_path, NOTES | filler)
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")

    assert (await engine.search("which day does the quantum chromodynamics symposium begin?")).hits == ()
    await engine.close()


async def test_file_names_and_headings_count(tmp_path: Path) -> None:
    """SRCH-1: a note is found by the name of its file and by the headings above its words."""
    filler = {f"memory/{n}.md": f"- Walked the dog along the river, day {n}." for n in range(20)}
    section = "\n".join(f"- device {n} is in the hall" for n in range(60))
    workspace(
        tmp_path,
        filler | {"memory/people/lisa-meyer.md": "- likes tea", "memory/home.md": f"# Wifi\n\n{section}\n"},
    )
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")

    assert (await engine.search("lisa meyer")).hits[0].path == "memory/people/lisa-meyer.md"
    assert {hit.path for hit in (await engine.search("wifi device 59")).hits} == {"memory/home.md"}
    await engine.close()


@pytest.mark.parametrize(
    ("notes", "query", "found"),
    [
        ({"a": "- the wifi password is on the fridge"}, "where do I find the wifi password?", ["a"]),
        ({"a": "- the wifi password is on the fridge"}, "who won the world cup?", []),
        ({"a": "- my dentist is Dr. Alder", "b": "- I live in Lisbon"}, "when do I see the dentist?", ["a"]),
        ({"a": "- my dentist is Dr. Alder", "b": "- I live in Lisbon"}, "which city do I live in?", ["b"]),
        ({"a": "- my dentist is Dr. Alder", "b": "- I live in Lisbon"}, "how do I cook rice?", []),
        ({"lisa-meyer": "- likes tea"}, "lisa meyer", ["lisa-meyer"]),
        ({"zebra": "- ships on Friday", "b": "- I live in Lisbon"}, "the zebra project", ["zebra"]),
    ],
)
async def test_the_first_notes_are_found(
    tmp_path: Path, notes: dict[str, str], query: str, found: list[str]
) -> None:
    """In a new workspace, where every word is frequent, a note is shown that has the question's words, be it
    in the name of its file alone.
    """
    workspace(tmp_path, {f"memory/{name}.md": text for name, text in notes.items()})
    engine = await open_engine(tmp_path)
    report = await engine.search(query)
    await engine.close()
    assert [Path(hit.path).stem for hit in report.hits] == found


async def test_the_name_of_memory_md_is_no_evidence(tmp_path: Path) -> None:
    """That the file is called so does not make it an answer to every question about memory."""
    workspace(tmp_path, {"MEMORY.md": "- my dentist is Dr. Alder"})
    engine = await open_engine(tmp_path)

    assert (await engine.search("is there any memory of elephants?")).hits == ()
    await engine.close()
