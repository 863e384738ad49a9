"""What a listing means for the index."""

from __future__ import annotations

from nacre.memory.contracts.notes import FoundNote, NoteListing, NoteMarks
from nacre.memory.contracts.records import FailedFile
from nacre.memory.contracts.store import FileState
from nacre.memory.contracts.workspace import RACY_NS
from nacre.memory.sync.file_sync import batches, next_failure, plan_changes

READ_AT = 10 * RACY_NS


def _found(
    path: str, *, size: int = 5, mtime_ns: int = 1, inode: int = 7, entry_changed_ns: int = 1
) -> FoundNote:
    marks = NoteMarks(
        size_bytes=size, modified_ns=mtime_ns, changed_ns=entry_changed_ns, device=1, inode=inode
    )
    return FoundNote(name=path, marks=marks)


def _stored(path: str, *, mtime_ns: int = 1) -> FileState:
    return FileState(
        source="memory", path=path, content_hash="h", size=5, mtime_ns=mtime_ns, inode=7, read_at_ns=READ_AT
    )


def _listing(*files: FoundNote, unreadable: tuple[str, ...] = ()) -> NoteListing:
    return NoteListing(notes=files, skipped=(), unreadable=unreadable)


def test_a_file_with_the_same_stat_is_not_read() -> None:
    """Size, time stamp and inode together prove that nothing changed."""
    changes = plan_changes(_listing(_found("a.md")), {"a.md": _stored("a.md")}, {}, now_seconds=0)

    assert (changes.to_read, changes.unchanged) == ((), 1)


def test_any_difference_of_the_stat_has_the_file_read() -> None:
    """A new size, time or inode means that the file may have changed."""
    for file in (_found("a.md", size=6), _found("a.md", mtime_ns=2), _found("a.md", inode=8)):
        assert plan_changes(_listing(file), {"a.md": _stored("a.md")}, {}, now_seconds=0).to_read == (file,)


def test_a_file_changed_just_before_it_was_read_is_read_again() -> None:
    """Its next change might get the same time stamp."""
    racy = READ_AT - RACY_NS // 2
    file = _found("a.md", mtime_ns=racy)

    changes = plan_changes(_listing(file), {"a.md": _stored("a.md", mtime_ns=racy)}, {}, now_seconds=0)

    assert changes.to_read == (file,)


def test_a_file_whose_time_was_set_back_is_read_again() -> None:
    """Programs that keep time stamps leave one trace: when the file's entry changed."""
    before, after = (_found("a.md", entry_changed_ns=at) for at in (READ_AT - 1, READ_AT))

    assert plan_changes(_listing(before), {"a.md": _stored("a.md")}, {}, now_seconds=0).unchanged == 1
    assert plan_changes(_listing(after), {"a.md": _stored("a.md")}, {}, now_seconds=0).to_read == (after,)


def test_files_that_are_gone_are_removed_unless_nobody_could_look() -> None:
    """A path under a folder that could not be read is kept."""
    stored = {path: _stored(path) for path in ("gone.md", "drive/kept.md")}

    changes = plan_changes(_listing(unreadable=("drive",)), stored, {}, now_seconds=0)

    assert changes.to_remove == ("gone.md",)


def test_a_failed_file_waits_until_its_next_try_is_due() -> None:
    """Each failure in a row doubles the wait, up to an hour; when it is due, the file is read."""
    first = next_failure("a.md", "no", None, now_seconds=100)
    second = next_failure("a.md", "no", first, now_seconds=100)
    late = next_failure(
        "a.md",
        "no",
        FailedFile(path="a.md", problem="no", attempts=50, retry_at_seconds=0),
        now_seconds=100,
    )

    assert (first.retry_at_seconds, second.retry_at_seconds, late.retry_at_seconds) == (130, 160, 3700)
    waiting = plan_changes(_listing(_found("a.md")), {}, {"a.md": first}, now_seconds=129)
    due = plan_changes(_listing(_found("a.md")), {}, {"a.md": first}, now_seconds=130)
    assert (waiting.to_read, waiting.waiting) == ((), (first,))
    assert len(due.to_read) == 1


def test_a_failed_file_that_was_mended_does_not_wait() -> None:
    """New content or new permissions after the failure are worth a try at once; older ones are not."""
    failure = next_failure("a.md", "no", None, now_seconds=100)
    before, after = (_found("a.md", entry_changed_ns=at * 10**9) for at in (99, 101))

    assert plan_changes(_listing(before), {}, {"a.md": failure}, now_seconds=102).waiting == (failure,)
    assert plan_changes(_listing(after), {}, {"a.md": failure}, now_seconds=102).to_read == (after,)


def test_a_failure_of_a_file_that_is_gone_is_forgotten() -> None:
    """What was never indexed and is not there any more is no problem to be told."""
    failure = next_failure("a.md", "no", None, now_seconds=100)

    assert plan_changes(_listing(), {}, {"a.md": failure}, now_seconds=102).to_remove == ("a.md",)


def test_a_clock_that_is_set_back_makes_no_file_wait_for_years() -> None:
    """A next try further away than the longest wait was set by a wrong clock."""
    failure = FailedFile(path="a.md", problem="no", attempts=1, retry_at_seconds=1e9)

    changes = plan_changes(_listing(_found("a.md")), {}, {"a.md": failure}, now_seconds=100)

    assert (len(changes.to_read), changes.waiting) == (1, ())


def test_batches_are_bounded_by_bytes_and_number() -> None:
    """No batch is over either bound, except for one file that is larger by itself; order is kept."""
    files = [_found(f"{number}.md", size=size) for number, size in enumerate([4, 4, 4, 50, 1, 1, 1])]

    runs = batches(files, max_bytes=10, max_files=2)

    assert [[file.marks.size_bytes for file in run] for run in runs] == [[4, 4], [4], [50], [1, 1], [1]]
