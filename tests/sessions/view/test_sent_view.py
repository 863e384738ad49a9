"""What models are sent of a growing branch is what is computed from all of it, step by step."""

from __future__ import annotations

from hypothesis import given, strategies as st

from nacre.sessions.contracts.messages import Image, Text, ToolResultMessage, UserMessage
from nacre.sessions.entries.entries import Body, Compaction, CustomMessage, CustomRecord, Entry, EntryTree
from nacre.sessions.view.sent_view import (
    PRUNE_TYPE,
    Cleared,
    PrunedView,
    SentView,
    Trimmed,
    model_messages,
    record_data,
)
from nacre.sessions.view.transcript import (
    CHANGES_TYPE,
    PROMPT_TYPE,
    RECALL_TYPE,
    TranscriptView,
    build_transcript,
)
from tests.sessions.talk import STAMP, answer, user

STEPS = (
    "user",
    "image",
    "answer",
    "call",
    "result",
    "late",
    "recall",
    "changes",
    "prompt",
    "prune",
    "compact",
    "back",
)


def body_of(step: str, tree: EntryTree, number: int) -> Body:
    """What a step says, made of what there is."""
    ids = [entry.id for entry in tree.branch()]
    open_calls = [call.id for entry in tree.branch() for call in getattr(entry.body, "tool_calls", ())]
    match step:
        case "image":
            content = (Text(text=f"see {number}"), Image(data="AA", mime_type="image/png"))
            return UserMessage(content=content, timestamp_ms=1)
        case "answer":
            return answer(f"answer {number}")
        case "call":
            return answer("", f"c{number}", f"d{number}")
        case "result" | "late" if open_calls:
            call_id = open_calls[-1 if step == "result" else 0]
            text = (Text(text=f"row {number}\n" * 20),)
            return ToolResultMessage(
                tool_call_id=call_id, tool_name="read", content=text, is_error=False, timestamp_ms=1
            )
        case "recall":
            return CustomMessage(custom_type=RECALL_TYPE, content=f"notes {number}")
        case "changes":
            return CustomMessage(custom_type=CHANGES_TYPE, content=f"changed {number}")
        case "prompt":
            return CustomRecord(custom_type=PROMPT_TYPE, data={})
        case "prune" if ids:
            shown = Cleared(placeholder="(old)") if number % 2 else Trimmed(head_chars=3, tail_chars=4)
            data = record_data(dict.fromkeys(ids, shown), saved_tokens=1, reason="ttl")
            return CustomRecord(custom_type=PRUNE_TYPE, data=data)
        case "compact" if ids:
            kept_id = ids[number % len(ids)]
            return Compaction(summary=f"summary {number}", first_kept_entry_id=kept_id, tokens_before=1)
    return user(f"question {number}")


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.booleans()), max_size=40))
def test_growing_gives_what_computing_gives(steps: list[tuple[str, bool]]) -> None:
    """Whatever is said, pruned, compacted or left, and however often somebody looks on the way."""
    tree, view, sent = EntryTree(), TranscriptView(), SentView()
    for number, (step, is_looked_at) in enumerate(steps):
        branch = tree.branch()
        parent_id = branch[number // 2 % len(branch)].id if step == "back" and branch else tree.leaf_id
        tree.add(
            Entry(id=f"e{number}", parent_id=parent_id, timestamp=STAMP, body=body_of(step, tree, number))
        )
        if not is_looked_at and number < len(steps) - 1:
            continue
        branch, is_compacted = tree.branch(), tree.compaction_count > 0
        sent.follow(view.followed(branch), branch, is_compacted=is_compacted)
        items = PrunedView().of(build_transcript(branch), branch)
        assert sent.items() == tuple(items)
        assert sent.messages() == model_messages(items, is_compacted=is_compacted)


def test_a_record_of_the_prompt_rebuilds_nothing_where_no_notes_were_shown() -> None:
    """The first notes of a long session come with one; all that was said before them is not read again."""
    tree, view = EntryTree(), TranscriptView()
    for number, step in enumerate(("user", "answer", "user", "recall", "prompt")):
        body = body_of(step, tree, number)
        tree.add(Entry(id=f"e{number}", parent_id=tree.leaf_id, timestamp=STAMP, body=body))
        if number == 1:
            before = view.followed(tree.branch())
    assert view.followed(tree.branch()) is before
    assert view.follow(tree.branch()) == build_transcript(tree.branch())


def test_a_message_stays_the_same_object() -> None:
    """Also one that is shown shortened: what is made of a message once can be kept with it."""
    tree, view, sent = EntryTree(), TranscriptView(), SentView()
    for number, step in enumerate(("user", "call", "result", "result", "answer", "prune", "user")):
        body = body_of(step, tree, number)
        tree.add(Entry(id=f"e{number}", parent_id=tree.leaf_id, timestamp=STAMP, body=body))
    sent.follow(view.followed(tree.branch()), tree.branch(), is_compacted=False)
    before = sent.messages()
    assert sent.messages() is before
    tree.add(Entry(id="new", parent_id=tree.leaf_id, timestamp=STAMP, body=user("more")))
    sent.follow(view.followed(tree.branch()), tree.branch(), is_compacted=False)
    assert len(sent.messages()) == len(before) + 1
    assert all(message is earlier for message, earlier in zip(sent.messages(), before, strict=False))
