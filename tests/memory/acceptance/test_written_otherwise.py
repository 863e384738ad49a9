"""One word or number, written in different ways in note and question, is found in either."""

from __future__ import annotations

from pathlib import Path

from tests.memory.doubles import open_engine, workspace

WRITTEN = {
    "415-555-0132": ("4155550132", "(415) 555-0132", "+1 415 555 0132"),
    "4165550199": ("416-555-0199", "who has the number (416) 555 0199?"),
    "DE89 3704 0044 0532 0130 00": ("DE89370400440532013000",),
    "GB33BUKB20201555555555": ("GB33 BUKB 2020 1555 5555 55",),
    "978-3-16-148410-0": ("9783161484100", "ISBN 978 3 16 148410 0"),
    "9780306406157": ("978-0-306-40615-7",),
    "1,249.00 EUR": ("1249", "1.249 €", "1249,00"),
    "ledger_sync": ("ledgersync", "ledger sync", "LedgerSync"),
    "HttpRetryPolicy": ("http retry policy", "http_retry_policy"),
    "Fahrräder": ("Fahrraeder", "Fahrrader"),
    "Schluessel": ("Schlüssel",),
    "Termin beim Zahnarzt": ("Zahnarzttermin",),
    "Krankenversicherungsbeiträge": ("Krankenversicherung", "Was kostet die Krankenversicherung?"),
    "Записал кошку": ("кошка", "когда кошке"),
    "крыша дома": ("дом",),
    "Купили билеты": ("билет",),
    "οι γάτες": ("γάτα",),
    "🦜 Kiwi": ("🦜", "parrot"),
    "LH 1732": ("LH1732", "when is flight LH1732?", "LH-1732"),
    "BXY1234": ("B-XY 1234", "BXY 1234"),
    "iPhone 15": ("iPhone15",),
    "room b12": ("B 12", "what is in room B 12?"),
    "gate C 47": ("C47", "gate C47"),
}


async def test_each_way_of_writing_finds_the_note(tmp_path: Path) -> None:
    """By words alone, as the first hit at the usual least score, among other notes with like words."""
    others = {f"memory/other-{at}.md": f"- Flight LH 18{at}, seat 1732, iPhone 1{at}." for at in range(40)}
    notes = {f"memory/note-{at}.md": f"- Noted: {text}." for at, text in enumerate(WRITTEN)}
    workspace(tmp_path, notes | others)
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    missed = []
    for at, (text, questions) in enumerate(WRITTEN.items()):
        for question in (text, *questions):
            report = await engine.search(question)
            if [hit.path for hit in report.hits[:1]] != [f"memory/note-{at}.md"]:
                missed.append((text, question, [(hit.path, hit.score) for hit in report.hits[:2]]))
    await engine.close()

    assert missed == []
