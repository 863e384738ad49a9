from .runtime.agent.agent import Agent as Agent
from .runtime.agent.runtime import Runtime as Runtime
from .runtime.contracts.inbound import Attachment as Attachment, Inbound as Inbound, Reply as Reply
from .runtime.recall.memory_plugin import MemoryHome as MemoryHome, MemoryPlugin as MemoryPlugin
from .runtime.tools.function import (
    FunctionTool as FunctionTool,
    ToolChat as ToolChat,
    ToolContext as ToolContext,
    tool as tool,
)
from .runtime.tools.toolbox import ToolFailed as ToolFailed
from .runtime.turn.prompt_parts.prompt_part import PromptPart as PromptPart, prompt_part as prompt_part

__version__: str
