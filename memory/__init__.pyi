from .contracts.embedder import (
    Embedder as Embedder,
    EmbeddingFailed as EmbeddingFailed,
    TextRefused as TextRefused,
)
from .contracts.errors import (
    IndexBusy as IndexBusy,
    IndexClosed as IndexClosed,
    IndexUnusable as IndexUnusable,
    MemoryIndexError as MemoryIndexError,
    ReadRefused as ReadRefused,
)
from .contracts.records import (
    Chunk as Chunk,
    Excerpt as Excerpt,
    FailedFile as FailedFile,
    HitExplanation as HitExplanation,
    MemoryStatus as MemoryStatus,
    SearchHit as SearchHit,
    SearchReport as SearchReport,
    SkippedPath as SkippedPath,
    Source as Source,
    SyncProgress as SyncProgress,
    SyncReport as SyncReport,
)
from .contracts.settings import (
    MemorySearchSettings as MemorySearchSettings,
    index_path as index_path,
    resolve_settings as resolve_settings,
)
from .contracts.store import Store as Store
from .contracts.transcripts import (
    TranscriptInfo as TranscriptInfo,
    TranscriptSource as TranscriptSource,
    TranscriptText as TranscriptText,
)
from .contracts.workspace import PathOutsideRoot as PathOutsideRoot, Workspace as Workspace
from .engine import MemoryEngine as MemoryEngine
from .workspace.folder import FolderWorkspace as FolderWorkspace
from .workspace.paths import contained_path as contained_path
from .workspace.workspace import ensure_workspace as ensure_workspace
