"""Which days a question names."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, strategies as st

from nacre.memory.text.days.query_dates import DayRange, closeness, named_days, with_dates, without_dates

TODAY = date(2026, 11, 20)  # a Friday


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("what did I do yesterday?", "2026-11-19", "2026-11-19"),
        ("the day before yesterday", "2026-11-18", "2026-11-18"),
        ("on 2026-02-10", "2026-02-10", "2026-02-10"),
        ("am 10.02.2026", "2026-02-10", "2026-02-10"),
        ("on 5 May 2023", "2023-05-05", "2023-05-05"),
        ("May 5th, 2023", "2023-05-05", "2023-05-05"),
        ("on December 3", "2025-12-03", "2025-12-03"),
        ("in May 2023", "2023-05-01", "2023-05-31"),
        ("last March", "2026-03-01", "2026-03-31"),
        ("last November", "2025-11-01", "2025-11-30"),
        ("three days ago", "2026-11-17", "2026-11-17"),
        ("2 weeks ago", "2026-11-02", "2026-11-08"),
        ("last week", "2026-11-09", "2026-11-15"),
        ("last month", "2026-10-01", "2026-10-31"),
        ("last Friday", "2026-11-13", "2026-11-13"),
        ("in 2022", "2022-01-01", "2022-12-31"),
        ("vor 3 Tagen", "2026-11-17", "2026-11-17"),
        ("gestern", "2026-11-19", "2026-11-19"),
        ("il y a 2 semaines", "2026-11-02", "2026-11-08"),
        ("上周讨论了什么", "2026-11-09", "2026-11-15"),
        ("2023年5月7日", "2023-05-07", "2023-05-07"),
        ("3天前", "2026-11-17", "2026-11-17"),
        ("先月の旅行", "2026-10-01", "2026-10-31"),
        ("was haben wir vor zwei Wochen beschlossen?", "2026-11-02", "2026-11-08"),
        ("¿qué dijimos hace dos semanas?", "2026-11-02", "2026-11-08"),
        ("qu'avons-nous dit il y a deux semaines ?", "2026-11-02", "2026-11-08"),
        ("cosa abbiamo detto due settimane fa", "2026-11-02", "2026-11-08"),
        ("o que decidimos há duas semanas?", "2026-11-02", "2026-11-08"),
        ("wat zeiden we twee weken geleden", "2026-11-02", "2026-11-08"),
        ("что мы решили две недели назад?", "2026-11-02", "2026-11-08"),
        ("co ustaliliśmy dwa tygodnie temu", "2026-11-02", "2026-11-08"),
        ("iki hafta önce ne konuştuk", "2026-11-02", "2026-11-08"),
        ("两周前我们说了什么", "2026-11-02", "2026-11-08"),
        ("2주 전에 뭐라고 했지", "2026-11-02", "2026-11-08"),
        ("两个月前", "2026-09-01", "2026-09-30"),
        ("十二年前", "2014-01-01", "2014-12-31"),
        ("a couple of days ago", "2026-11-18", "2026-11-18"),
        ("vor ein paar Tagen", "2026-11-17", "2026-11-17"),
        ("what did we do last weekend", "2026-11-14", "2026-11-15"),
        ("le week-end dernier", "2026-11-14", "2026-11-15"),
        ("am Wochenende", "2026-11-14", "2026-11-15"),
        ("上周末", "2026-11-14", "2026-11-15"),
        ("geçen hafta sonu", "2026-11-14", "2026-11-15"),
        ("last summer", "2026-06-01", "2026-08-31"),
        ("last autumn", "2025-09-01", "2025-11-30"),
        ("im letzten Winter", "2025-12-01", "2026-02-28"),
        ("l'été dernier", "2026-06-01", "2026-08-31"),
        ("in the fall", "2026-09-01", "2026-11-30"),
        ("summer of 2024", "2024-06-01", "2024-08-31"),
        ("что было летом?", "2026-06-01", "2026-08-31"),
        ("zeszłej zimy", "2025-12-01", "2026-02-28"),
        ("去年夏天", "2025-06-01", "2025-08-31"),
        ("去年の春", "2025-03-01", "2025-05-31"),
        ("지난 여름", "2026-06-01", "2026-08-31"),
        ("7月に何を決めましたか", "2026-07-01", "2026-07-31"),
        ("12月", "2025-12-01", "2025-12-31"),
        ("我在二月买了什么", "2026-02-01", "2026-02-28"),
        ("去年7月", "2025-07-01", "2025-07-31"),
        ("十月二十五日", "2026-10-25", "2026-10-25"),
        ("2024년 3월 2일", "2024-03-02", "2024-03-02"),
        ("en mars", "2026-03-01", "2026-03-31"),
        ("в марте", "2026-03-01", "2026-03-31"),
        ("w zeszłym marcu", "2026-03-01", "2026-03-31"),
        ("a maggio", "2026-05-01", "2026-05-31"),
        ("Mart'ta ne aldım", "2026-03-01", "2026-03-31"),
        ("5 мая 2023", "2023-05-05", "2023-05-05"),
        ("el martes pasado", "2026-11-17", "2026-11-17"),
        ("mercoledì scorso", "2026-11-18", "2026-11-18"),
        ("в прошлый вторник", "2026-11-17", "2026-11-17"),
        ("w zeszłą środę", "2026-11-18", "2026-11-18"),
        ("terça-feira passada", "2026-11-17", "2026-11-17"),
        ("上周三", "2026-11-11", "2026-11-11"),
        ("先週の月曜日", "2026-11-09", "2026-11-09"),
        ("na semana passada", "2026-11-09", "2026-11-15"),
        ("la settimana scorsa", "2026-11-09", "2026-11-15"),
        ("на прошлой неделе", "2026-11-09", "2026-11-15"),
        ("в прошлом году", "2025-01-01", "2025-12-31"),
        ("d’octobre", "2026-10-01", "2026-10-31"),
    ],
)
@pytest.mark.covers("Q-42")
def test_days_are_read_in_many_shapes(text: str, first: str, last: str) -> None:
    """Words and numbers for a day, week, month or year become its days."""
    assert named_days(text, TODAY) == (
        DayRange(first=date.fromisoformat(first), last=date.fromisoformat(last)),
    )


@pytest.mark.parametrize(
    "text",
    [
        "may I go?",
        "march on the town",
        "2023-13-45",
        "99999 days ago",
        "room 2022",
        "il a été malade",
        "the real estate agent",
        "春子さんの電話",
        "三个朋友",
        "99月",
        "spring cleaning",
        "she may fall",
        "we sei on mart",
    ],
)
def test_what_is_no_date_is_passed_over(text: str) -> None:
    """Modal verbs, impossible days and bare numbers name nothing."""
    assert named_days(text, TODAY) == ()


@given(st.text(max_size=60), st.dates())
def test_no_text_and_no_day_is_too_odd(text: str, today: date) -> None:
    """Reading never fails, and each range runs forward."""
    assert all(days.first <= days.last for days in named_days(text, today))


def test_a_day_is_close_when_it_is_named_or_just_after() -> None:
    """Inside counts fully, the two days after a named day half, the rest and undated chunks nothing."""
    named = named_days("on 2026-02-10", TODAY)
    assert closeness(date(2026, 2, 10), named) == 1.0
    assert closeness(date(2026, 2, 12), named) == 0.5
    assert closeness(date(2026, 2, 9), named) == 0.0
    assert closeness(None, named) == 0.0
    assert closeness(date(2026, 2, 10), ()) == 0.0


def test_a_year_says_less_than_a_month() -> None:
    """A wide range lifts less."""
    assert closeness(date(2022, 5, 5), named_days("in 2022", TODAY)) == 0.5


DATED = {
    "We met yesterday and ship tomorrow.": "We met yesterday (2026-11-19) and ship tomorrow (2026-11-21).",
    "last Friday Ann called": "last Friday (2026-11-13) Ann called",
    "vor drei Tagen, und morgen früh": "vor drei Tagen (2026-11-17), und morgen früh (2026-11-21)",
    "Anna kommt morgen um neun": "Anna kommt morgen (2026-11-21) um neun",
    "le vendredi dernier": "le vendredi dernier (2026-11-13)",
    "hace dos días": "hace dos días (2026-11-18)",
    "вчера": "вчера (2026-11-19)",
    "昨天我见了安娜": "昨天 (2026-11-19)我见了安娜",
    "明日会う": "明日 (2026-11-21)会う",
    "어제 만났다": "어제 (2026-11-19) 만났다",
}
UNDATED = (
    "today",
    "last week",
    "on Friday",
    "Ich bin hier.",
    "Guten Morgen",
    "heute morgen",
    "yesterday (2026-11-19)",
    "tomorrow (Saturday)",
    "on 2026-11-20",
)


@pytest.mark.parametrize("text", DATED)
def test_words_for_days_get_their_date(text: str) -> None:
    """A note that says "tomorrow" is still true when it is read next year."""
    assert with_dates(text, TODAY) == DATED[text]
    assert without_dates(DATED[text]) == text


@pytest.mark.parametrize("text", UNDATED)
def test_what_is_dated_or_ambiguous_stays(text: str) -> None:
    """A weekday alone may be the next one, and a longer time has no one day."""
    assert with_dates(text, TODAY) == text


@given(st.text(max_size=80))
def test_dates_never_change_other_words(text: str) -> None:
    """Whatever a note says, it says afterwards."""
    assert without_dates(with_dates(text, TODAY)) == without_dates(text)
