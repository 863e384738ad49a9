"""`/v1/responses`, `/v1/models` and `/v1/embeddings` as OpenAI's own client sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers import provider_wire as wire

pytest.importorskip("starlette", reason="the extra serve is not installed: make protocols")

from tests.extensions.http.openai.test_completions import asked, sent
from tests.extensions.http.serving import served


async def test_a_response_is_gone_on_from_by_its_id(tmp_path: Path) -> None:
    """The session knows what was before; from an earlier response on it is another branch."""
    import openai

    async with asked(tmp_path) as (server, client):
        server.provider.reply("One.", usage=wire.usage(50, 2))
        first = await client.responses.create(model="main", input="Say one.", instructions="Be brief.")
        assert (first.output_text, first.status, first.usage.input_tokens) == ("One.", "completed", 50)
        server.provider.reply("Two.")
        second = await client.responses.create(model="main", input="Say two.", previous_response_id=first.id)
        assert second.previous_response_id == first.id
        assert [role for role, _ in sent(server)] == ["user", "assistant", "user"]
        server.provider.reply("NO_REPLY")  # notes of what is left are saved first
        server.provider.reply("Three.")
        await client.responses.create(model="main", input="Say three.", previous_response_id=first.id)
        assert [text for role, text in sent(server) if role == "user"][1:] == ["Say three."]
        for unknown in ("resp_elsewhere", "resp_3_bm9ib2R5"):
            with pytest.raises(openai.NotFoundError):
                await client.responses.create(model="main", input="Hi", previous_response_id=unknown)


async def test_a_conversation_goes_on_by_its_name(tmp_path: Path) -> None:
    """Streamed: events in their order, and tools as items that are done."""
    async with asked(tmp_path) as (server, client):
        server.provider.reply("ok")
        await client.responses.create(model="main", input="One.", conversation="conv_garden")
        server.provider.tool_calls(("read", {"path": "MEMORY.md"}))
        server.provider.reply("Read.")
        stream = await client.responses.create(
            model="main", input="Read it.", conversation="conv_garden", stream=True
        )
        events = [event async for event in stream]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
        response = events[-1].response
        assert [item.type for item in response.output] == ["mcp_call", "message"]
        assert (response.output[0].name, response.output[0].status) == ("read", "completed")
        assert response.output_text == "Read."
        assert "One." in str(sent(server))


async def test_what_can_be_asked_is_listed(tmp_path: Path) -> None:
    """The agent, and its model alone; another id is an error."""
    import openai

    async with asked(tmp_path) as (_, client):
        assert [model.id async for model in await client.models.list()] == ["main", "main/plain"]
        assert (await client.models.retrieve("main/plain")).id == "main/plain"
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("gpt-5")


async def test_texts_are_embedded_by_the_agents_embedder(tmp_path: Path) -> None:
    """The client asks for base64 by itself; plain numbers are the same."""
    import openai

    async with asked(tmp_path) as (_, client):
        packed = await client.embeddings.create(model="main", input=["the boat", "the shed"])
        plain = await client.embeddings.create(model="main", input="the boat", encoding_format="float")
        assert packed.data[0].embedding == pytest.approx(plain.data[0].embedding)
        assert packed.data[0].embedding != packed.data[1].embedding
        with pytest.raises(openai.BadRequestError):
            await client.embeddings.create(model="main", input=[])


async def test_a_client_that_leaves_loses_nothing(tmp_path: Path) -> None:
    """Its turn is stopped, and what it said is on disk."""
    import openai

    async with served(tmp_path) as server:
        server.provider.stall("Half of ")
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=server.owner) as client:
            stream = await client.chat.completions.create(
                model="main", messages=[{"role": "user", "content": "A long one."}], user="u", stream=True
            )
            heard = ""
            async for chunk in stream:
                heard += chunk.choices[0].delta.content or ""
                if heard.strip() == "Half of":
                    break
            await stream.close()
        await server.provider.client_left()
        (path,) = (server.state / "agents/main/sessions").glob("*.jsonl")
        assert "A long one." in path.read_text()
