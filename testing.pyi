from .bridges.contracts.bridge_contract import (
    BridgeContract as BridgeContract,
    FarSide as FarSide,
    RecordingInbox as RecordingInbox,
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
