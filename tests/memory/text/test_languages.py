"""In which languages notes are."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nacre.memory.text.forms.words import language_of, languages_in

TEXTS = {
    "English": "- We agreed to meet at the lake on Sunday, and Ann will bring the boat.",
    "German": "- Wir haben uns für Sonntag am See verabredet, und Ann bringt das Boot mit.",
    "French": "- Nous avons rendez-vous au lac dimanche, et c'est Ann qui vient avec le bateau.",
    "Spanish": "- Quedamos el domingo en el lago y Ana viene con la barca para todos.",
    "Italian": "- Ci vediamo domenica al lago, e Anna viene con la barca che ha comprato.",
    "Portuguese": "- Combinamos domingo no lago, e a Ana vem com o barco para todos.",
    "Dutch": "- We hebben voor zondag bij het meer afgesproken en Ann komt met de boot.",
    "Polish": "- W niedzielę spotykamy się nad jeziorem, a łódź jest już przygotowana.",
    "Turkish": "- Pazar günü gölde buluşuyoruz ve tekne için bir karar var.",
    "Russian": "- Мы встречаемся в воскресенье на озере, и Аня будет с лодкой.",
    "Chinese": "- 我们星期天在湖边见面，安会带船来。",
    "Japanese": "- 日曜日に湖で会う約束をした。アンが船を持ってくる。",
    "Korean": "- 일요일에 호수에서 만나기로 했다. 안이 배를 가져온다.",
    "Arabic": "- اتفقنا على اللقاء عند البحيرة يوم الأحد.",
    "Hindi": "- हम रविवार को झील पर मिलेंगे।",
    "": "- Backup: 42, restic --prune, 10.0.0.1",
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_known_by_its_letters_and_small_words(name: str) -> None:
    """And nothing is claimed of one that has neither."""
    assert language_of(TEXTS[name]) == name


def test_languages_of_a_few_quotes_are_not_named() -> None:
    """One text in forty is no language of the notes; one in ten is."""
    english, russian = TEXTS["English"], TEXTS["Russian"]
    assert languages_in([english] * 39 + [russian]) == ("English",)
    assert languages_in([russian] + [english] * 9 + [""] * 30) == ("English", "Russian")
    assert languages_in([]) == ()


@given(st.text(max_size=80))
def test_no_text_is_too_odd(text: str) -> None:
    """Every text has one name, or none."""
    assert language_of(text) == "" or language_of(text).istitle()
