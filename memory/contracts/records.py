"""The values that cross the memory room's files: chunks, hits, reports. Frozen, no behaviour beyond naming.

Line numbers are 1-based and inclusive everywhere. Paths are stored paths: relative to the workspace with
`/` between the parts (`../…` for an extra path outside), `sessions/<name>` for a transcript.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Literal, NamedTuple, TypeAlias

from nacre.record import Record

Source: TypeAlias = Literal["memory", "sessions"]
SearchMode: TypeAlias = Literal["hybrid", "lexical", "vector", "none"]


class Chunk(Record):
    """A piece of one file, as it is indexed.

    `text` is what the file says on these lines, without the words of its template; `heading_path` the
    headings above it, outermost first; `date` the day that the file name or the nearest heading names;
    `content_hash` the SHA-256 hex digest of `text`; `ordinal` the place among the chunks of the file, from 0.
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
    """Where a chunk stands and how old it is: what days and decay need of chunks that are never shown.

    `changed_at_ns` is when its file was last changed, in nanoseconds since the epoch.
    """

    source: Source
    path: str
    date: date | None
    changed_at_ns: int


class HitExplanation(Record):
    """How a hit got its place. Ranks count from 1; `None` means that the list did not have the chunk.

    `lexical_score` is BM25 (higher is better), `cosine` −1…1, `fused` the calibrated score before
    `decay_factor` (1 = untouched); `mmr_rank` the place that diversity gave it, `None` when off. `relevance`
    is what a re-ranker said, in its own measure; then `fused` is what the place is worth that it gave.
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


class Superseded(Record):
    """That a later note says otherwise than this `line` of a hit: `by` cites the line of that one."""

    line: int
    by: str


class SearchHit(Record):
    """One found place: `score` 0…1, `snippet` at most 700 characters, `citation` as `path#L3-L7`.

    `also` cites further places that say the same words; `superseded` has its lines that are not so any more.
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
    explain: HitExplanation | None = None


class Fallback(Record):
    """That `to` makes the embeddings in the place of `provider` with its `model`, and why, as a sentence.

    In a status `retry_at_seconds` is when that one is asked again, since the epoch, once that is noted.
    """

    provider: str
    model: str
    reason: str
    to: str
    retry_at_seconds: float | None = None

    def told(self) -> str:
        """The same for the owner, in words."""
        return f"{self.reason} {self.to} makes the embeddings instead."


class SearchReport(Record):
    """A search's answer: the hits, best first, and how they came about.

    `mode` says which lists took part; `degraded` is a sentence for the owner when less took part than the
    settings ask for, else empty; `provider` and `model` name the embedder (`none` and empty without one),
    `fallback` the one that it stands in for; `stale` is true when known changes in the workspace are not in
    the index yet. `absent` has the identifiers, long numbers and quoted phrases of the question that stand
    nowhere in what was searched. `limited` says as a sentence to which days the search was limited.
    `reranked_by` names the re-ranker that gave the hits their order, and is empty where none did.
    """

    hits: tuple[SearchHit, ...]
    provider: str
    model: str
    mode: SearchMode
    degraded: str
    stale: bool
    elapsed_ms: float
    fallback: Fallback | None = None
    absent: tuple[str, ...] = ()
    limited: str = ""
    reranked_by: str = ""

    @property
    def absent_sentence(self) -> str:
        """What is absent as a sentence for the model and the owner; empty when nothing is."""
        if not self.absent:
            return ""
        *others, last = self.absent
        named, verb = (f"{', '.join(others)} and {last}", "stand") if others else (last, "stands")
        return f"{named} {verb} nowhere in the notes that were searched, in this spelling."


class Excerpt(Record):
    """Lines of one memory file. A missing file gives `missing=True` and empty text, not an error."""

    path: str
    text: str
    start_line: int
    end_line: int
    total_lines: int
    missing: bool
    truncated: bool = False


class FailedFile(Record):
    """A file that could not be indexed: why, how often, and when (epoch seconds) it is tried again."""

    path: str
    problem: str
    attempts: int
    retry_at_seconds: float


class SkippedPath(Record):
    """A path that discovery passed over, and why, as a clause: `a symbolic link`."""

    path: str
    reason: str


class SyncProgress(Record):
    """How far a sync is. `eta_seconds` is `None` until there is a rate to guess from."""

    stage: Literal["scan", "index", "embed", "publish"]
    completed: int
    total: int
    elapsed_seconds: float
    eta_seconds: float | None


class SyncReport(Record):
    """What a sync did. `rebuilt` is the reason for a full rebuild, empty for an incremental sync.

    `pending_vectors` counts chunks still without a vector, `held_texts` the texts that a batch job has;
    `problem` is a sentence when embedding stopped early or the workspace could not be read, else empty;
    `fallback` says why the named provider did not make the vectors, if it did not.
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
    """How much of one source is indexed."""

    source: Source
    files: int
    chunks: int


class VectorEngine(Record):
    """What compares vectors for a process's first search, as its makers call it.

    `later` is what does from the second one on, empty when that is the same; `problem` is why it is not the
    preferred one.
    """

    name: str
    problem: str = ""
    later: str = ""


class MemoryStatus(Record):
    """The engine as its owner should see it; every sentence field is empty when there is nothing to say.

    `provider` is `none` without an embedder. `mode` is what a search would look at now, `fallback` whom the
    embedder stands in for. `vector_engine` is a `VectorEngine`'s name, `vector_engine_later` and
    `vector_problem` its other parts. `pending_*`, `failed` and `identity_problem` say what is not up to date
    and why; `waiting_transcripts` have grown, but by less than `sync.sessions` asks for. `refused` cites
    chunks that the embedder does not take, the first hundred. `embeddings_problem` is what the embedder
    lacks, such as a key, else `None` until it is asked (`deep`) and empty when it answered. `reranker` names
    the re-ranker of the settings, `reranker_problem` says why it gave no order when it was asked last.
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
