"""What a query in a script without spaces asks for."""

from __future__ import annotations

from hypothesis import given, strategies as st

from nacre.memory.text.forms.spelling import index_grams, query_grams, seamed


def test_words_that_say_nothing_are_not_asked_for() -> None:
    """Of "what cake should I buy today" the cake is left, and the buying."""
    assert query_grams("我今天应该买什么蛋糕呢") == ["买", "蛋", "糕", "蛋糕"]


def test_a_particle_is_not_joined_to_the_word_beside_it() -> None:
    """Only 认真 and 复习 are words of this query; 的认 stands in any text."""
    assert "的认" not in query_grams("这段时间的认真复习")
    assert {"时间", "认真", "复习"} <= set(query_grams("这段时间的认真复习"))


def test_a_short_query_is_a_word_whatever_it_is_made_of() -> None:
    """目的, a purpose, ends in a particle's character."""
    assert "目的" in query_grams("目的")
    assert "了解" in query_grams("了解 Nacre")


def test_whose_it_is_is_not_asked_for() -> None:
    """Of "my cat" the cat is left."""
    assert query_grams("我的猫") == ["猫"]


def test_a_query_of_such_words_alone_is_still_a_query() -> None:
    """Asking for "today" or "why" looks for these words."""
    assert query_grams("今天") == ["今天"]
    assert query_grams("为什么") == ["为什", "什么"]
    assert query_grams("的") == ["的"]


def test_chinese_stop_words_are_not_taken_out_of_japanese() -> None:
    """一般 is an adverb in Chinese and a word in Japanese; kana tells the two apart."""
    assert "一定" in query_grams("一定の金額を払う")
    assert "一定" not in query_grams("一定要付这笔金额")


@given(st.text(alphabet="今天蛋糕的了什么寿司を食べ커피สวัส abc", max_size=30))
def test_a_query_asks_only_for_what_the_index_keeps(text: str) -> None:
    """Every gram of a text is found in that text."""
    assert set(query_grams(text)) <= set(index_grams(text))


def test_another_script_begins_a_word() -> None:
    """Where scripts meet there is a blank, whichever comes first; one script is never cut."""
    assert seamed("用Python写") == "用 Python 写"
    assert seamed("建于1885年, 用128GB내存") == "建于 1885 年, 用 128GB 내存"
    assert seamed("修复#123问题") == "修复 #123 问题"
    assert seamed("気温は38.5度") == "気温は 38.5 度"
    for text in ("plain words 12", "Жёлтый 12 дом", "東京タワー", "데이터베이스를"):
        assert seamed(text) == text


@given(st.text(st.sampled_from("用写年ひカ한ไa9#@$_-. \n")))
def test_a_seam_adds_blanks_and_nothing_else(text: str) -> None:
    """What was written stays as it was; looking a second time changes nothing."""
    found = seamed(text)

    assert found.replace(" ", "") == text.replace(" ", "")
    assert found.count("\n") == text.count("\n")
    assert seamed(found) == found
