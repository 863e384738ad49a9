from .runtime.agent.agent import Agent as Agent
from .runtime.agent.runtime import Runtime as Runtime
from .runtime.contracts.inbound import Attachment as Attachment, Inbound as Inbound, Reply as Reply
from .runtime.tools.function import ToolContext as ToolContext, tool as tool
from .runtime.tools.toolbox import ToolFailed as ToolFailed

__version__: str
