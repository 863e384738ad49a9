from .blocking import BlockingAgent as BlockingAgent
from .runtime.agent.agent import Agent as Agent
from .runtime.agent.runtime import Runtime as Runtime
from .runtime.commands.conversation.session import Session as Session
from .runtime.commands.function import CommandContext as CommandContext, command as command
from .runtime.contracts.inbound import (
    Attachment as Attachment,
    Inbound as Inbound,
    Quoted as Quoted,
    Reply as Reply,
)
from .runtime.contracts.model import ModelParameters as ModelParameters
from .runtime.extensions.host import ExtensionHost as ExtensionHost
from .runtime.hooks.events import (
    AfterCompaction as AfterCompaction,
    AfterFlush as AfterFlush,
    AfterModel as AfterModel,
    AfterTool as AfterTool,
    AfterTurn as AfterTurn,
    Ask as Ask,
    BeforeCompaction as BeforeCompaction,
    BeforeFlush as BeforeFlush,
    BeforeModel as BeforeModel,
    BeforeTool as BeforeTool,
    BeforeTurn as BeforeTurn,
    Deny as Deny,
    MessageArrived as MessageArrived,
    ReplyLeaves as ReplyLeaves,
    SessionEnded as SessionEnded,
)
from .runtime.hooks.hooks import Hooks as Hooks, HookTable as HookTable
from .runtime.hooks.otel import otel_hooks as otel_hooks
from .runtime.recall.memory_plugin import MemoryHome as MemoryHome, MemoryPlugin as MemoryPlugin
from .runtime.tools.function import (
    FunctionTool as FunctionTool,
    ToolChat as ToolChat,
    ToolContext as ToolContext,
    tool as tool,
)
from .runtime.tools.toolbox import ToolFailed as ToolFailed
from .runtime.turn.loop import UsageLimits as UsageLimits
from .runtime.turn.prompt_part import PromptPart as PromptPart, prompt_part as prompt_part
from .runtime.turn.sub_agent import SubAgent as SubAgent, sub_agent as sub_agent

__version__: str
