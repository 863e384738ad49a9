"""Of two values of one thing the newer one first, and what was not liked is not what was liked."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.memory.contracts.records import SearchReport
from tests.memory.doubles import WordEmbedder
from tests.memory.search.test_same_words import search

OLDER, NEWER, LATEST = "2026-01-12", "2026-05-02", "2026-09-18"


def superseded(report: SearchReport) -> dict[str, list[tuple[int, str]]]:
    """What of each hit is superseded, by its path."""
    return {hit.path: [(old.line, old.by) for old in hit.superseded] for hit in report.hits}


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        (
            "what is my address?",
            "- My address is Gartenweg 7, Leipzig.",
            "- We moved: my address is now Hafen 2.",
        ),
        (
            "staging password hint",
            "- Staging password hint: first pet.",
            "- **Staging password hint:** old street",
        ),
        (
            "what coffee does Ada drink?",
            "- Ada drinks flat white with milk.",
            "- Ada drinks only espresso now.",
        ),
        ("who is my dentist?", "- My dentist is Dr. Blum.", "- New: my dentist is Dr. Yilmaz since May."),
        ("does the club use Slack?", "- The club uses Slack.", "- The club is no longer using Slack."),
        ("Wer ist mein Zahnarzt?", "- Mein Zahnarzt ist Dr. Blum.", "- Mein Zahnarzt ist jetzt Dr. Yilmaz."),
        ("¿cuál es mi dirección?", "- Mi dirección es calle Sol 7.", "- Mi dirección ahora es calle Luna 2."),
        ("рабочий телефон", "- Рабочий телефон: 555-01-32", "- Новый рабочий телефон: 555-77-10"),
        ("我的地址是什么？", "- 我的地址是杭州路5号。", "- 我的地址现在是上海路7号。"),
        ("ゲートの暗証番号", "- ゲートの暗証番号は4711。", "- ゲートの暗証番号は5822。"),
        ("which rack is larch in?", "| larch | R3 |", "| larch | R7 |"),
    ],
)
async def test_the_newer_value_comes_first(tmp_path: Path, question: str, older: str, newer: str) -> None:
    """Whichever has more of the question; the older one stays, and its line is marked with the newer one."""
    notes = {OLDER: f"# {OLDER}\n\n{older}\n", NEWER: f"# {NEWER}\n\n- Rain all day.\n{newer}\n"}
    report = await search(tmp_path, question, **notes)

    assert [hit.path for hit in report.hits] == [f"memory/{NEWER}.md", f"memory/{OLDER}.md"]
    assert superseded(report)[f"memory/{OLDER}.md"] == [(3, f"memory/{NEWER}.md#L4")]
    assert superseded(report)[f"memory/{NEWER}.md"] == []
    scores = [hit.score for hit in report.hits]
    assert scores == sorted(scores, reverse=True)


async def test_the_headings_that_nacre_writes_say_nothing(tmp_path: Path) -> None:
    """One value was noted by a tool, the other by a flush, and it says why there is none."""
    older = "## Noted at 09:30\n\n- Ada's boat: Petrel, since 2026-01-12\n"
    newer = "## Notes of the conversation\n\n- Ada's boat: none; 'Petrel' was a mistake\n"
    report = await search(tmp_path, "What is Ada's boat called?", **{OLDER: older, NEWER: newer})

    assert [hit.path for hit in report.hits] == [f"memory/{NEWER}.md", f"memory/{OLDER}.md"]
    assert superseded(report)[f"memory/{OLDER}.md"] == [(3, f"memory/{NEWER}.md#L3")]


async def test_each_older_value_names_the_latest(tmp_path: Path) -> None:
    """Three values in a row stand in the order of their days, the latest first."""
    days = {OLDER: "tulip", NEWER: "rose", LATEST: "lily"}
    report = await search(
        tmp_path, "wifi password", **{day: f"- Wifi password: {word}" for day, word in days.items()}
    )

    assert [hit.path for hit in report.hits] == [f"memory/{day}.md" for day in (LATEST, NEWER, OLDER)]
    latest = [(1, f"memory/{LATEST}.md#L1")]
    assert superseded(report) == {
        f"memory/{LATEST}.md": [],
        f"memory/{NEWER}.md": latest,
        f"memory/{OLDER}.md": latest,
    }


async def test_days_inside_of_one_file_count(tmp_path: Path) -> None:
    """Below headings with days; and of one day what was written further down."""
    text = f"# Network\n\n## {OLDER}\n\n- Wifi password: tulip\n\n## {NEWER}\n\n- Wifi password: rose\n"
    report = await search(tmp_path, "wifi password", network=text)

    assert [old.by for hit in report.hits for old in hit.superseded] == ["memory/network.md#L9"]


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        ("ssh port", "## Atelier\n\n- port: 2222", "## Meridian\n\n- port: 2299"),
        ("ssh port", "- Atelier\n  - ssh port: 2222", "- Meridian\n  - ssh port: 2299"),
        ("who is my dentist?", "- My dentist is Dr. Blum.", "- My dentist is Dr. Blum in Kiel."),
        ("dentist", "- Dentist: check-up, two small holes found.", "- Dentist: filling, upper left."),
        ("what did Ada say?", "- Ada: Great! I love my new bike.", "- Ada: Never again! That bike hurts."),
        ("plumber", "- Plumber Kessler replaced the tap.", "- Plumber Kessler cleaned the drain."),
        ("what is Wilf allergic to?", "- Wilf is allergic to nuts.", "- Wilf is allergic to cats."),
        ("wer ist Lasse?", "- Lasse ist ein Segler.", "- Lasse ist ein Imker."),
    ],
)
async def test_what_only_looks_alike_is_not_superseded(
    tmp_path: Path, question: str, older: str, newer: str
) -> None:
    """Things under other headings, a value told at more length, what happened twice, talk, and states."""
    notes = {OLDER: f"# {OLDER}\n\n{older}\n", NEWER: f"# {NEWER}\n\n{newer}\n"}
    report = await search(tmp_path, question, **notes)

    assert len(report.hits) == 2
    assert not any(superseded(report).values())


async def test_without_days_nobody_knows_what_is_newer(tmp_path: Path) -> None:
    """Two notes without a day are both shown as they are."""
    report = await search(
        tmp_path, "wifi password", home="- Wifi password: tulip", club="- Wifi password: rose"
    )

    assert superseded(report) == {"memory/home.md": [], "memory/club.md": []}


async def test_a_question_about_a_day_is_answered_with_that_day(tmp_path: Path) -> None:
    """The older value stays first where it was asked for, and is marked all the same."""
    notes = {OLDER: "- Wifi password: tulip\n", NEWER: "- Wifi password: rose\n"}
    report = await search(tmp_path, "wifi password in January 2026", **notes)

    assert report.hits[0].path == f"memory/{OLDER}.md"
    assert report.hits[0].superseded[0].by == f"memory/{NEWER}.md#L1"


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("which restaurant did I not like?", "bad"),
        ("which restaurant did I like?", "good"),
        ("what restaurant didn't I like", "bad"),
    ],
)
async def test_did_not_like_is_not_liked(tmp_path: Path, question: str, first: str) -> None:
    """What says the contrary of what is asked stands behind, though it has more of the question's words."""
    notes = {
        "good": "- The ramen restaurant was great, I like it.\n",
        "bad": "- Did not like the new Thai place, too sweet.\n",
    }
    report = await search(tmp_path, question, **notes)

    assert report.hits[0].path == f"memory/{first}.md"
    assert len(report.hits) == 2


@pytest.mark.parametrize(
    ("question", "good", "bad"),
    [
        ("Was mag Ada nicht?", "- Ada mag Oliven und Käse.", "- Ada mag Kapern nicht."),
        ("Чего Ада не любит?", "- Ада любит оливки и сыр.", "- Ада не любит каперсы."),
        ("我不喜欢什么菜？", "- 我喜欢泰国菜和川菜。", "- 我不喜欢日本菜。"),
    ],
)
async def test_not_in_other_languages(tmp_path: Path, question: str, good: str, bad: str) -> None:
    """A "not" stands before the verb in some languages and behind it in others."""
    report = await search(tmp_path, question, good=good, bad=bad)

    assert report.hits[0].path == "memory/bad.md"


async def test_who_asks_whether_is_told_that_it_is_not_so(tmp_path: Path) -> None:
    """The answer "no" has more of the question than anything that says yes to something else."""
    notes = {"good": "- I like the ramen place.\n", "bad": "- Did not like the Thai place.\n"}
    report = await search(tmp_path, "Did I like the Thai place?", **notes)

    assert report.hits[0].path == "memory/bad.md"


@pytest.mark.parametrize(
    ("question", "older", "newer", "is_marked"),
    [
        (
            "What is Greta's car?",
            "- Long call tonight. Greta's car is Fiat, which I did not know! We laughed.",
            "- Greta wrote. Great news! Greta's car is Skoda, and that went fast.",
            True,
        ),
        ("What does Kofi drive?", "- Kofi drives a Golf.", "- Kofi sold it and drives a Volvo.", True),
        ("What does it build on?", "- The shop builds on Travis.", "- The shop builds on Drone.", False),
    ],
)
async def test_talk_and_verbs_are_compared(
    tmp_path: Path, question: str, older: str, newer: str, is_marked: bool
) -> None:
    """The later of two hits that answer as well comes first; another value of a thing marks the older one."""
    notes = {OLDER: f"# {OLDER}\n\n{older}\n", NEWER: f"# {NEWER}\n\n- Rain all day.\n{newer}\n"}
    report = await search(tmp_path, question, **notes)

    assert [hit.path for hit in report.hits] == [f"memory/{NEWER}.md", f"memory/{OLDER}.md"]
    assert bool(superseded(report)[f"memory/{OLDER}.md"]) is is_marked


async def test_two_people_may_say_my(tmp_path: Path) -> None:
    """What one says of "my dentist" does not contradict what another says of theirs."""
    notes = {OLDER: "- Ada: my dentist is Dr. Blum.", NEWER: "- Marco: my dentist is Dr. Yilmaz."}
    report = await search(tmp_path, "dentist", **notes)

    assert len(report.hits) == 2
    assert not any(superseded(report).values())


async def test_a_question_about_a_day_is_answered_with_what_was_so_then(tmp_path: Path) -> None:
    """Told earlier and not yet corrected on the day that is named, in either order of relevance."""
    notes = {OLDER: "- Wifi password: tulip\n", NEWER: "- New wifi password: rose, ask me for the password\n"}
    report = await search(tmp_path, "what was the wifi password in March 2026?", **notes)

    assert [hit.path for hit in report.hits] == [f"memory/{OLDER}.md", f"memory/{NEWER}.md"]


@pytest.mark.parametrize("question", ["Who is Greta's dentist?", "dentist Greta"])
async def test_a_log_stands_before_a_page_without_days(tmp_path: Path, question: str) -> None:
    """Nothing is marked, because the page may have been written later."""
    page = "# Greta\n\nGreta's dentist is Dr. Blum.\n"
    notes = {"greta": page, NEWER: "- Greta's dentist is Dr. Yilmaz.\n"}
    report = await search(tmp_path, question, **notes)

    assert [hit.path for hit in report.hits] == [f"memory/{NEWER}.md", "memory/greta.md"]
    assert not any(superseded(report).values())


async def test_the_words_of_a_day_are_not_what_a_line_must_have(tmp_path: Path) -> None:
    """A line in other words than the question is compared although it names no month, but not marked."""
    notes = {OLDER: "- Greta's home town: Kiel\n- Rain, garden, soup\n", NEWER: "- Greta's home town: Bonn\n"}
    report = await search(tmp_path, "Where did Greta live in March 2026?", **notes)

    assert [hit.path for hit in report.hits] == [f"memory/{OLDER}.md", f"memory/{NEWER}.md"]
    assert not any(superseded(report).values())


@pytest.mark.parametrize(("person", "first"), [("Elif", NEWER), ("Dario", "elif")])
async def test_a_log_that_tells_of_a_change_stands_before_the_page(
    tmp_path: Path, person: str, first: str
) -> None:
    """The page names its person in a heading alone; a change of somebody else's changes nothing."""
    page = "# Elif\n\nfavourite coffee: cappuccino\n"
    log = f"- {person} told me that the favourite coffee changed. It is filter now!\n- Elif came.\n"
    report = await search(tmp_path, "How does Elif take coffee?", elif_=page, **{NEWER: log})

    assert report.hits[0].path == f"memory/{first}.md".replace("elif", "elif_")
    assert not any(superseded(report).values())


@pytest.mark.parametrize(("person", "first"), [("Ada", NEWER), ("Dario", "ada")])
@pytest.mark.parametrize(
    ("question", "page", "log"),
    [
        (
            "Where does Ada live?",
            "# Ada\n\nhome town: Kiel",
            "{} told me that the home town changed. It is Bonn now!",
        ),
        ("What does Ada drive?", "Ada's car: Twingo", "{} switched the car from Twingo to Zoe."),
    ],
)
async def test_a_change_is_told_in_other_words_than_the_question(
    tmp_path: Path, question: str, page: str, log: str, person: str, first: str
) -> None:
    """A name and the thing or its old value suffice for a place before it, not for a mark."""
    report = await search(tmp_path, question, ada=page, **{NEWER: f"- Ada came.\n- {log.format(person)}\n"})

    assert report.hits[0].path == f"memory/{first}.md"
    assert not any(superseded(report).values())


@pytest.mark.parametrize("is_same", [True, False])
@pytest.mark.parametrize(
    ("question", "person", "other", "page", "log"),
    [
        (
            "Where does Selma's dog stay when she travels?",
            "Selma",
            "Dario",
            "Her dog stays with the neighbor when she travels.",
            "{} takes the dog to a kennel when she travels.",
        ),
        (
            "Was liest Uwe vor dem Schlafen?",
            "Uwe",
            "Egon",
            "Liest vor dem Schlafen Krimis.",
            "{} liest vor dem Schlafen Lyrik.",
        ),
        (
            "which locker does ada have?",
            "Ada",
            "Dario",
            "Ada has locker 205, near the door.",
            "{} was given locker 91.",
        ),
        ("思思出差时狗放在哪里？", "思思", "国强", "出差时狗放在邻居家。", "{}出差时把狗送到宠物店。"),
        # German has other words in capitals too.
        (
            "Welche Tropfen nimmt Carla?",
            "Carla",
            "Dario",
            "Nimmt Tropfen gegen Husten, Eukalin.",
            "{} verträgt die Tropfen Eukalin nicht, es gab Salvin.",
        ),
        # The words have other ends.
        (
            "Czym jeździ Hania?",
            "Hania",
            "Dario",
            "Jeździ tramwajami do pracy.",
            "{} jeździ rowerem zamiast tramwajem.",
        ),
        # The name stands behind an elision.
        (
            "Où est le double des clés d'Odile ?",
            "Odile",
            "Fatou",
            "Le double des clés est chez le gardien.",
            "{} a repris le double des clés au gardien.",
        ),
        # Of the pairs of characters in the question, the notes have two.
        ("大伟开什么车？", "大伟", "国强", "开一辆本田。", "{}卖了本田，换了比亚迪。"),
        (
            "Quando Dalva toma o remédio?",
            "Dalva",
            "Jandira",
            "Toma o remédio à noite.",
            "{} toma o remédio cedo.",
        ),
        # There are no capitals.
        ("في أي يوم تدريب زياد؟", "زياد", "وائل", "تدريب كرة القدم يوم الاثنين.", "{} يتدرب يوم الخميس."),
        (
            "When is the planning call with Nadia?",
            "Nadia",
            "Dario",
            "The planning call with her is at nine.",
            "{} has the planning call at ten.",
        ),
    ],
)
async def test_what_was_told_later_in_the_same_words_comes_first(
    tmp_path: Path, question: str, person: str, other: str, page: str, log: str, is_same: bool
) -> None:
    """Of the same person, though nothing says that it has changed; nothing is marked, both may be true."""
    told = f"- Rain all day.\n- {log.format(person if is_same else other)}\n"
    report = await search(
        tmp_path, question, embedder=WordEmbedder(), page=f"# {person}\n\n{page}\n", **{NEWER: told}
    )

    assert report.hits[0].path == (f"memory/{NEWER}.md" if is_same else "memory/page.md")
    assert not any(superseded(report).values())


async def test_a_question_may_end_with_the_arabic_mark(tmp_path: Path) -> None:
    """What was told later comes first, as for other question marks."""
    notes = {OLDER: "- سلمى تعمل في مكتبة الجامعة.\n", NEWER: "- سلمى تعمل في البلدية.\n"}
    report = await search(tmp_path, "أين تعمل سلمى في الجامعة؟", embedder=WordEmbedder(), **notes)

    assert report.hits[0].path == f"memory/{NEWER}.md"


async def test_where_words_touch_latin_words_and_numbers_are_what_a_question_is_about(tmp_path: Path) -> None:
    """学校 alone is not enough for a later line."""
    told = ("- Redisの設定を学校に変更した。時間がかかった。", "- 学校に笔を注文した。時間がかかった。")
    notes = dict(zip((OLDER, NEWER), told, strict=True))
    report = await search(tmp_path, "学校のRedisはどうなった？", embedder=WordEmbedder(), **notes)

    assert report.hits[0].path == f"memory/{OLDER}.md"


async def test_later_talk_about_the_same_person_replaces_nothing(tmp_path: Path) -> None:
    """The name, and the heading that the notes of all sessions have, are no words in common."""
    said = {
        OLDER: "Remember that Anahit is allergic to wool.",
        NEWER: "Went swimming with Anahit, forty lanes.",
        "2026-05-01": "Had coffee with Anahit, the milk was sour.",
    }
    notes = {
        day: f"# Session: {day} 09:20:00 UTC\n\n## Conversation Summary\n\n> User: {text}\n"
        for day, text in said.items()
    }
    report = await search(tmp_path, "What is Anahit allergic to?", embedder=WordEmbedder(), **notes)

    assert report.hits[0].path == f"memory/{OLDER}.md"


async def test_what_is_told_twice_corrects_nothing(tmp_path: Path) -> None:
    """The line of an older hit that is compared is the one with most of the question."""
    older = "- Ada asked for the recipe of the soup.\n- Ada learns the cello on Tuesdays.\n"
    notes = {OLDER: older, NEWER: "- Ada asked for the recipe of the soup.\n- Rain.\n"}
    embedder = WordEmbedder()
    report = await search(tmp_path, "What does Ada learn?", embedder=embedder, **notes)

    assert report.hits[0].path == f"memory/{OLDER}.md"


@pytest.mark.parametrize(
    "question", ["Where do I live?", "Wo wohne ich?", "¿Dónde está mi casa?", "我住在哪里？"]
)
async def test_a_question_in_the_first_person_is_about_the_owner(tmp_path: Path, question: str) -> None:
    """What notes say of the owner stands before where others live."""
    others = ("Anna lives in Kiel", "Boris wohnt in Bonn", "La casa de Celia está en Vigo", "大伟住在杭州")
    notes = {f"2026-02-{day:02}": f"- {others[day % 4]}, {day}\n" for day in range(1, 29)}
    report = await search(tmp_path, question, **notes, facts="- The owner's home: Rostock\n")

    assert report.hits[0].path == "memory/facts.md"


@pytest.mark.parametrize(("person", "is_found"), [("Ada", True), ("Dario", False)])
async def test_a_change_far_behind_is_fetched_if_its_vector_is_near(
    tmp_path: Path, person: str, is_found: bool
) -> None:
    """It has no word of the question but the name, and stands behind more hits than a search returns."""
    embedder = WordEmbedder(synonyms={"moved": "live", "lane": "street"})
    others = " ".join(f"{letter}{letter}" for letter in "bcdefghijklm")
    notes = {f"2025-12-{day:02}": f"- Ada, Ada, street, live, {others} {day}" for day in range(1, 21)}
    notes |= {OLDER: "- Ada and street: live", NEWER: f"- {person} moved lane now"}
    report = await search(tmp_path, "In which street does Ada live?", embedder=embedder, **notes)

    assert not report.degraded
    places = [hit.path for hit in report.hits]
    assert (f"memory/{NEWER}.md" in places[: places.index(f"memory/{OLDER}.md")]) is is_found


@pytest.mark.parametrize(
    ("question", "note", "answer"),
    [
        (
            "Which hotel did we book in Lisbon?",
            "Booked the hotel Mirador in Lisbon",
            "We booked the Mirador hotel.",
        ),
        (
            "When does the car need its inspection?",
            "Inspection of the car: October",
            "The car needs it in October.",
        ),
        (
            "Where is the spare key of the cellar?",
            "Spare key to the cellar: red shelf",
            "The key is on the shelf.",
        ),
    ],
)
@pytest.mark.parametrize("talk", ["> User: {}\n>\n> Assistant: {}\n", "user: {}\nassistant: {}\n"])
async def test_what_was_said_stands_behind_what_was_noted(
    tmp_path: Path, question: str, note: str, answer: str, talk: str
) -> None:
    """An ended session repeats the question, in the form of today and in that of its first version."""
    told = f"# Session: 2026-01-04 23:30:00 UTC\n\n## Conversation Summary\n\n{talk.format(question, answer)}"
    notes = {
        OLDER: f"- Rained all day\n- {note}, breakfast, garden, and more about it\n",
        "2026-01-04-talk": told,
    }
    report = await search(tmp_path, question, **notes)

    assert [hit.path for hit in report.hits] == [f"memory/{OLDER}.md", "memory/2026-01-04-talk.md"]


async def test_what_was_said_stands_first_if_it_alone_answers(tmp_path: Path) -> None:
    """A note that has one word of the question is not the answer."""
    told = "# Session: 2026-01-04 23:30:00 UTC\n\n> User: The dog sleeps at the neighbors.\n"
    notes = {OLDER: "- The dog was at the vet\n", "2026-01-04-talk": told}
    report = await search(tmp_path, "Where does the dog sleep?", **notes)

    assert report.hits[0].path == "memory/2026-01-04-talk.md"


@pytest.mark.parametrize(
    ("said", "note"),
    [
        ("Zoe has a boat, it is called Kittiwake.", "Wang's boat is called Seagull."),
        ("Zoe renamed the boat, it is called Nautilus now.", "Zoe's boat is called Osprey."),
    ],
)
async def test_a_note_about_somebody_else_or_before_a_change_stays_behind_what_was_said(
    tmp_path: Path, said: str, note: str
) -> None:
    """Both share as many words with the question as what was said in the session."""
    notes = {NEWER: _session(NEWER, f"> User: {said}"), OLDER: f"- {note}\n"}
    report = await search(tmp_path, "What is Zoe's boat called?", **notes)

    assert [hit.path for hit in report.hits] == [f"memory/{NEWER}.md", f"memory/{OLDER}.md"]


async def test_what_two_people_share_with_a_question_about_a_third_marks_nothing(tmp_path: Path) -> None:
    """A boat of one and a new name from another say nothing of the boat of a third."""
    renamed = "- Nino renamed the boat, it is called Seagull now.\n- Zoe was there.\n"
    notes = {OLDER: "- Wang's boat is called Seagull.\n", NEWER: renamed}
    report = await search(tmp_path, "What is Zoe's boat called?", **notes)

    assert not any(superseded(report).values())


async def test_of_two_notes_of_one_day_none_is_out_of_date(tmp_path: Path) -> None:
    """Nobody knows which was written later."""
    boats = {NEWER: "- Zoe's boat is called Seagull.\n", f"{NEWER}-b": "- Zoe's boat is called Kittiwake.\n"}
    report = await search(tmp_path, "What is Zoe's boat called?", **boats)

    assert superseded(report) == {f"memory/{NEWER}.md": [], f"memory/{NEWER}-b.md": []}


@pytest.mark.parametrize(
    ("asked", "older", "newer", "is_marked"),
    [
        ("birthday", "> User: {}'s birthday is on July 9.", "> User: Bo's birthday is on May 3.", False),
        ("boat", "> User: {}'s boat came, it is called Pilot", "> User: It is called Ibis, Bo's boat", False),
        ("birthday", "> User: Note: {}'s birthday is July 9", "> User: Note: Bo's birthday is May 3.", False),
        ("car", "> User: {}'s car is a Leaf.", "- {}'s car: Leaf, since 2026-05-01", False),
        ("car", "- {}'s car: Golf, since 2026-01-11", "- {}'s car: Leaf, since 2026-05-01", True),
        ("work", "> User: Please note: {} works at Rewe", "> User: By the way, {} works at Bosch now", True),
    ],
)  # fmt: skip
async def test_quotes_in_the_notes_of_sessions(
    tmp_path: Path, asked: str, older: str, newer: str, is_marked: bool
) -> None:
    """Who speaks, how a sentence is opened, and since when a value holds are no part of what is claimed."""
    notes = {day: _session(day, line.format("Karim")) for day, line in ((OLDER, older), (NEWER, newer))}
    report = await search(tmp_path, f"What about the {asked} of Karim?", **notes)

    assert bool(superseded(report)[f"memory/{OLDER}.md"]) is is_marked


async def test_of_what_the_owner_said_the_latest_comes_first(tmp_path: Path) -> None:
    """Several lines of a note are the owner's, which is no conversation of several people."""
    told = "> User: Karim lives in {}.\n>\n> User: {}Rain all day.\n"
    values = ((OLDER, "Kiel", ""), (NEWER, "Graz", "Watered the basil, which is not doing well. " * 2))
    notes = {day: _session(day, told.format(city, more)) for day, city, more in values}
    report = await search(tmp_path, "Where does Karim live?", **notes)

    assert [hit.path for hit in report.hits] == [f"memory/{NEWER}.md", f"memory/{OLDER}.md"]


def _session(day: str, quotes: str) -> str:
    return f"# Session: {day} 09:00:00 UTC\n\n## Conversation Summary\n\n{quotes}"


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("When is Juma's birthday?", "Juma was born on April 12, in the old clinic by the harbor."),
        ("Who is Juma's employer?", "Juma works at the observatory now, behind the second hill."),
        ("Juma birthday", "Juma was born on April 12, in the old clinic by the harbor."),
    ],
)
async def test_the_thing_that_is_asked_for_precedes_others_of_the_same_person(
    tmp_path: Path, asked: str, answer: str
) -> None:
    """Also where many notes about another thing are nearer to the question."""
    phones = {f"2026-02-{day}": f"- Juma's phone number is 555-10{day}.\n" for day in range(10, 18)}
    report = await search(tmp_path, asked, **{"2026-01-05": f"- {answer}\n"}, **phones)

    assert report.hits[0].path == "memory/2026-01-05.md"


@pytest.mark.parametrize(
    ("asked", "who"),
    [
        *((text, "Ander") for text in ("Ander's boat", "Ander boat", "What is Ander's boat called?")),
        # Notes call the person who asks the owner.
        *((text, "The owner") for text in ("my boat", "owner boat", "owner's boat")),
        ("What is my boat called?", "The owner"),
    ],
)
async def test_a_few_words_ask_for_what_is_so_now(tmp_path: Path, asked: str, who: str) -> None:
    """Models search with key words as often as with questions."""
    renamed = f"- {who} renamed the boat, it is called Kittiwake now.\n"
    notes = {OLDER: f"- {who}'s boat is called Seagull.\n", NEWER: renamed}
    report = await search(tmp_path, asked, **notes)

    assert [hit.path for hit in report.hits] == [f"memory/{NEWER}.md", f"memory/{OLDER}.md"]
