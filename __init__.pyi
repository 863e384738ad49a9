from .blocking import BlockingAgent as BlockingAgent
from .bridges.contracts.bridge import (
    Bridge as Bridge,
    Capabilities as Capabilities,
    Inbox as Inbox,
    Part as Part,
    Place as Place,
)
from .bridges.contracts.channel import (
    NO_SECRET as NO_SECRET,
    AccountHome as AccountHome,
    AccountSettings as AccountSettings,
    Channel as Channel,
    Secret as Secret,
)
from .bridges.contracts.errors import NotDelivered as NotDelivered
from .bridges.gateway import Gateway as Gateway
from .runtime.agent.agent import Agent as Agent
from .runtime.agent.runtime import Runtime as Runtime
from .runtime.commands.conversation.session import Session as Session
from .runtime.commands.function import CommandContext as CommandContext, command as command
from .runtime.contracts.errors import (
    AgentError as AgentError,
    AgentPaused as AgentPaused,
    AllModelsFailed as AllModelsFailed,
    ApprovalNotFound as ApprovalNotFound,
    BadModelReply as BadModelReply,
    ConfigError as ConfigError,
    ContextOverflow as ContextOverflow,
    MessageRefused as MessageRefused,
    ModelAuthError as ModelAuthError,
    ModelError as ModelError,
    ModelNotRunning as ModelNotRunning,
    ModelTimedOut as ModelTimedOut,
    ModelUnavailable as ModelUnavailable,
    NoCredit as NoCredit,
    OutputInvalid as OutputInvalid,
    PlaceUnknown as PlaceUnknown,
    PrivacyError as PrivacyError,
    RateLimited as RateLimited,
    RequestRefused as RequestRefused,
    SessionInUse as SessionInUse,
    SpendingCapReached as SpendingCapReached,
    TurnBroken as TurnBroken,
    TurnCancelled as TurnCancelled,
    TurnTimedOut as TurnTimedOut,
    UsageLimitReached as UsageLimitReached,
)
from .runtime.contracts.events import (
    AnswerDiscarded as AnswerDiscarded,
    ApprovalAsked as ApprovalAsked,
    Event as Event,
    ReplyReady as ReplyReady,
    Silence as Silence,
    TextStreamed as TextStreamed,
    ToolEnded as ToolEnded,
    ToolProgressed as ToolProgressed,
    ToolStarted as ToolStarted,
    TurnFailed as TurnFailed,
    Warned as Warned,
)
from .runtime.contracts.inbound import (
    Attachment as Attachment,
    Inbound as Inbound,
    Quoted as Quoted,
    Reply as Reply,
)
from .runtime.contracts.model import (
    ChatModel as ChatModel,
    ModelParameters as ModelParameters,
    ModelRequest as ModelRequest,
    TextDelta as TextDelta,
)
from .runtime.extensions.host import ExtensionHost as ExtensionHost
from .runtime.hooks.events import (
    AfterAnswer as AfterAnswer,
    AfterCompaction as AfterCompaction,
    AfterDelivery as AfterDelivery,
    AfterFlush as AfterFlush,
    AfterModel as AfterModel,
    AfterTool as AfterTool,
    AfterTurn as AfterTurn,
    Ask as Ask,
    BeforeAnswer as BeforeAnswer,
    BeforeCompaction as BeforeCompaction,
    BeforeDelivery as BeforeDelivery,
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
from .runtime.recall.memory_plugin import (
    EngineCommand as EngineCommand,
    MemoryHome as MemoryHome,
    MemoryPlugin as MemoryPlugin,
    MemoryTool as MemoryTool,
)
from .runtime.tools.function import (
    FunctionTool as FunctionTool,
    ToolChat as ToolChat,
    ToolContext as ToolContext,
    tool as tool,
)
from .runtime.tools.toolbox import ToolFailed as ToolFailed
from .runtime.turn.loop import UsageLimits as UsageLimits
from .runtime.turn.prompt_part import PromptPart as PromptPart, prompt_part as prompt_part
from .runtime.turn.sub_agent import (
    SubAgent as SubAgent,
    Toolset as Toolset,
    mcp_server as mcp_server,
    sub_agent as sub_agent,
)
from .sessions.contracts.messages import (
    AssistantMessage as AssistantMessage,
    Text as Text,
    ToolCall as ToolCall,
)

__version__: str
