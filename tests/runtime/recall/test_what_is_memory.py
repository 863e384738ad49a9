"""What the owner is told to have noted: own words, none of a template's."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.agents import opened, said


async def test_a_template_is_not_found_as_memory(tmp_path: Path) -> None:
    """A fresh MEMORY.md answers nothing; what was written into it is found, and the preface is not."""
    async with opened(tmp_path, None) as agent:
        before = await agent.respond(said("What are the raw notes and decisions of the owner?"))
    memory = tmp_path / "workspace" / "MEMORY.md"
    memory.write_text(memory.read_text().replace("## Decisions\n", "## Decisions\n\n- The boat is sold.\n"))
    async with opened(tmp_path, None) as agent:
        after = await agent.respond(said("What about the boat?"))

    assert before is not None
    assert after is not None
    assert "found nothing" in before.text
    line = memory.read_text().splitlines().index("- The boat is sold.") + 1
    assert f"> The boat is sold.\n> — `MEMORY.md#L{line}`" in after.text
    assert "newest wording wins" not in before.text + after.text
