"""The values of the memory: chunks, questions, hits, reports.

Line numbers start at 1 and ranges are inclusive. Paths are stored paths: relative to the workspace with `/`
(`../…` for an extra path outside of it), and `sessions/<name>` for a transcript.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Literal, NamedTuple, TypeAlias

from nacre.record import Record

Source: TypeAlias = Literal["memory", "sessions"]
SearchMode: TypeAlias = Literal["hybrid", "lexical", "vector", "none"]
Day: TypeAlias = date | str
"""A day, or words for one such as "last March"."""


class Chunk(Record):
    """A piece of a file, as it is indexed.

    `text` has these lines without words of the template, `heading_path` the headings above, outermost first.
    `date` is the day in the nearest heading or the file name, `content_hash` the SHA-256 hex digest of
    `text`, `ordinal` the number of the chunk in its file, from 0.
    """

    source: Source
    path: str
    start_line: int
    end_line: int
    text: str
    heading_path: tuple[str, ...]
    date: date | None
    content_hash: str
    ordinal: int


class ChunkPlace(NamedTuple):
    """What days and decay need of a chunk. `changed_at_ns` is its file's last change since the epoch."""

    source: Source
    path: str
    date: date | None
    changed_at_ns: int


class Question(Record):
    """What a search asks for: a text and its limits. `None` stands for the default of the settings.

    `also` has up to 4 other wordings, or translations into the languages of the notes; a hit has the best
    score of all wordings. `after` and `before` are inclusive and leave out chunks without a date. `as_of`
    asks as on that day, without later notes; without other limits, chunks without a date stay. `sources` can
    only narrow those of the settings, and `below`, a folder of the workspace, limits the search to its notes.
    With `explain`, hits say how they were ranked.
    """

    text: str
    also: Sequence[str] = ()
    max_results: int | None = None
    min_score: float | None = None
    after: Day | None = None
    before: Day | None = None
    as_of: Day | None = None
    sources: Sequence[Source] | None = None
    below: str = ""
    explain: bool = False


class HitExplanation(Record):
    """How a hit got its place. Ranks start at 1; `None` means that the list did not have the chunk.

    `lexical_score` is BM25 (higher is better), `fused` the calibrated score before `decay_factor`, `mmr_rank`
    the place by diversity, `None` if off. `relevance` is the number of a re-ranker, on its own scale; `fused`
    is then the score of the place that it chose.
    """

    lexical_rank: int | None
    lexical_score: float | None
    vector_rank: int | None
    cosine: float | None
    fused: float
    decay_factor: float
    mmr_rank: int | None
    final: float
    relevance: float | None = None


class Address(Record):
    """What a line says of one thing: `about` are the words of the thing and of its subject, or their digest,
    `value` those of its value. With `is_denied`, the line says that it does not have this value. `kind` is
    that of the value, such as a place, or empty if it can be any. With `only_adds`, it may be one of several
    true values."""

    about: frozenset[str] | str
    value: frozenset[str]
    is_denied: bool
    kind: str = ""
    only_adds: bool = False

    def replaces(self, other: Address) -> bool:
        """Whether this later claim makes the other one out of date."""
        if self.about != other.about:
            return False
        is_same = self.value <= other.value or other.value <= self.value
        if self.is_denied != other.is_denied:
            return is_same
        is_alike = not self.kind or not other.kind or self.kind == other.kind
        return is_alike and not (is_same or self.is_denied or self.only_adds)


class Superseded(Record):
    """A `line` of a hit that a later note contradicts, and the citation of the later line."""

    line: int
    by: str


class SearchHit(Record):
    """A passage that was found: `score` 0 to 1, `snippet` up to 700 characters, `citation` as `path#L3-L7`.

    `also` cites passages with the same words; `superseded` are lines that later notes contradict. `asked` has
    the lines with half of what a question asks about now, each with the words of the question in it.
    """

    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str
    source: Source
    citation: str
    also: tuple[str, ...] = ()
    superseded: tuple[Superseded, ...] = ()
    asked: tuple[tuple[int, tuple[str, ...]], ...] = ()
    explain: HitExplanation | None = None


class Fallback(Record):
    """`to` makes the embeddings instead of `provider` and its `model`; `reason` is a sentence.

    In a status, `retry_at_seconds` is when the provider is tried again, since the epoch.
    """

    provider: str
    model: str
    reason: str
    to: str
    retry_at_seconds: float | None = None

    @property
    def sentence(self) -> str:
        return f"{self.reason} {self.to} makes the embeddings instead."


class SearchReport(Record):
    """The hits of a search, the best first, and how they came about.

    `mode` says which lists were used; `degraded` is a sentence if the search used less than the settings ask
    for. `provider` and `model` name the embedder, `fallback` the one that it replaces. `stale` means that
    known changes are not indexed yet. `absent` has the identifiers, long numbers and quoted phrases of the
    question that stand nowhere in the searched notes. `limited` is a sentence about the days that were
    searched. `reranked_by` names the re-ranker that ordered the hits. Up to `max_results` hits were asked
    for.
    """

    hits: tuple[SearchHit, ...]
    mode: SearchMode
    provider: str = "none"
    model: str = ""
    degraded: str = ""
    stale: bool = False
    elapsed_ms: float = 0.0
    fallback: Fallback | None = None
    absent: tuple[str, ...] = ()
    limited: str = ""
    reranked_by: str = ""
    max_results: int = 0

    @property
    def absent_sentence(self) -> str:
        if not self.absent:
            return ""
        *others, last = self.absent
        named, verb = (f"{', '.join(others)} and {last}", "do") if others else (last, "does")
        return f"{named} {verb} not appear in the searched notes in this spelling."


class Excerpt(Record):
    """Lines of a memory file. For a missing file, `missing` is true and the text is empty."""

    path: str
    text: str
    start_line: int
    end_line: int
    total_lines: int
    missing: bool
    truncated: bool = False


class FailedFile(Record):
    """A file that could not be indexed: why, how often, and when it is tried again, since the epoch."""

    path: str
    problem: str
    attempts: int
    retry_at_seconds: float


class SkippedPath(Record):
    """A path that discovery skipped, and why, as a clause such as `a symbolic link`."""

    path: str
    reason: str


class SyncProgress(Record):
    """The progress of a sync. `eta_seconds` is `None` until there is a rate to estimate from."""

    stage: Literal["scan", "index", "embed", "publish"]
    completed: int
    total: int
    elapsed_seconds: float
    eta_seconds: float | None


class SyncReport(Record):
    """The result of a sync. `rebuilt` is the reason for a full rebuild, empty for an incremental sync.

    `pending_vectors` counts chunks without a vector, `held_texts` the texts in batch jobs. `problem` is a
    sentence if embedding stopped early or the workspace could not be read. `fallback` says which embedder
    replaced the configured one.
    """

    reason: str
    indexed_files: int
    removed_files: int
    unchanged_files: int
    indexed_chunks: int
    embedded: int
    reused_vectors: int
    refused_texts: int
    pending_vectors: int
    held_texts: int
    failed: tuple[FailedFile, ...]
    skipped: tuple[SkippedPath, ...]
    rebuilt: str
    problem: str
    elapsed_seconds: float
    fallback: Fallback | None = None


class SourceCount(Record):
    source: Source
    files: int
    chunks: int


class VectorEngine(Record):
    """The `name` of what compares vectors in the first search of a process, and `later` if that changes.

    `problem` says why it is not the preferred engine.
    """

    name: str
    problem: str = ""
    later: str = ""


class MemoryStatus(Record):
    """The state of the engine for its owner. Sentence fields are empty if there is nothing to say.

    `provider` is `none` without an embedder. `mode` is how a search would work now; `fallback` says which
    embedder is replaced. `vector_engine`, `vector_engine_later` and `vector_problem` are the fields of a
    `VectorEngine`. `pending_*`, `failed` and `identity_problem` say what is not up to date and why;
    `waiting_transcripts` have grown by less than `sync.sessions` asks for. `refused` cites the first hundred
    chunks that the embedder refuses. `embeddings_problem` is what the embedder lacks, such as a key;
    otherwise `None` until it is asked (`deep`), and empty if it answered. `reranker_problem` says why the
    last request to the `reranker` failed.
    """

    index_path: str
    workspace: str
    files: int
    chunks: int
    source_counts: tuple[SourceCount, ...]
    sources: tuple[Source, ...]
    extra_paths: tuple[str, ...]
    provider: str
    model: str
    mode: SearchMode
    dirty: bool
    syncing: bool
    pending_files: int
    waiting_transcripts: int
    pending_vectors: int
    failed: tuple[FailedFile, ...]
    skipped: tuple[SkippedPath, ...]
    refused: tuple[str, ...]
    identity: Mapping[str, str]
    identity_problem: str
    vector_enabled: bool
    vector_engine: str
    vector_engine_later: str
    vector_problem: str
    dimensions: int | None
    vectors: int
    cached_vectors: int
    cache_enabled: bool
    cache_max_entries: int | None
    embeddings_problem: str | None
    last_sync_at_seconds: float | None
    last_sync_problem: str
    quarantined: tuple[str, ...]
    index_bytes: int
    watching: str
    fallback: Fallback | None = None
    reranker: str = ""
    reranker_problem: str = ""


def citation(path: str, start_line: int, end_line: int) -> str:
    """`path#L3` for one line, `path#L3-L7` for several."""
    return f"{path}#L{start_line}" if start_line == end_line else f"{path}#L{start_line}-L{end_line}"
