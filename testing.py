"""What the tests of a bot author use: a scripted model, a clock that stands still, ids that count, and the
suites for bridges and memory engines.
"""

from nacre.bridges.contracts.bridge_contract import (
    BridgeContract as BridgeContract,
    FarSide as FarSide,
    RecordingInbox as RecordingInbox,
)
from nacre.runtime.extensions.memory_contract import MemoryContract as MemoryContract
from nacre.runtime.models.scripted import (
    Clock as Clock,
    CountingIds as CountingIds,
    ScriptedModel as ScriptedModel,
    ScriptViolation as ScriptViolation,
    calls as calls,
    fails as fails,
    says as says,
)
