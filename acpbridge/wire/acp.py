"""The names of ACP v1 as constants: methods, update variants, stop reasons, error codes.

The rule of this module: names only, spelled as the protocol spells them (acp.md section 1).
A name that is not here is no fault; what the bridge does not know passes through.
"""

from __future__ import annotations

from typing import Final

PROTOCOL_VERSION: Final = 1
JSONRPC: Final = "2.0"

# Client to agent.
INITIALIZE: Final = "initialize"
AUTHENTICATE: Final = "authenticate"
LOGOUT: Final = "logout"
SESSION_NEW: Final = "session/new"
SESSION_LOAD: Final = "session/load"
SESSION_RESUME: Final = "session/resume"
SESSION_FORK: Final = "session/fork"
SESSION_LIST: Final = "session/list"
SESSION_CLOSE: Final = "session/close"
SESSION_DELETE: Final = "session/delete"
SESSION_PROMPT: Final = "session/prompt"
SESSION_CANCEL: Final = "session/cancel"
SESSION_SET_MODE: Final = "session/set_mode"
SESSION_SET_MODEL: Final = "session/set_model"
SESSION_SET_CONFIG_OPTION: Final = "session/set_config_option"
STEERING: Final = "_session/steering"

# Agent to client.
SESSION_UPDATE: Final = "session/update"
REQUEST_PERMISSION: Final = "session/request_permission"
ELICITATION_CREATE: Final = "elicitation/create"
ELICITATION_COMPLETE: Final = "elicitation/complete"
FS_READ_TEXT_FILE: Final = "fs/read_text_file"
FS_WRITE_TEXT_FILE: Final = "fs/write_text_file"
TERMINAL_CREATE: Final = "terminal/create"
TERMINAL_OUTPUT: Final = "terminal/output"
TERMINAL_WAIT_FOR_EXIT: Final = "terminal/wait_for_exit"
TERMINAL_KILL: Final = "terminal/kill"
TERMINAL_RELEASE: Final = "terminal/release"

# Both ways.
CANCEL_REQUEST: Final = "$/cancel_request"

# The `sessionUpdate` of a session/update.
AGENT_MESSAGE_CHUNK: Final = "agent_message_chunk"
AGENT_THOUGHT_CHUNK: Final = "agent_thought_chunk"
USER_MESSAGE_CHUNK: Final = "user_message_chunk"
TOOL_CALL: Final = "tool_call"
TOOL_CALL_UPDATE: Final = "tool_call_update"
PLAN: Final = "plan"
USAGE_UPDATE: Final = "usage_update"
SESSION_INFO_UPDATE: Final = "session_info_update"
AVAILABLE_COMMANDS_UPDATE: Final = "available_commands_update"
CURRENT_MODE_UPDATE: Final = "current_mode_update"
CONFIG_OPTION_UPDATE: Final = "config_option_update"

# The `stopReason` of a session/prompt result.
END_TURN: Final = "end_turn"
CANCELLED: Final = "cancelled"
REFUSAL: Final = "refusal"
MAX_TOKENS: Final = "max_tokens"
MAX_TURN_REQUESTS: Final = "max_turn_requests"

# Error codes of JSON-RPC 2.0 and ACP.
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REQUEST_CANCELLED: Final = -32800
AUTH_REQUIRED: Final = -32000
RESOURCE_NOT_FOUND: Final = -32002
