from .bridges.contracts.bridge_contract import (
    BridgeContract as BridgeContract,
    FarSide as FarSide,
    RecordingInbox as RecordingInbox,
)
from .runtime.agent.evaluation import (
    Case as Case,
    CaseRun as CaseRun,
    Evaluation as Evaluation,
    Recording as Recording,
    Score as Score,
    Scorer as Scorer,
    called as called,
    evaluate as evaluate,
    found as found,
    judged as judged,
    read_cases as read_cases,
    read_recording as read_recording,
    run_case as run_case,
)
from .runtime.extensions.memory_contract import MemoryContract as MemoryContract
from .runtime.models.scripted import (
    Clock as Clock,
    CountingIds as CountingIds,
    ScriptedModel as ScriptedModel,
    ScriptViolation as ScriptViolation,
    calls as calls,
    fails as fails,
    says as says,
)
from .runtime.models.scripted_provider import ProviderServer as ProviderServer
