"""The tables of docs/settings.md, made from the settings classes: key, type, default, the words of a field.

`make fix` writes them into the page, or `python -m tests.documents.settings.settings_page`. Text outside
of the tables is written by hand.
"""

from __future__ import annotations

import re
from pathlib import Path

from nacre.cli.setup.config.commands import kind_of, meaning_of
from nacre.runtime.settings.changes import is_applied_at_next_turn
from nacre.runtime.settings.keys import Field, field_of, key_of
from nacre.runtime.settings.settings import Settings
from tests.documents.settings.settings_keys import settings_keys

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"

_TABLE = re.compile(r"<!-- settings: (?!end)([^>]+?) -->\n.*?<!-- settings: end -->", re.DOTALL)


def with_tables(text: str, rows: dict[str, str]) -> str:
    """The page with its tables made anew. Each row goes to the marker that names most of its key.

    Raises:
        ValueError: no marker names the beginning of some key.
    """
    places = [place for match in _TABLE.finditer(text) for place in match[1].split()]
    of: dict[str, list[str]] = {place: [] for place in places}
    for key, row in rows.items():
        fitting = [place for place in places if f"{key}.".startswith((f"{place}.", f"{place}[]."))]
        if not fitting:
            raise ValueError(f"docs/settings.md has no table for {key}; add a marker as the others are.")
        of[max(fitting, key=len)].append(row)
    return _TABLE.sub(lambda match: _table(match[1], of), text)


def current_rows() -> dict[str, str]:
    """The row of each key, by the key; a section whose class has its rows elsewhere is one row."""
    found = {key: (_field(key), default) for key, default in settings_keys(Settings)}
    first: dict[int, str] = {}
    for key in sorted(found, key=lambda key: key.count(".")):
        first.setdefault(id(found[key][0].info), key)
    rows = {}
    for key, (field, default) in found.items():
        section, place = (each.rpartition(".")[0] for each in (key, first[id(field.info)]))
        if section == place:
            words, shown = _words(key, field), f"`{default}`" if default else "must be set"
            rows[key] = f"| `{key}` | {kind_of(field)} | {shown} | {words} |"
        else:
            words = _words(key, _field(section.removesuffix(".<name>").removesuffix("[]")))
            rows[section] = f"| `{section}.*` | as `{place}.*` | | {words} |"
    return rows


def write(page: Path = PAGE) -> None:
    """Put the tables of this checkout into the page."""
    page.write_text(with_tables(page.read_text(encoding="utf-8"), current_rows()), encoding="utf-8")


def _table(places: str, of: dict[str, list[str]]) -> str:
    rows = [row for place in places.split() for row in of[place]]
    head = ["| Key | Type | Default | Meaning |", "|---|---|---|---|"]
    return "\n".join([f"<!-- settings: {places} -->", "", *head, *rows, "", "<!-- settings: end -->"])


def _field(key: str) -> Field:
    found = field_of(key_of(key.replace("[]", "[0]").replace("<name>", "some"), {}), Settings)
    assert found is not None, key
    return found


def _words(key: str, field: Field) -> str:
    words = " ".join(meaning_of(field).split()).replace("](settings.md#", "](#")
    assert words, f"{key} has no words below its field"
    return f"{words} *Next turn.*" if is_applied_at_next_turn(key) else words


if __name__ == "__main__":
    write()
