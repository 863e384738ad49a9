"""Facts that change, what was known before, and a household that two people share. Runs offline."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from nacre import Agent

SETTINGS = {
    "memory": {
        "facts": {
            "owner": "dipankar",
            "identities": {"dipankar": {"reads": ["household"]}, "anna": {"reads": ["household"]}},
        }
    }
}


async def main(state_dir: Path) -> None:
    (state_dir / "nacre.json5").write_text(json.dumps(SETTINGS))
    async with Agent.open(state_dir=state_dir, watch=False) as agent:
        memory = agent.memory
        await memory.set_fact(
            "anna", "city", "Lisbon", source="a letter", at=datetime(2024, 5, 1, tzinfo=UTC)
        )
        await memory.set_fact("anna", "city", "Porto", source="a call")
        await memory.set_fact("household", "wifi", {"name": "giraffe", "guests": True})
        chunk_id = await memory.note("household", "The plumber comes on the first Monday of the month.")

        found = await memory.recall("anna", "when does the plumber come?", k=1)
        print("known:", {fact.key: fact.value for fact in found.identity_facts})
        print("noted:", found.memory_chunks[0].note.text)
        print("by its id:", found.memory_chunks[0].note.id == chunk_id)

        then = await memory.recall("anna", "", as_of="2024-12-31")
        print("at the end of 2024:", [(fact.value, fact.source) for fact in then.identity_facts])
        stranger = await memory.recall("carl", "plumber")
        print("a stranger:", [*stranger.identity_facts, *stranger.memory_chunks])

        page = state_dir / "workspace" / "people" / "anna" / "facts.md"
        page.write_text(page.read_text().replace("- city: Porto", "- city: Braga", 1))
        (city,) = (await memory.known("anna")).facts
        print("by hand:", city.value, "·", city.source)


with TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder)))
