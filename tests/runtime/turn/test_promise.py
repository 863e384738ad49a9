"""A promise to remember is kept: what the owner asked for is in the notes when the turn ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre import tool
from nacre.runtime.contracts.events import Event, ReplyReady, Warned
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.runtime.turn.promises import POINTS_BACK, promised
from tests.runtime.agents import TODAY, events_of, opened, said

STORY = says("Once upon a time there was a boat.")


def told(events: list[Event]) -> str:
    """The notice below the reply, which is also an event of its own."""
    assert isinstance(events[-1], ReplyReady)
    notice = events[-1].reply.notice
    assert [event.message for event in events if isinstance(event, Warned)] == [notice] * bool(notice)
    return notice


async def test_what_the_model_did_not_save_is_saved(tmp_path: Path) -> None:
    """A weak model answers a request to remember with a story: the owner's words are in today's log, once."""
    async with opened(tmp_path, ScriptedModel(STORY, STORY)) as agent:
        first = await events_of(agent, said("Please remember that my boat is called Nautilus."))
        again = await events_of(agent, said("Please remember that my boat is called Nautilus."))
        log = (agent.workspace / TODAY).read_text(encoding="utf-8")

    assert told(first) == (
        "The assistant did not save what you asked it to remember, so Nacre wrote it to memory/2026-03-14.md."
    )
    assert told(again) == "", "it is there already"
    assert log.count("- my boat is called Nautilus.") == 1


async def test_a_kept_promise_can_be_taken_back_alone(tmp_path: Path) -> None:
    """It is a commit of its turn, as any other note is, so that an undo takes back one note and not two."""
    async with opened(tmp_path, ScriptedModel(STORY, STORY)) as agent:
        await agent.ask("Please remember that my boat is called Nautilus.")
        await agent._parts.turn.history.close()  # the commit of a turn runs beside the next one
        await agent.ask("Please remember that the hive needs sugar.")
        undone = await agent.ask("/undo")
        log = (agent.workspace / TODAY).read_text(encoding="utf-8")

    assert "- the hive needs sugar." in undone.text
    assert "Nautilus" not in undone.text
    assert "- my boat is called Nautilus." in log
    assert "sugar" not in log


async def test_what_the_model_saved_is_left_alone(tmp_path: Path) -> None:
    """A note that a tool wrote keeps the promise, in whatever words."""
    model = ScriptedModel(
        calls(("append", {"path": TODAY, "text": "- The boat: Nautilus"})), says("I'll remember that.")
    )
    async with opened(tmp_path, model) as agent:
        events = await events_of(agent, said("Remember that my boat is called Nautilus."))
        log = (agent.workspace / TODAY).read_text(encoding="utf-8")

    assert told(events) == ""
    assert log.count("Nautilus") == 1


async def test_what_joined_the_turn_is_saved_too(tmp_path: Path) -> None:
    """Whatever a tool did before it was said; the first message, which the tool may have saved, is left."""

    @tool
    async def moor() -> str:
        """Looks for a mooring."""
        assert agent.join(said("Please remember that my sister is called Ilse."))
        return "Berth 7"

    model = ScriptedModel(calls(("moor", {})), says("Berth 7. I'll remember that."))
    async with opened(tmp_path, model, tools=[moor]) as agent:
        reply = await agent.ask("Please remember that my boat is called Nautilus.")
        log = (agent.workspace / TODAY).read_text(encoding="utf-8")

    assert reply is not None
    assert TODAY in reply.notice
    assert "- my sister is called Ilse." in log
    assert "Nautilus" not in log


async def test_looking_something_up_saves_nothing(tmp_path: Path) -> None:
    """A search is not a note: the promise is still open after it."""
    model = ScriptedModel(calls(("memory_search", {"query": "boat"})), says("Saved!"))
    async with opened(tmp_path, model) as agent:
        events = await events_of(agent, said("My boat is called Nautilus."))

    assert told(events) == (
        "The assistant did not save what it said it would remember, so Nacre wrote it to "
        "memory/2026-03-14.md."
    )


async def test_a_request_that_points_back_is_told(tmp_path: Path) -> None:
    """Nobody knows what "that" is, so the owner hears that nothing was saved."""
    async with opened(tmp_path, ScriptedModel(STORY, says("Noted."))) as agent:
        await agent.respond(said("Tell me about boats."))
        events = await events_of(agent, said("Remember that."))
        assert not (agent.workspace / TODAY).exists()

    assert told(events) == POINTS_BACK


async def test_nobody_else_makes_the_owner_remember(tmp_path: Path) -> None:
    """What a group or a stranger asks to remember is the model's to decide."""
    async with opened(tmp_path, ScriptedModel(says("I'll remember."), says("I'll remember."))) as agent:
        group = said("Remember that the boat is mine.", chat_kind="group", chat_id="g")
        stranger = said("Remember that the boat is mine.", chat_id="s", sender_id="5", is_owner=False)
        for inbound in (group, stranger):
            assert told(await events_of(agent, inbound)) == ""
        assert not (agent.workspace / TODAY).exists()


ASKED = {
    "Remember: the gate code is 4711": "the gate code is 4711",
    "Merk dir bitte, dass mein Boot Nautilus heißt.": "mein Boot Nautilus heißt.",
    "N'oublie pas que je suis allergique aux noix": "je suis allergique aux noix",
    "Recuerda que mi barco se llama Nautilus": "mi barco se llama Nautilus",
    "Lembre-se de que meu barco se chama Nautilus": "meu barco se chama Nautilus",
    "Ricordati che la mia barca si chiama Nautilus": "la mia barca si chiama Nautilus",
    "Onthoud dat mijn boot Nautilus heet": "mijn boot Nautilus heet",
    "Запомни, что мою лодку зовут Наутилус": "мою лодку зовут Наутилус",
    "请记住我的船叫鹦鹉螺号": "我的船叫鹦鹉螺号",
    "私の船はノーチラスだと覚えておいて": "私の船はノーチラスだ",
    "내 배 이름은 노틸러스라고 기억해 줘": "내 배 이름은 노틸러스",
    "내 생일은 5월 3일이야, 기억해": "내 생일은 5월 3일이야",
    "别忘记，我对花生过敏": "我对花生过敏",
}
CLAIMED = {
    "My boat is called Nautilus.": "Got it, I'll remember that!",
    "Mein Boot heißt Nautilus.": "Das merke ich mir.",
    "Mon bateau s'appelle Nautilus.": "C'est noté.",
    "Mi barco se llama Nautilus.": "Lo recordaré.",
    "Meu barco se chama Nautilus.": "Vou me lembrar disso.",
    "La mia barca si chiama Nautilus.": "Me lo ricorderò.",
    "Меня зовут Анна.": "Я запомнил.",
    "我的船叫鹦鹉螺号": "好的，我记住了。",
    "私の船の名前はノーチラスです": "覚えておきます。",
    "내 배는 노틸러스입니다": "기억하겠습니다.",
}
HARMLESS = (
    ("Do you remember my boat?", "I will look."),
    ("Remember, every step counts!", "True."),
    ("I can't remember his name.", "Whose?"),
    ("How do I save this file?", "With Ctrl-S."),
    ("Fix the bug.", "Done. Saved."),
    ("Denkst du, das geht?", "Ja."),
    ("¿Recuerdas mi barco?", "Sí."),
    ("你记得我的船吗？", "记得。"),
    ("好的我记下来了。", "还有吗？"),
    ("나는 어렸을 때를 기억해.", "그래요?"),
    ("Запиши меня к врачу.", "К какому?"),
    ("My boat is called Nautilus.", "A fine name. " * 400),
)


@pytest.mark.parametrize("words", ASKED)
def test_requests_are_understood(words: str) -> None:
    """In eleven languages, without the words that ask."""
    assert promised(words, "Once upon a time.") == (ASKED[words], True)


@pytest.mark.parametrize("words", CLAIMED)
def test_claims_are_understood(words: str) -> None:
    """Where nobody asked, the fact that the reply claims to have kept is kept."""
    assert promised(words, CLAIMED[words]) == (words, False)


@pytest.mark.parametrize(("words", "reply"), HARMLESS)
def test_other_talk_promises_nothing(words: str, reply: str) -> None:
    """Questions, encouragement and work on files are no requests to remember."""
    assert promised(words, reply) == ("", False)
