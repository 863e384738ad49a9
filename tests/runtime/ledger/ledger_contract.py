"""What every ledger does, wherever it is kept; a member's tests inherit it and say how one is opened."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Protocol

import pytest

from nacre.bridges.contracts.bridge import Place
from nacre.runtime.contracts.inbound import Attachment, Inbound
from nacre.runtime.ledger.ledger import Ledger
from nacre.runtime.ledger.records import BridgeStatus, HeartbeatRan, JobChanged, JobMoved, StoredJob

PLACE = Place(channel="line", account="default", chat_id="c")
CHAT = ("line", "default", "c")
ANN = ("line", "default", "ann")
ONCE = StoredJob("j1", "main", '{"text": ""}', "water the plants", "", 5_000)


class OpenLedger(Protocol):
    """Opens the ledger of one test; a second time, as the next program has it."""

    def __call__(self) -> AbstractAsyncContextManager[Ledger]:
        """The ledger, closed at the end."""
        ...


def said(number: int, **more: object) -> Inbound:
    """A message of a private chat."""
    fields = {"text": f"say {number}", "message_id": str(number), "chat_id": "c", **more}
    return Inbound(chat_kind="direct", channel="line", **fields)  # type: ignore[arg-type]


async def unsent_parts(ledger: Ledger) -> dict[str, int]:
    """How many parts have not arrived, by state."""
    counts = await ledger.not_done()
    return {state: count for state, count in counts.items() if state not in ("waiting", "running")}


class LedgerContract:
    """Inherit it, and give the fixture `open_ledger`."""

    async def test_a_message_is_taken_once_in_each_chat(self, open_ledger: OpenLedger) -> None:
        """The same id in another chat or account is another message; without an id each is a new one."""
        several = [said(1), said(1), said(1, chat_id="d"), said(1, account="other")]
        several += [said(1, message_id=""), said(1, message_id="")]
        async with open_ledger() as ledger:
            taken = [
                await ledger.receive(inbound, "k", cursor=str(number))
                for number, inbound in enumerate(several)
            ]
            assert [received is not None for received in taken] == [True, False, True, True, True, True]
            assert await ledger.cursor("line", "default") == "5"
            assert await ledger.cursor("line", "other") == "3"
            assert await ledger.cursor("line", "nobody") == ""
            await ledger.pass_over(said(9), "9")
            await ledger.pass_over(said(10), "")
            assert await ledger.cursor("line", "default") == "9"
            ids = [received.inbound.inbound_id for received in await ledger.open_messages()]
        assert len(ids) == len(set(ids)) == 5

    async def test_what_is_open_comes_back_as_it_was(self, open_ledger: OpenLedger) -> None:
        """In the order in which it came, with its files, its turn, and how often it was begun."""
        file = Attachment(name="a.png", mime_type="image/png", data=b"\x00\xff")
        async with open_ledger() as ledger:
            one = await ledger.receive(said(1, attachments=(file,)), "k", agent_id="main")
            two = await ledger.receive(said(2), "k", agent_id="main")
            three = await ledger.receive(said(3), "l", agent_id="work")
            four = await ledger.receive(said(4), "l", agent_id="work")
            assert one is not None
            assert two is not None
            assert three is not None
            assert four is not None
            await ledger.begin([one])
            await ledger.begin([one])
            await ledger.join(two, one.number)
            await ledger.join(three, one.number)
            await ledger.part([three])
            await ledger.drop([four])
            assert await ledger.not_done() == {"running": 2, "waiting": 1}
        async with open_ledger() as ledger:
            assert await ledger.open_messages() == (
                replace(one, turn=one.number, was_begun=True, attempts=2),
                replace(two, turn=one.number, was_begun=True, has_joined=True),
                three,
            )

    async def test_a_message_may_be_begun_as_it_is_received(self, open_ledger: OpenLedger) -> None:
        """The next program has it as one that was handed to the agent once; a repeated one is dropped."""
        async with open_ledger() as ledger:
            one = await ledger.receive(said(1), "k", agent_id="main", begins=True)
            assert one is not None
            assert (one.begins, one.was_begun) == (True, False)
            assert await ledger.receive(said(1), "k", agent_id="main", begins=True) is None
            assert await ledger.not_done() == {"running": 1}
        async with open_ledger() as ledger:
            begun = replace(one, turn=one.number, was_begun=True, attempts=1, begins=False)
            assert await ledger.open_messages() == (begun,)

    async def test_a_turn_ends_with_its_words_or_not_at_all(self, open_ledger: OpenLedger) -> None:
        """They go out in their order in each chat, as answers to the last message; silence says nothing."""
        async with open_ledger() as ledger:
            one, two = await ledger.receive(said(1), "k"), await ledger.receive(said(2), "k")
            assert one is not None
            assert two is not None
            await ledger.begin([one, two])
            await ledger.finish([one, two], PLACE, ["a", "b \ud800"])
            await ledger.outbox.put(replace(PLACE, chat_id="d"), ["other"])
            silent = await ledger.receive(said(3), "k")
            assert silent is not None
            await ledger.finish([silent], PLACE, [])
            assert await ledger.open_messages() == ()
            assert await ledger.receive(said(2), "k") is None, "it was answered"
            assert set(await ledger.outbox.chats_with_parts("line", "default")) == {"c", "d"}
            texts = []
            while (part := await ledger.outbox.next_part(*CHAT)) is not None:
                assert (part.part.answers, part.asker) == ("2", replace(said(2), text=""))
                texts.append(part.part.text)
                await ledger.outbox.sending(part)
                assert await unsent_parts(ledger) == {"sending": 1, "pending": 3 - len(texts)}
                await ledger.outbox.sent(part, f"id-{len(texts)}")
            assert texts == ["a", "b \ufffd"]
            assert await unsent_parts(ledger) == {"pending": 1}

    async def test_a_turn_may_end_with_its_first_words_being_sent(self, open_ledger: OpenLedger) -> None:
        """In one step: no reader finds them, and the next program is unsure."""
        async with open_ledger() as ledger:
            one = await ledger.receive(said(1), "k")
            assert one is not None
            first = await ledger.finish([one], PLACE, ["a", "b"], sends=True)
            assert first is not None
            assert await unsent_parts(ledger) == {"sending": 1, "pending": 1}
            found = await ledger.outbox.next_part(*CHAT)
            assert found is not None
            assert found.part.text == "b"
            assert (first.part.text, first.part.answers, first.state) == ("a", "1", "pending")
        async with open_ledger() as ledger:
            again = await ledger.outbox.next_part(*CHAT)
            assert again is not None
            assert (again.part, again.state, again.asker) == (first.part, "unsure", replace(said(1), text=""))

    async def test_what_was_being_sent_is_unsure_for_the_next_program(self, open_ledger: OpenLedger) -> None:
        """And keeps its key, so that a server can know it again; what failed for good is not tried."""
        async with open_ledger() as ledger:
            await ledger.outbox.put(PLACE, ["one", "two"])
            before = await ledger.outbox.next_part(*CHAT)
            assert before is not None
            assert before.state == "pending"
            await ledger.outbox.sending(before)
        async with open_ledger() as ledger:
            after = await ledger.outbox.next_part(*CHAT)
            assert after is not None
            assert (after.state, after.part) == ("unsure", before.part)
            await ledger.outbox.not_sent(after, "pending", "not now")
            again = await ledger.outbox.next_part(*CHAT)
            assert again is not None
            assert (again.state, again.attempts) == ("pending", 1)
            await ledger.outbox.not_sent(again, "failed", "never")
            second = await ledger.outbox.next_part(*CHAT)
            assert second is not None
            assert second.part.text == "two"
            assert await ledger.not_done() == {"failed": 1, "pending": 1}

    async def test_a_shown_beginning_becomes_the_first_part(self, open_ledger: OpenLedger) -> None:
        """Where it was shown it is changed; where nobody knows that, it is unsure and no second is begun."""
        async with open_ledger() as ledger:
            one, two = await ledger.receive(said(1), "k"), await ledger.receive(said(2), "k")
            assert one is not None
            assert two is not None
            draft = await ledger.outbox.draft(one.number, PLACE, "Be", answers="1")
            assert draft is not None
            assert await ledger.outbox.draft(one.number, PLACE, "Begin", answers="1") is None
            assert await ledger.outbox.next_part(*CHAT) is None, "it is not to be sent yet"
            await ledger.outbox.drafted(draft, "shown")
            assert await ledger.outbox.draft(one.number, PLACE, "Begin", answers="1") is not None
            await ledger.finish([one], PLACE, ["Begin and end"])
            part = await ledger.outbox.next_part(*CHAT)
            assert part is not None
            assert (part.part.text, part.sent_id, part.was_draft) == ("Begin and end", "shown", True)
            await ledger.outbox.sent(part, "shown", is_whole=False)
            assert (await ledger.outbox.next_part(*CHAT)) is not None
            await ledger.outbox.sent(part, "shown")

            lost = await ledger.outbox.draft(two.number, PLACE, "Be", answers="2")
            assert lost is not None
            await ledger.outbox.undraft(lost)
            assert await ledger.outbox.draft(two.number, PLACE, "Be", answers="2") is not None
            await ledger.finish([two], PLACE, ["all"])
            unsure = await ledger.outbox.next_part(*CHAT)
            assert unsure is not None
            assert unsure.state == "unsure"

    async def test_what_was_not_sent_can_be_dropped(self, open_ledger: OpenLedger) -> None:
        """Answers of one place alone; what answers nothing, such as a question to the owner, stays."""
        thread = Place(channel="line", account="default", chat_id="c", thread_id="t")
        async with open_ledger() as ledger:
            for number, place in enumerate((PLACE, thread), 1):
                received = await ledger.receive(said(number), "k")
                assert received is not None
                await ledger.finish((received,), place, ["one", "two"])
            await ledger.outbox.put(PLACE, ["a question"])
            part = await ledger.outbox.next_part(*CHAT)
            assert part is not None
            await ledger.outbox.sending(part)
            await ledger.outbox.drop(PLACE)
            await ledger.outbox.sent(part, "s1")
            left = []
            while (part := await ledger.outbox.next_part(*CHAT)) is not None:
                left.append(part.part.text)
                await ledger.outbox.sent(part, "s")
            assert left == ["one", "two", "a question"]
            assert await unsent_parts(ledger) == {}

    async def test_what_goes_along_is_written_with_its_message(self, open_ledger: OpenLedger) -> None:
        """A job that changed meanwhile takes the message, its cursor and its words back."""
        moves = JobMoved(job_id="j1", before_ms=5_000, due_ms=None)
        async with open_ledger() as ledger:
            assert await ledger.jobs.add(ONCE, made_ms=1, most=9)
            wrong = replace(moves, before_ms=4_999)
            with pytest.raises(JobChanged):
                await ledger.receive(said(1, is_owner=True), "k", agent_id="main", cursor="1", along=wrong)
            with pytest.raises(JobChanged):
                await ledger.tell(said(1), ["late"], along=wrong)
            assert (await ledger.cursor("line", "default"), await ledger.not_done()) == ("", {})
            assert await ledger.owner_chats("main") == ()

            assert await ledger.receive(said(1), "k", along=moves) is not None
            assert await ledger.jobs.of_agent("main") == ()
            with pytest.raises(JobChanged):
                await ledger.tell(said(1), ["again"], along=moves)
            assert await ledger.jobs.last_beat_ms("main", 70) == 70
            beaten = HeartbeatRan(agent_id="main", at_ms=77, before_ms=70)
            await ledger.tell(said(1), ["a", "b"], along=beaten)
            with pytest.raises(JobChanged):
                await ledger.tell(said(1), ["of another program"], along=beaten)
            assert await ledger.jobs.last_beat_ms("main", 99) == 77
            assert await ledger.not_done() == {"waiting": 1, "pending": 2}

    async def test_jobs_come_in_their_order(self, open_ledger: OpenLedger) -> None:
        """Due ones of all agents; one that does not come any more stays, with its reason, behind the rest."""
        daily = StoredJob("j2", "work", "{}", "tidy", "0 9 * * *", 3_000)
        async with open_ledger() as ledger:
            assert await ledger.jobs.next_due_ms() is None
            assert await ledger.jobs.add(ONCE, made_ms=1, most=1)
            assert not await ledger.jobs.add(ONCE._replace(job_id="j3"), made_ms=2, most=1)
            assert await ledger.jobs.add(daily, made_ms=2, most=1)
            assert await ledger.jobs.due(2_999) == ()
            assert await ledger.jobs.due(5_000) == (daily, ONCE)
            assert await ledger.jobs.recurring(2_999) == (daily,)
            await ledger.jobs.move(JobMoved(job_id="j2", before_ms=3_000, due_ms=9_000))
            assert await ledger.jobs.next_due_ms() == 5_000
            await ledger.jobs.move(JobMoved(job_id="j1", before_ms=5_000, due_ms=None, problem="gone"))
        async with open_ledger() as ledger:
            kept = ONCE._replace(due_ms=None, problem="gone")
            assert await ledger.jobs.add(ONCE._replace(job_id="j4", due_ms=8_000), made_ms=3, most=2)
            assert [job.job_id for job in await ledger.jobs.of_agent("main")] == ["j4", "j1"]
            assert (await ledger.jobs.of_agent("main"))[1] == kept
            await ledger.jobs.move(JobMoved(job_id="j1", before_ms=None, due_ms=10_000))
            assert [await ledger.jobs.remove("j1"), await ledger.jobs.remove("j1")] == [True, False]
            assert await ledger.jobs.last_beat_ms("main", 5) == 5
            assert await ledger.jobs.last_beat_ms("main", 6) == 5

    async def test_people_are_let_in_by_codes(self, open_ledger: OpenLedger) -> None:
        """Few at a time, each once; a code dies, is used up or is taken, and a right is taken back."""
        async with open_ledger() as ledger:
            people = ledger.people
            bob, eve = (*ANN[:2], "bob"), (*ANN[:2], "eve")
            assert await people.ask(ANN, "A", now_ms=100, since_ms=0, most=2)
            assert not await people.ask(ANN, "B", now_ms=101, since_ms=0, most=2), "asked already"
            assert await people.ask(bob, "B", now_ms=102, since_ms=0, most=2)
            assert not await people.ask(eve, "E", now_ms=103, since_ms=0, most=2), "too many ask"
            assert not await people.ask(eve, "E", now_ms=104, since_ms=0, most=2, gives_way_ms=99), "too new"
            assert [(who.sender_id, who.code) for who in await people.asking(0)] == [
                ("ann", "A"),
                ("bob", "B"),
            ]
            assert await people.approve("A", "guest", now_ms=200, since_ms=100) is None, "too late"
            assert await people.ask(ANN, "C", now_ms=201, since_ms=101, most=2)
            assert await people.approve("C", "guest", now_ms=202, since_ms=101) == ANN
            assert await people.approve("C", "owner", now_ms=203, since_ms=101) is None
            assert await people.deny("B", since_ms=101) == bob
            assert await people.deny("B", since_ms=101) is None
            assert await people.ask(eve, "F", now_ms=204, since_ms=101, most=2, gives_way_ms=203)
            assert await people.ask(ANN, "G", now_ms=205, since_ms=101, most=2, gives_way_ms=204)
            assert [who.code for who in await people.asking(0)] == ["G"], "the oldest that was not denied"
            assert await people.approve("G", "guest", now_ms=202, since_ms=101) == ANN
            assert not await people.ask(bob, "D", now_ms=204, since_ms=101, most=2), "their hour is not over"
            assert await people.asking(0) == ()
        async with open_ledger() as ledger:
            assert [await ledger.people.role(ANN), await ledger.people.role(bob)] == ["guest", ""]
            assert await ledger.people.arrival(ANN) == ("guest", "")
            assert [(*who[:4], who.role) for who in await ledger.people.known()] == [(*ANN, 202, "guest")]
            assert [await ledger.people.revoke("line", "ann") for _ in range(2)] == [True, False]
            assert await ledger.people.role(ANN) == ""

    async def test_what_became_of_an_answer_can_be_looked_up(self, open_ledger: OpenLedger) -> None:
        """By the name of the message that it answers, which is of one chat; a foreign name has no answer."""
        async with open_ledger() as ledger:
            for chat in ("c", "d"):
                received = await ledger.receive(said(1, chat_id=chat), "k")
                assert received is not None
                await ledger.begin([received])
                place = replace(PLACE, chat_id=chat)
                await ledger.finish([received], place, ["one", "two"] if chat == "c" else ["three"])
            part = await ledger.outbox.next_part("line", "default", "c")
            assert part is not None
            await ledger.outbox.not_sent(part, "failed", "The chat is gone.")
            first, second = await ledger.deliveries(said(1).inbound_id)
            assert (first.channel, first.chat_id) == ("line", "c")
            assert (first.state, first.attempts, first.problem) == ("failed", 1, "The chat is gone.")
            assert (second.state, second.attempts, second.problem) == ("pending", 0, "")
            assert first.received_ms > 0
            assert [each.state for each in await ledger.deliveries(said(1, chat_id="d").inbound_id)] == [
                "pending"
            ]
            assert await ledger.deliveries(said(2).inbound_id) == ()
            assert await ledger.deliveries("of another program") == ()

    async def test_choices_chats_and_bridges_are_kept(self, open_ledger: OpenLedger) -> None:
        """The newest of each; an empty choice is forgotten, and bridges are kept in place of those before."""
        async with open_ledger() as ledger:
            await ledger.put_choice("k", "queue", "steer")
            await ledger.put_choice("k", "queue", "collect")
            await ledger.put_choice("k", "send", "off")
            await ledger.put_choice("k", "send", "")
            for number, more in enumerate(({}, {"chat_id": "n"}, {"trigger": "schedule", "chat_id": "x"})):
                await ledger.receive(said(number, is_owner=True, **more), "k", agent_id="main")
            await ledger.receive(said(9, chat_id="stranger"), "k", agent_id="main")
            first = BridgeStatus("line", "default", "connected", "", 0, 5, 0)
            second = BridgeStatus("irc", "default", "waiting", "refused", 3, 5, 9)
            await ledger.put_statuses([first])
            await ledger.put_statuses([first, second])
        async with open_ledger() as ledger:
            assert dict(await ledger.choices()) == {("k", "queue"): "collect"}
            assert [(chat.chat_id, chat.text) for chat in await ledger.owner_chats("main")] == [("n", "")]
            assert await ledger.owner_chats("work") == ()
            assert [each._replace(holder="") for each in await ledger.statuses()] == [second, first]
