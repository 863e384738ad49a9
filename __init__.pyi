from .runtime.agent.agent import Agent as Agent
from .runtime.contracts.inbound import Attachment as Attachment, Inbound as Inbound, Reply as Reply

__version__: str
