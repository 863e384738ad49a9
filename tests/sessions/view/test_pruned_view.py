"""A transcript as it is sent: which record holds, what it changes, and what cannot be read of it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    message_text,
    user_message,
)
from nacre.sessions.entries.entries import (
    Body,
    Compaction,
    CustomRecord,
    Entry,
    entry_from_json,
    entry_to_json,
)
from nacre.sessions.view.sent_view import (
    IMAGE_GONE,
    PRUNE_TYPE,
    Cleared,
    Projection,
    PrunedView,
    Trimmed,
    projections_of,
    prune_record,
    record_data,
    saved_tokens_since,
)
from nacre.sessions.view.transcript import build_transcript

STAMP = "2026-03-14T09:00:00.000Z"
LONG = "row\n" * 1_000


class Talk:
    """A branch that grows."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def _entry(self, body: Body) -> Entry:
        parent = self.entries[-1].id if self.entries else None
        return Entry(id=f"e{len(self.entries)}", parent_id=parent, timestamp=STAMP, body=body)

    def add(self, message: Message) -> str:
        """Says something; gives its entry's id."""
        self.entries.append(self._entry(message))
        return self.entries[-1].id

    def read(self, text: str = LONG) -> str:
        """A call and its result, whose id is given."""
        call_id = f"c{len(self.entries)}"
        self.add(answer(ToolCall(id=call_id, name="read")))
        return self.add(
            ToolResultMessage(
                tool_call_id=call_id,
                tool_name="read",
                content=(Text(text=text),),
                is_error=False,
                timestamp_ms=1,
            )
        )

    def prune(self, results: dict[str, Projection], saved_tokens: int = 100) -> None:
        """A record, through the JSON of a file."""
        data = record_data(results, saved_tokens=saved_tokens, reason="ttl")
        entry = self._entry(CustomRecord(custom_type=PRUNE_TYPE, data=data))
        self.entries.append(entry_from_json(entry_to_json(entry)))

    def compact(self, first_kept_id: str) -> None:
        """A summary of all before an entry."""
        self.entries.append(
            self._entry(Compaction(summary="S", first_kept_entry_id=first_kept_id, tokens_before=1))
        )

    def sent(self) -> list[str]:
        """The texts that a model gets."""
        shown = PrunedView().of(build_transcript(self.entries), self.entries)
        return [message_text(item.message) for item in shown]


def answer(*content: Text | ToolCall) -> AssistantMessage:
    return AssistantMessage(
        content=content or (Text(text="ok"),),
        api="",
        provider="",
        model="",
        usage=None,
        stop_reason="stop",
        timestamp_ms=1,
    )


def test_the_newest_record_holds_for_all_that_it_names() -> None:
    """Records hold the whole map, so the one before says nothing any more."""
    talk = Talk()
    talk.add(user_message("go", timestamp_ms=1))
    first, second = talk.read(), talk.read()
    talk.prune({first: Cleared(placeholder="(old)")})
    talk.prune({second: Trimmed(head_chars=3, tail_chars=4)})
    shown = talk.sent()
    assert shown[2] == LONG
    assert shown[4].startswith(
        "row\n...\nrow\n\n\n[Tool result trimmed: kept first 3 chars and last 4 chars of"
    )


def test_a_record_behind_a_compaction_holds_for_what_was_kept() -> None:
    """One from before the first kept entry can name nothing that is shown, and is not looked for."""
    talk = Talk()
    talk.add(user_message("go", timestamp_ms=1))
    first = talk.read()
    talk.prune({first: Cleared(placeholder="(old)")})
    kept = talk.add(user_message("more", timestamp_ms=1))
    second = talk.read()
    talk.prune({first: Cleared(placeholder="(old)"), second: Cleared(placeholder="(old)")})
    talk.compact(kept)
    talk.add(user_message("and now?", timestamp_ms=1))
    assert talk.sent()[-2:] == ["(old)", "and now?"]

    talk.compact(talk.entries[-1].id)
    assert prune_record(talk.entries) is None


def test_nothing_changes_without_a_record() -> None:
    """The same object comes back, also the second time."""
    talk = Talk()
    talk.add(user_message("go", timestamp_ms=1))
    talk.read()
    items, view = build_transcript(talk.entries), PrunedView()
    assert view.of(items, talk.entries) is items
    assert view.of(items, talk.entries) is items


def test_a_made_up_result_is_not_taken_for_its_callers() -> None:
    """It carries the entry id of the call; a record that names that id changes nothing."""
    talk = Talk()
    talk.add(user_message("go", timestamp_ms=1))
    caller = talk.add(answer(ToolCall(id="c", name="read")))
    talk.prune({caller: Cleared(placeholder="(old)")})
    assert "(old)" not in talk.sent()


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"results": 7},
        {"results": {"a": None, "b": {}, "c": {"headChars": -1, "tailChars": 2}, "d": {"headChars": "x"}}},
    ],
)
def test_a_record_that_cannot_be_read_prunes_nothing(data: object) -> None:
    """Another program's, or a damaged one: results are shown whole."""
    record = CustomRecord(custom_type=PRUNE_TYPE, data=data)
    entry = Entry(id="a", parent_id=None, timestamp=STAMP, body=record)
    assert projections_of(entry) == {}
    assert saved_tokens_since([entry], "none") == 0


def test_records_of_the_first_version_are_read_for_ever() -> None:
    """Byte for byte as they stand in files."""
    line = {
        "type": "custom",
        "id": "p",
        "parentId": None,
        "timestamp": STAMP,
        "customType": "nacre.prune",
        "data": {
            "results": {
                "ab12": {"headChars": 1500, "tailChars": 1500},
                "cd34": {"placeholder": "[Old tool result content cleared]"},
            },
            "savedTokens": 5200,
            "reason": "ttl",
        },
    }
    entry = entry_from_json(line)
    assert isinstance(entry.body, CustomRecord)
    assert projections_of(entry) == {
        "ab12": Trimmed(head_chars=1500, tail_chars=1500),
        "cd34": Cleared(placeholder="[Old tool result content cleared]"),
    }
    assert saved_tokens_since([entry], "none") == 5200


def test_only_records_behind_an_answer_are_taken_off_its_usage() -> None:
    """What was pruned before it was not counted by the provider any more."""
    talk = Talk()
    talk.add(user_message("go", timestamp_ms=1))
    talk.prune({}, saved_tokens=1_000)
    counted = talk.add(answer())
    talk.prune({}, saved_tokens=300)
    talk.prune({}, saved_tokens=20)
    assert saved_tokens_since(talk.entries, counted) == 320


@given(st.lists(st.sampled_from(["image", "words", "tool"]), max_size=14))
def test_images_go_by_the_turns_behind_them_and_never_come_back(turns: list[str]) -> None:
    """However a conversation goes, an image is sent in four turns and a line stands for it ever after."""
    talk = Talk()
    for number, kind in enumerate(turns):
        image = (Image(data="AA", mime_type="image/png"),) if kind == "image" else ()
        talk.add(UserMessage(content=(Text(text=kind), *image), timestamp_ms=1))
        if kind == "tool":
            talk.read("x")
        shown = PrunedView().of(build_transcript(talk.entries), talk.entries)
        asked = [item.message for item in shown if isinstance(item.message, UserMessage)]
        for place, message in enumerate(asked):
            is_image, is_new = turns[place] == "image", number - place <= 3
            assert any(isinstance(block, Image) for block in message.content) == (is_image and is_new)
            assert (IMAGE_GONE in message_text(message)) == (is_image and not is_new)
        talk.add(answer())
