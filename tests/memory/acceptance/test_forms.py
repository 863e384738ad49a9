"""Numbers and names that are written otherwise than asked for, through the whole engine by words alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.memory.doubles import open_engine, workspace

NOTES = {
    "phone": "- Plumber: 415-555-0132",
    "phone-with-code": "- Ada: +1 (415) 555 0199",
    "phone-de": "- Praxis 030 12345678",
    "phone-with-zero": "- Laden +49 (0)30 8765 4321",
    "iban": "- Konto DE89 3704 0044 0532 0130 00",
    "iban-together": "- Konto FR7630006000011234567890189",
    "isbn": "- Book 978-3-16-148410-0",
    "isbn-together": "- Roman 9780306406157",
    "amount-en": "- paid 1,249.00 for the boiler",
    "amount-de": "- zahlte 3.780,50 Euro",
    "amount-fr": "- payé 5 690 euros",
    "amount-plain": "- cost 8250 dollars",
    "name-snake": "- ran ledger_sync today",
    "name-camel": "- TideWatcher crashed",
    "name-hyphen": "- the frost-gate is open",
    "name-together": "- made palegrove from scratch",
    "umlaut-spelled": "- Fahrraeder stehen im Keller",
    "umlaut": "- Schlüssel beim Nachbarn",
    "aring": "- Tur til Århus",
    "oslash-spelled": "- Ferie i Koebenhavn",
    "compound-apart": "- Termin beim Zahnarzt am Montag",
    "compound": "- Elternabend in der Schule",
    "russian": "- Кошка спит на диване",
    "greek": "- Ο σκύλος κοιμάται",
    "emoji": "- 🦜 whistles the doorbell",
    "sign-in-word": "- Valve 5❶ sticks",
    "dog": "- The dog has a new bed",
    "digits-ar": "- غرفة ٤١٢ في الفندق",
    "digits-hi": "- कमरा ७३५ में",
    "full-width": "- ＡＢＣ９８７６ is the code",
    "turkish": "- Arabanın lastiklerini değiştirdik.",
    "finnish": "- Ostimme uuden polkupyörän kaupasta",
    "hungarian": "- A kerékpárt a pincébe tettük",
}


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("4155550132", "phone"),
        ("+1 415 555 0132", "phone"),
        ("4155550199", "phone-with-code"),
        ("(415) 555-0199", "phone-with-code"),
        ("+49 30 12345678", "phone-de"),
        ("03012345678", "phone-de"),
        ("030 87654321", "phone-with-zero"),
        ("+493087654321", "phone-with-zero"),
        ("DE89370400440532013000", "iban"),
        ("FR76 3000 6000 0112 3456 7890 189", "iban-together"),
        ("fr76 3000 6000 0112 3456 7890 189", "iban-together"),
        ("9783161484100", "isbn"),
        ("978 3 16 148410 0", "isbn"),
        ("978-0-306-40615-7", "isbn-together"),
        ("1249", "amount-en"),
        ("1.249 €", "amount-en"),
        ("1 249", "amount-en"),
        ("3780", "amount-de"),
        ("3,780.50", "amount-de"),
        ("5690", "amount-fr"),
        ("5,690", "amount-fr"),
        ("8.250", "amount-plain"),
        ("8 250 $", "amount-plain"),
        ("ledgersync", "name-snake"),
        ("LedgerSync", "name-snake"),
        ("ledger-sync", "name-snake"),
        ("tide_watcher", "name-camel"),
        ("tidewatcher", "name-camel"),
        ("tide watcher", "name-camel"),
        ("frostgate", "name-hyphen"),
        ("frost_gate", "name-hyphen"),
        ("pale grove", "name-together"),
        ("pale_grove", "name-together"),
        ("PaleGrove", "name-together"),
        ("pale-grove", "name-together"),
        ("Wo sind die Fahrräder?", "umlaut-spelled"),
        ("Schluessel", "umlaut"),
        ("Aarhus", "aring"),
        ("København", "oslash-spelled"),
        ("Zahnarzttermin", "compound-apart"),
        ("Wann ist der Zahnarzttermin?", "compound-apart"),
        ("Schule Eltern Abend", "compound"),
        ("Abend der Eltern", "compound"),
        ("кошку", "russian"),
        ("собаку кошкой", "russian"),
        ("τον σκύλο", "greek"),
        ("🦜", "emoji"),
        ("parrot", "emoji"),
        ("🐕", "dog"),
        ("5❶", "sign-in-word"),
        ("412", "digits-ar"),
        ("735", "digits-hi"),
        ("abc9876", "full-width"),
        ("٤١٢", "digits-ar"),
        ("araba lastik ne zaman değişti?", "turkish"),
        ("polkupyörä", "finnish"),
        ("kerékpár", "hungarian"),
    ],
)
async def test_what_is_written_otherwise_is_found(tmp_path: Path, query: str, name: str) -> None:
    """Grouped or together, spelled out, inflected, joined, in other digits: the note is the first hit."""
    workspace(tmp_path, {f"memory/{note}.md": text for note, text in NOTES.items()})
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")

    report = await engine.search(query, min_score=0.2)

    assert [hit.path for hit in report.hits[:1]] == [f"memory/{name}.md"]
    await engine.close()
