"""The daily cap is a cap: with calls at once, in several processes, after kills, and for unknown prices."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.providers.embedding.daily_budget import EmbeddingBudget
from nacre.extensions.providers.embedding.open_embedder import embedder_for
from nacre.extensions.providers.openai_compatible.model import OpenAICompatibleModel
from nacre.memory.contracts.embedder import BudgetUsedUp
from nacre.memory.contracts.settings import MemorySearchSettings
from nacre.runtime.contracts.errors import SpendingCapReached
from nacre.runtime.contracts.model import ModelRequest, Purpose, SystemPrompt, TextDelta
from nacre.runtime.models.scripted import Clock
from nacre.runtime.models.spending import Estimate, Reservation, SpendingLedger, spending, unreadable_usage
from nacre.sessions.contracts.messages import Usage, user_message
from tests.runtime.agents import START
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

MODEL = "openai/gpt-4o-mini"
CAP_USD = 0.002
HELD = """
import asyncio, sys
from datetime import datetime
from pathlib import Path
from nacre.runtime.models.spending import Estimate, SpendingLedger

async def hold():
    now = lambda: datetime.fromisoformat(sys.argv[2])
    ledger = SpendingLedger(Path(sys.argv[1]), agent_id="b", now=now, cap_usd=lambda: 1.0)
    await ledger.reserve("turn", "a/b", Estimate(prompt_usd=0.9))
    print("held", flush=True)
    sys.stdin.read()

asyncio.run(hold())
"""


def ledger_in(
    folder: Path, cap_usd: float | None = CAP_USD, prices: Mapping[str, Mapping[str, float]] | None = None
) -> SpendingLedger:
    """The ledger of one program."""
    return SpendingLedger(folder, agent_id="main", now=Clock(START), cap_usd=lambda: cap_usd, prices=prices)


def model_at(url: str, ledger: SpendingLedger, name: str = MODEL) -> OpenAICompatibleModel:
    """A model at an address that writes down what it costs."""
    return OpenAICompatibleModel(name, base_url=url, api_key="k", now_ms=Clock().now_ms, ledger=ledger)


def request(purpose: Purpose = "turn") -> ModelRequest:
    """A short question."""
    return ModelRequest(
        system=SystemPrompt(stable="s"),
        messages=(user_message("Hello", timestamp_ms=1),),
        purpose=purpose,
    )


def spent_usd(folder: Path) -> float:
    """What all calls cost together."""
    return sum(spent.usage.cost_usd for spent in spending(folder))


async def test_thirty_turns_at_once_stay_within_the_cap(tmp_path: Path) -> None:
    """Each answer is as long as the request allows; together they cost less than the cap, and those that the
    cap does not pay for are refused."""

    def longest(asked: Mapping[str, Any]) -> wire.Step:
        return wire.reply("Yes.", usage=wire.usage(20, int(asked["max_tokens"])))

    async def turn(model: OpenAICompatibleModel) -> bool:
        try:
            return bool([item async for item in model.stream(request())])
        except SpendingCapReached:
            return False

    async with ProviderServer(responder=longest) as server, contextlib.AsyncExitStack() as closing:
        models = [model_at(server.url, ledger_in(tmp_path)) for _ in range(2)]
        for model in models:
            closing.push_async_callback(model.aclose)
        answered = await asyncio.gather(*(turn(models[place % 2]) for place in range(30)))

    assert 2 <= sum(answered) < 30
    assert len(server.requests) == sum(answered)
    assert CAP_USD / 2 < spent_usd(tmp_path) <= CAP_USD
    assert not list((tmp_path / "reserved").iterdir())


def test_a_process_that_is_killed_gives_its_reservation_back(tmp_path: Path) -> None:
    """While it lives, its money is kept from other processes; the kernel frees it with the process."""
    arguments = [sys.executable, "-c", HELD, str(tmp_path), START.isoformat()]
    ledger, estimate = ledger_in(tmp_path, 1.0), Estimate(prompt_usd=0.5)
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(SpendingCapReached):
            asyncio.run(ledger.reserve("flush", "a/b", estimate))
        process.send_signal(signal.SIGKILL)

    reservation = asyncio.run(ledger.reserve("flush", "a/b", estimate))
    assert len(list((tmp_path / "reserved").iterdir())) == 1
    reservation.release()


async def test_a_turn_waits_until_running_calls_have_settled(tmp_path: Path) -> None:
    """It is not refused for money that another call keeps and then does not need."""
    ledger = ledger_in(tmp_path, 1.0)
    first = await ledger.reserve("turn", "a/b", Estimate(prompt_usd=0.9))
    second = asyncio.create_task(ledger.reserve("turn", "a/b", Estimate(prompt_usd=0.5)))
    with pytest.raises(SpendingCapReached):
        await ledger.reserve("flush", "a/b", Estimate(prompt_usd=0.5))
    assert not second.done()

    first.release()

    (await second).release()


async def test_a_model_of_unknown_price_is_refused_under_a_cap(tmp_path: Path) -> None:
    """The sentence names the setting for its price; with one it is counted, and without a cap it is asked."""
    unknown = model_at("http://192.0.2.1/v1", ledger_in(tmp_path), "openai/house-made")
    with pytest.raises(SpendingCapReached, match=r"usage: {prices: {\"openai/house-made\""):
        [item async for item in unknown.stream(request())]

    prices = {"openai/house-made": {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6}}
    async with ProviderServer() as server:
        server.reply("Yes.", usage=wire.usage(100, 50))
        priced = model_at(server.url, ledger_in(tmp_path, 1.0, prices), "openai/house-made")
        async with contextlib.aclosing(priced):
            assert [item async for item in priced.stream(request())]
    assert spent_usd(tmp_path) == pytest.approx(200e-6)
    await unknown.aclose()


async def test_a_model_on_this_machine_needs_no_price(tmp_path: Path) -> None:
    """Nobody is paid for it, so it is asked although its price is unknown, also when the cap is used up."""
    ledger = ledger_in(tmp_path)
    await ledger.spend("turn", "a/b", Usage(input_tokens=1, cost_usd=1.0), at_ms=1)
    async with ProviderServer() as server:
        server.reply("Yes.", usage=wire.usage(100, 50))
        async with contextlib.aclosing(model_at(server.url, ledger, "vllm/house-made")) as model:
            assert [item async for item in model.stream(request())]
    assert server.requests[0]["max_tokens"] == 16_384  # as for any server of the owner's


def a_folder(path: Path) -> None:
    """Where a file should be."""
    path.mkdir(parents=True)


def a_link(path: Path) -> None:
    """To a file elsewhere."""
    path.parent.mkdir(parents=True)
    path.symlink_to(path.parent / "elsewhere")
    (path.parent / "elsewhere").touch()


def rubbish(path: Path) -> None:
    """Lines that tell no usage."""
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{}\nrubbish\n")


@pytest.mark.parametrize("damage", [a_folder, a_link, rubbish])
async def test_a_usage_file_that_cannot_be_read_lets_nothing_through(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """The refusal names the file, which stays as it is; whoever set no cap goes on."""
    path = tmp_path / "usage" / f"{START.date().isoformat()}.jsonl"
    damage(path)
    before = path.read_bytes() if path.is_file() else None

    with pytest.raises(SpendingCapReached, match=path.name):
        await ledger_in(path.parent).reserve("turn", MODEL, Estimate(prompt_usd=1e-6))

    assert path.name in (unreadable_usage(path.parent, Clock(START)) or "")
    assert isinstance(await ledger_in(path.parent, None).reserve("turn", MODEL, None), Reservation)
    assert (path.read_bytes() if path.is_file() else None) == before


async def test_an_answer_that_is_broken_off_is_paid_for(tmp_path: Path) -> None:
    """The provider bills its prompt and what it wrote, although it never counted them."""
    async with ProviderServer() as server:
        server.stall("This answer ")
        model = model_at(server.url, ledger_in(tmp_path, 1.0))
        async with contextlib.aclosing(model), contextlib.aclosing(model.stream(request())) as answer:
            async for item in answer:
                if isinstance(item, TextDelta):
                    break
    [spent] = spending(tmp_path)
    assert spent.usage.cost_usd > 0
    assert not list((tmp_path / "reserved").iterdir())


async def test_embeddings_are_reserved_as_well(tmp_path: Path) -> None:
    """Documents embedded at once do not pass the share of the cap that is theirs."""
    budget = EmbeddingBudget(
        tmp_path / "tokens.json", daily_tokens=None, now=Clock(START), ledger=ledger_in(tmp_path, 0.1)
    )
    model, tokens = "openai/text-embedding-3-small", 2_000_000  # .04 dollars
    first = await budget.allow(tokens, model, is_local=False)
    second = await budget.allow(tokens, model, is_local=False)
    with pytest.raises(BudgetUsedUp):
        await budget.allow(tokens, model, is_local=False)
    first.release()
    second.release()
    with pytest.raises(BudgetUsedUp):
        await budget.allow(1, "openai/house-made", is_local=False)


async def test_a_question_is_embedded_within_the_cap(tmp_path: Path) -> None:
    """It is counted, and refused before anything is sent once the cap does not pay for it."""
    async with ProviderServer() as server:
        ledger = ledger_in(tmp_path, 1.0)
        budget = EmbeddingBudget(tmp_path / "tokens.json", daily_tokens=None, now=Clock(START), ledger=ledger)
        settings = MemorySearchSettings.model_validate(
            {"provider": "openai", "remote": {"baseUrl": server.url, "apiKey": "k"}}
        )
        embedder = embedder_for(
            settings,
            {},
            now_seconds=lambda: 0.0,
            home=tmp_path,
            models_folder=tmp_path,
            budget=lambda: budget,
        )
        assert embedder is not None
        assert await embedder.embed_query("When swarms the hive?")
        await ledger.spend("turn", "a/b", Usage(input_tokens=1, cost_usd=0.9), at_ms=1)
        with pytest.raises(BudgetUsedUp, match=r"usage\.dailyCapUsd"):
            await embedder.embed_query("When swarms the hive?")
        await embedder.close()
    assert len(server.embedding_requests) == 1
    assert [spent.purpose for spent in spending(tmp_path)] == ["embedding", "turn"]
