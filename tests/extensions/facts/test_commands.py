"""`nacre memory facts …`, over the page that people edit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import run_here
from tests.runtime.agents import write_settings


def test_facts_are_set_listed_and_forgotten(tmp_path: Path) -> None:
    """Words stay words, JSON is JSON, and the history says what was known before."""
    write_settings(tmp_path / ".nacre", {"memory": {"facts": {"owner": "dipankar"}}})
    for value in ("Lisbon", "Porto"):
        assert run_here(tmp_path, "memory", "facts", "set", "city", value).returncode == 0
    run_here(tmp_path, "memory", "facts", "set", "vegetarian", "true")
    run_here(tmp_path, "memory", "facts", "set", "pet", "cat", "--identity", "Anna")

    listed = json.loads(run_here(tmp_path, "memory", "facts", "list", "--json").stdout)
    assert [(fact["identity_id"], fact["key"], fact["value"], fact["source"]) for fact in listed] == [
        ("dipankar", "city", "Porto", "nacre memory facts"),
        ("dipankar", "vegetarian", True, "nacre memory facts"),
    ]
    history = run_here(tmp_path, "memory", "facts", "history", "city").stdout.splitlines()
    assert [line.partition(" (")[0] for line in history] == ["- city: Lisbon", "- city: Porto"]
    page = tmp_path / ".nacre" / "workspace" / "memory" / "facts.md"
    page.write_text(page.read_text().replace("city: Porto", "city Porto", 1))
    told = run_here(tmp_path, "memory", "facts", "list")
    assert "facts.md#L8 is not a fact" in told.stderr
    assert "- vegetarian: true (" in told.stdout
    assert (
        run_here(tmp_path, "memory", "facts", "forget", "vegetarian").stdout == "vegetarian is forgotten.\n"
    )
    again = run_here(tmp_path, "memory", "facts", "forget", "vegetarian")
    assert (again.returncode, again.stderr) == (1, "No 'vegetarian' is known of dipankar.\n")
    assert run_here(tmp_path, "memory", "facts", "list", "--identity", "ben").stdout == (
        "No fact is known of ben.\n"
    )


def test_a_line_that_was_set_here_says_so(tmp_path: Path) -> None:
    """The owner's word, by hand and in no chat; what was in the page before has no source."""
    page = tmp_path / ".nacre" / "workspace" / "memory" / "facts.md"
    page.parent.mkdir(parents=True)
    page.write_text("## Facts\n\n- pet: a cat\n")
    assert run_here(tmp_path, "memory", "facts", "set", "city", "Porto").returncode == 0
    lines = page.read_text().splitlines()

    told = {
        fact: json.loads(run_here(tmp_path, "memory", "why", f"memory/facts.md#L{1 + at}", "--json").stdout)
        for at, line in enumerate(lines[: lines.index("## History")])
        if (fact := line[2:6].strip()) in ("city", "pet:")
    }

    (city,), (pet,) = told["city"], told["pet:"]
    assert pet["source"] is None
    city = city["source"]
    assert (city["writtenBy"], city["saidBy"], city["audience"]) == ("hand", ["owner"], "private")
    assert "sessionKey" not in city


def test_what_cannot_be_is_a_sentence(tmp_path: Path) -> None:
    """A key, a name and a day that are none."""
    for arguments, said in (
        (("set", "a: b", "c"), "cannot be the key of a fact"),
        (("set", "a", "c", "--identity", "../x"), "cannot be an identity"),
        (("list", "--as-of", "some day"), "names no day"),
    ):
        run = run_here(tmp_path, "memory", "facts", *arguments)
        assert run.returncode == 1
        assert said in run.stderr


def test_somebody_may_have_the_name_of_a_device(tmp_path: Path) -> None:
    """No folder can be called so, and the page is in one that can."""
    run_here(tmp_path, "memory", "facts", "set", "city", "Porto", "--identity", "Aux")

    assert "city: Porto" in run_here(tmp_path, "memory", "facts", "list", "--identity", "aux").stdout


@pytest.mark.covers("FACT-8")
def test_notes_are_recalled_in_the_published_shape(tmp_path: Path) -> None:
    """A note that somebody wrote into the page is found by its words."""
    page = tmp_path / ".nacre" / "workspace" / "people" / "anna" / "facts.md"
    page.parent.mkdir(parents=True)
    page.write_text("## Facts\n\n- city: Porto\n\n## Notes\n\n- The giraffe eats leaves.\n")

    arguments = ("memory", "facts", "recall", "giraffe", "--identity", "anna")
    found = json.loads(run_here(tmp_path, *arguments, "--json").stdout)

    assert [fact["value"] for fact in found["identity_facts"]] == ["Porto"]
    (chunk,) = found["memory_chunks"]
    assert (chunk["text"], chunk["source"]) == ("The giraffe eats leaves.", "by hand")
    assert chunk["id"] in run_here(tmp_path, *arguments).stdout
