"""A tool call that needs approval, in a chat of one process: the owner is asked in private, and answers."""

from __future__ import annotations

import re
from pathlib import Path

from nacre.runtime.models.scripted import ScriptedModel, calls, says
from tests.bridges.chats import QUICK, gateway as opened_gateway
from tests.bridges.line_channel import LineBridge, LineServer

SETTINGS = {**QUICK, "tools": {"rules": {"write": {"confirm": True}}}}
PAY = ("write", {"path": "memory/paid.md", "content": "- Ann is paid."})


async def question(server: LineServer) -> str:
    """The id that the owner is asked about."""
    await server.until(lambda server: any("❓" in text for text in server.shown("n")))
    found = re.search(r"/deny (\w+) \[reason\] refuses", server.shown("n")[-1])
    assert found is not None
    return found[1]


async def test_the_owner_is_asked_and_answers(tmp_path: Path) -> None:
    """The question says what would run, and the turn that waits goes on with it."""
    model = ScriptedModel(calls(PAY), says("It is paid."))
    with LineServer() as server:
        async with opened_gateway(tmp_path, model, [LineBridge(server.port)], settings=SETTINGS):
            server.say("pay Ann", chat="n", sender="nora")
            name = await question(server)
            assert not (tmp_path / "workspace/memory/paid.md").exists()
            server.say(f"/approve {name}", chat="n", sender="nora")
            await server.until(lambda server: len(server.shown("n")) == 3)
    asked = server.shown("n")[0]
    assert "'write' needs your approval." in asked
    assert '{"path": "memory/paid.md", "content": "- Ann is paid."}' in asked
    approved, answer = sorted(server.shown("n")[1:])
    assert approved.startswith("Approved: write.")
    assert answer == "It is paid."
    assert (tmp_path / "workspace/memory/paid.md").read_text().strip() == "- Ann is paid."


async def test_the_owner_sees_all_that_would_run(tmp_path: Path) -> None:
    """Nothing is cut, and nothing is hidden by Markdown or by characters that reorder the text."""
    long, wild = "Ann." * 1_000, " *Bob* \u202eis`` ` [paid](https://a.test).\u200b"
    model = ScriptedModel(calls(("write", {"path": "memory/paid.md", "content": long + wild})), says("Done."))
    with LineServer() as server:
        async with opened_gateway(tmp_path, model, [LineBridge(server.port)], settings=SETTINGS):
            server.say("pay Ann", chat="n", sender="nora")
            await server.until(lambda server: "/approve" in "".join(server.shown("n")))
    question, *_, last = server.shown("n")
    assert '```\nwrite {"path": "memory/paid.md"' in question
    assert last.rpartition("```")[2].strip().startswith("/approve")
    shown = re.sub(r"\n?```\n?", "", "".join(server.shown("n")))
    assert long in shown
    assert r' *Bob* \u202eis\u0060\u0060 \u0060 [paid](https://a.test).\u200b"}' in shown


async def test_the_owner_reads_who_asked_elsewhere(tmp_path: Path) -> None:
    """The question goes to the owner's private chat, and names the person and the group."""
    model = ScriptedModel(says("Hello."), calls(PAY))
    with LineServer() as server:
        async with opened_gateway(tmp_path, model, [LineBridge(server.port)], settings=SETTINGS):
            server.say("hello", chat="n", sender="nora")
            await server.until(lambda server: server.shown("n"))
            server.say(
                "pay Ann", chat="g", sender="bob", chat_kind="group", sender_name="Bob", chat_name="Bees"
            )
            await server.until(lambda server: "/approve" in "".join(server.shown("n")))
    assert "'Bob' (bob) wrote in 'Bees' (g) on line:" in "".join(server.shown("n"))


async def test_a_stopped_turn_can_be_approved_no_more(tmp_path: Path) -> None:
    """`/stop` withdraws what it asked, and a late yes is told so and runs nothing."""
    model = ScriptedModel(calls(PAY))
    with LineServer() as server:
        async with opened_gateway(tmp_path, model, [LineBridge(server.port)], settings=SETTINGS):
            server.say("pay Ann", chat="n", sender="nora")
            name = await question(server)
            server.say("/stop", chat="n", sender="nora")
            await server.until(lambda server: len(server.shown("n")) == 2)
            server.say(f"/approve {name}", chat="n", sender="nora")
            await server.until(lambda server: len(server.shown("n")) == 3)
    assert f"'{name}'" in server.shown("n")[2]
    assert not (tmp_path / "workspace/memory/paid.md").exists()
