"""What an index is given and what it is asked, in every script; what it finds is the stores' contract."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date

from hypothesis import example, given, strategies as st

from nacre.memory.contracts.records import Chunk
from nacre.memory.contracts.words import Atom
from nacre.memory.text.chunker import content_hash
from nacre.memory.text.forms.spelling import seamed
from nacre.memory.text.lexical import WHOLE, lexical_fields, match_query


def chunk(text: str, *, path: str = "memory/2026-02-10.md", headings: tuple[str, ...] = ()) -> Chunk:
    return Chunk(
        source="memory",
        path=path,
        start_line=1,
        end_line=1,
        text=text,
        heading_path=headings,
        date=date(2026, 2, 10),
        content_hash=content_hash(text),
        ordinal=0,
    )


def test_german_articles_are_not_english_verbs() -> None:
    """`die` is a word in an English question and an article in a German one."""
    english, german = (
        match_query("When did the plants die?"),
        match_query("Wo sind die Schlüssel für das Haus?"),
    )
    assert english is not None
    assert german is not None
    assert "die" in english.terms
    assert german.terms == ("schlüssel", "haus")


def test_what_later_stages_need_is_kept() -> None:
    """Phrases and identifiers are reported; everyday compounds are not taken for identifiers."""
    query = match_query('Why did "disk is full" come up with FOO_bar, self-care and/or e.g. v2.1 (#7)?')
    assert query is not None
    assert query.phrases == ("disk is full",)
    assert set(query.identifiers) == {"FOO_bar", "v2.1", "#7"}
    assert "did" not in query.terms


def test_each_kind_of_word_is_asked_for_in_its_way() -> None:
    """Phrases and names stand in any field, numbers of issues and pairs of characters among the parts."""
    query = match_query('see "disk is full", #12, a828e60fbc, wi-fi and 猫舌')

    assert query is not None
    assert set(query.atoms) >= {
        Atom("disk is full"),
        Atom(WHOLE + "12", "parts"),
        Atom("a828e60fbc", prefix=True),
        Atom("a828e60"),
        Atom("wi-fi"),
        Atom("wifi"),
        Atom("猫舌", "parts"),
    }


@given(st.text(max_size=80))
@example('"')
@example("\ud800\x00")
@example("\ue000")
@example('“ "half')
def test_any_text_is_a_clean_query(text: str) -> None:
    """Whatever is typed, no atom is empty, or has a quote, a control character or half of a character."""
    query = match_query(text)
    for atom in query.atoms if query is not None else ():
        assert atom.words
        assert '"' not in atom.words
        assert "\x00" not in atom.words
        atom.words.encode()


@given(
    st.lists(st.text(st.sampled_from("abzABZ09-_.é記 \t\n"), max_size=12), max_size=8).map(" ".join),
)
@example("the memorySearch of utf8 and wi-fi,e-mail")
@example("記memorySearch x-yy-zz A-bb v2 ab2")
@example("9 000")
def test_no_inner_word_is_passed_over(text: str) -> None:
    """The quick look for compound words finds what looking at every word finds."""
    inner = re.compile(r"[A-Za-z]*[a-z0-9][A-Z][A-Za-z0-9]*|[A-Za-z]{2,}[0-9]+[A-Za-z0-9]*")
    wanted = [
        part
        for word in re.findall(r"\w+", seamed(text))
        if inner.fullmatch(word)
        for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", word)
        if len(part) > 1
    ]
    wanted += map("".join, re.findall(r"\b([A-Za-z]{1,12})-([A-Za-z]{2,12})\b(?!-)", seamed(text)))

    parts = lexical_fields(chunk(text, path="memory/a.md")).parts.split()

    # Numbers have other forms, too: `9 000` is found as 9000.
    assert Counter(part for part in parts if part.isascii() and part.isalpha()) == Counter(wanted)


def test_a_very_long_query_stays_small() -> None:
    """A pasted page does not become a thousand terms."""
    query = match_query(" ".join(f"word{number}" for number in range(2000)))
    assert query is not None
    assert len(query.atoms) < 100
