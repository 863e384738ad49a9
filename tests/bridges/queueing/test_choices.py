"""`/queue`, `/send`, `/activation` and `session.sendPolicy`, each in a real chat."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.bridges.chats import FOLLOW_UP, QUICK, Answering, gateway
from tests.bridges.line_channel import ALL, LineBridge, LineServer

NORA = {"chat": "n", "sender": "nora"}
CREW = {"chat": "crew", "sender": "nora", "chat_kind": "group"}


def _bridge(server: LineServer) -> LineBridge:
    """A bridge that sends each answer whole."""
    return LineBridge(server.port, capabilities=replace(ALL, greatest_length=4_000))


async def _said(server: LineServer, text: str, chat: str, sender: str, chat_kind: str = "direct") -> str:
    """Somebody says something, and reads this."""
    before = len(server.shown(chat))
    server.say(text, chat=chat, sender=sender, chat_kind=chat_kind)
    await server.until(lambda at: len(at.shown(chat)) > before)
    return server.shown(chat)[-1]


async def test_a_queue_is_chosen_for_a_chat_and_holds_after_a_restart(tmp_path: Path) -> None:
    """What came during a turn is collected now, and answered one by one again when it is taken back."""
    model = Answering()
    with LineServer() as server:
        async with gateway(tmp_path, Answering(), [_bridge(server)], settings=FOLLOW_UP):
            told = await _said(server, "/queue collect debounce:20ms cap:5", **NORA)
            wrong = await _said(server, "/queue quickly", **NORA)
        async with gateway(tmp_path, model, [_bridge(server)], settings=FOLLOW_UP, ids="b"):
            asked = await _said(server, "/queue", **NORA)
            model.holds = True
            server.say("one", **NORA)
            assert await model.held.get() == "one"
            server.say("two", **NORA)
            server.say("three", **NORA)
            server.say("apart", chat="b", sender="bob")
            assert await model.held.get() == "apart"
            model.let_go()
            model.let_go()
            collected = await model.held.get()
            model.let_go()
            await server.until(lambda at: len(at.shown("n")) == 5)
            model.holds = False
            back = await _said(server, "/queue default", **NORA)

    assert told == "⚙️ Queue: collect · debounce 0.02 s · cap 5 · drop summarize"
    assert "/queue does not understand 'quickly'" in wrong
    assert asked == told
    assert "Queued #2\nthree" in collected
    assert back.startswith("⚙️ Queue: followup")


async def test_sending_is_switched_off_in_a_chat(tmp_path: Path) -> None:
    """Words are not answered there, commands are, other chats are; `inherit` takes it back."""
    model = Answering()
    with LineServer() as server:
        async with gateway(tmp_path, model, [_bridge(server)]):
            off = await _said(server, "/send off", **CREW)
            server.say("anybody?", **CREW)
            status = await _said(server, "/status", **CREW)
            private = await _said(server, "hello", chat="b", sender="bob")
            on = await _said(server, "/send inherit", **CREW)
            again = await _said(server, "anybody?", **CREW)

    assert off == "⚙️ Sending in this session: off"
    assert "sending is off" in status
    assert on == "⚙️ Sending in this session: on"
    assert (private, again) == ("re: hello", "re: anybody?")
    assert len(model.requests) == 2


async def test_a_send_policy_of_the_settings_holds_until_it_is_overruled(tmp_path: Path) -> None:
    """Groups of a channel are not answered; `/send on` overrules it in one."""
    policy = {"rules": [{"action": "deny", "match": {"channel": "line", "chatType": "group"}}]}
    settings = {**QUICK, "session": {"sendPolicy": policy}}
    model = Answering()
    with LineServer() as server:
        async with gateway(tmp_path, model, [_bridge(server)], settings=settings):
            server.say("anybody?", **CREW)
            server.say("anybody?", **{**CREW, "chat": "club"})
            private = await _said(server, "hello", **NORA)
            on = await _said(server, "/send on", **CREW)
            answer = await _said(server, "and now?", **CREW)

    assert on == "⚙️ Sending in this session: on"
    assert (private, answer) == ("re: hello", "re: and now?")
    assert server.shown("club") == []
    assert len(model.requests) == 2


async def test_a_group_is_answered_always_or_when_it_speaks_to_the_assistant(tmp_path: Path) -> None:
    """What was chosen stands over `requireMention`, and means nothing in private."""
    channels = {"line": {"dmPolicy": "open", "groups": {"crew": {"requireMention": True}}}}
    settings = {**QUICK, "channels": channels}
    model = Answering()
    with LineServer() as server:
        async with gateway(tmp_path, model, [_bridge(server)], settings=settings):
            server.say("not for you", **CREW)
            server.say("/activation always", **CREW, is_mentioned=True)
            await server.until(lambda at: at.shown("crew"))
            always = await _said(server, "hello all", **CREW)
            mention = await _said(server, "/activation mention", **CREW)
            server.say("not for you again", **CREW)
            private = await _said(server, "/activation always", **NORA)

    assert server.shown("crew")[0] == "⚙️ Activation: always"
    assert (always, mention) == ("re: hello all", "⚙️ Activation: mention")
    assert private.startswith("/activation can be used in a group.")
    assert len(model.requests) == 1
