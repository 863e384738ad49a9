"""Chinese, put into English word by word."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.memory.embedders.chinese import DICTIONARY, LONGEST_WORD_CHARS, Dictionary, is_chinese, is_han

GLOSSES = "三\tthree\n会\tcan\n会议\tmeeting\n会议室\tmeeting room\n的\t\n船\tboat\n"


@pytest.fixture
def dictionary(tmp_path: Path) -> Dictionary:
    file = tmp_path / "glosses.txt"
    file.write_text(GLOSSES, encoding="utf-8")
    return Dictionary(file)


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("会议室", "meeting room"),
        ("会议，会", "meeting , can"),
        ("船的会议", "boat meeting"),
        ("用VLAN的船3条", "用 VLAN boat 3 条"),
        ("三\n船", "three boat"),
        ("船です", "船です"),
        ("a boat", "a boat"),
        ("Лодка", "Лодка"),
        ("龘𠀀船", "龘 𠀀 boat"),
        ("", ""),
    ],
)
def test_each_word_has_its_sense(dictionary: Dictionary, text: str, english: str) -> None:
    """The longest word counts, grammar is left out, and what is not Chinese or not known stays."""
    assert " ".join(dictionary.in_english(text).split()) == english


def test_lines_stay_lines(dictionary: Dictionary) -> None:
    """A Japanese line beside a Chinese one is left as it is."""
    first, second = dictionary.in_english("船\n船です").split("\n")
    assert (first.strip(), second) == ("boat", "船です")


def test_which_characters_are_chinese() -> None:
    """Those of the later planes, too; neither kana nor Hangul nor signs."""
    assert [is_han(char) for char in "船𠀀ネで배,A"] == [True, True, False, False, False, False, False]
    assert is_chinese("用VLAN")
    assert not is_chinese("船です")
    assert not is_chinese("boat")


def test_the_shipped_dictionary_is_in_order() -> None:
    """Words are looked up by halving the file: one out of order could not be found."""
    lines = DICTIONARY.read_text(encoding="utf-8").splitlines()
    words = [line.partition("\t")[0] for line in lines]
    assert words == sorted(set(words))
    assert max(map(len, words)) == LONGEST_WORD_CHARS
    assert all(is_han(word[0]) for word in words)
    dictionary = Dictionary()
    for line in lines[:: len(lines) // 500]:
        word, _, sense = line.partition("\t")
        assert dictionary.in_english(word).split() == sense.split(), word
