from .runtime.agent.agent import Agent as Agent
from .runtime.commands.conversation.session import Session as Session
from .runtime.commands.function import CommandContext as CommandContext, command as command
from .runtime.contracts.inbound import Attachment as Attachment, Inbound as Inbound, Reply as Reply
from .runtime.tools.function import ToolContext as ToolContext, tool as tool
from .runtime.tools.toolbox import ToolFailed as ToolFailed
from .runtime.turn.loop.limits import UsageLimits as UsageLimits

__version__: str
