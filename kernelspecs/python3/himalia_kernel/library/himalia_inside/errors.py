"""Why a tool was not found, or a call has no reply."""

import http.client


class ToolError(Exception):
    """Something about a tool went wrong.

    `code` is a stable word, `status` that of the HTTP response (0: there was none), `hint` what to do or None, `violations` what is wrong
    with arguments, `call` the number of the call in the log of the session or None, `prompt` the prompt to a person that a call waits for.
    `server_status` is the HTTP status of the tool's server, if it refused the call, and `retry_after` the seconds that it asks to wait.
    """

    def __init__(
        self, message, code="internal", status=0, hint=None, violations=(), call=None, prompt=None, server_status=None, retry_after=None
    ):
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.hint = hint
        self.violations = list(violations)
        self.call = call
        self.prompt = prompt
        self.server_status = server_status
        self.retry_after = retry_after

    def __reduce__(self):
        made = (self.message, self.code, self.status, self.hint, self.violations, self.call, self.prompt, self.server_status, self.retry_after)
        return type(self), made

    def __str__(self):
        parts = [f"{self.message} ({self.code})"]
        parts += [f"{one.get('path') or 'arguments'}: {one.get('text')}" for one in self.violations]
        if self.hint:
            parts.append(self.hint)
        return "\n".join(parts)


class UnknownServer(ToolError):
    """The session has no server of this name."""


class UnknownTool(ToolError):
    """The server has no tool of this name that the session may use."""


class InvalidArguments(ToolError):
    """The arguments do not fit the schema: `violations` has each path and rule. Nothing was sent."""


class UnknownSkill(ToolError):
    """The session has no skill of this name."""


class SkillFailed(ToolError):
    """A skill raised, or its outputs do not fit.

    `traceback` is the text of its own traceback, `error_name` the name of the exception, `text` the end of what it printed, `run` the id of
    its execution.
    """

    def __init__(self, message, code="skill_failed", violations=(), run=None, traceback="", text="", error_name=None):
        super().__init__(message, code, 0, None, violations)
        self.run = run
        self.traceback = traceback
        self.text = text
        self.error_name = error_name

    def __reduce__(self):
        return type(self), (self.message, self.code, self.violations, self.run, self.traceback, self.text, self.error_name)

    def __str__(self):
        return "\n".join(part for part in (super().__str__(), self.traceback) if part)


class ToolDenied(ToolError):
    """The policy does not let it be called. Nothing was sent."""


class ApprovalNeeded(ToolError):
    """A person has to approve it: `prompt` says where. Nothing was sent. `call` waits for that by itself."""


class Withdrawn(ToolError):
    """No person has answered a prompt before it ended."""


class ToolLimit(ToolError):
    """As many calls were made as may be. Nothing was sent."""


class ToolUnavailable(ToolError):
    """The server, or the gateway, cannot be reached now. Nothing was done."""


class ToolFailed(ToolError):
    """The tool, or its server, says that it did not do it."""


class ReplyTooLarge(ToolError):
    """The reply is longer than it may be. The tool has done it."""


class OutcomeUnknown(ToolError):
    """It is not known whether the tool has done it. The call is not repeated: look before you call again."""


class ToolTimeout(OutcomeUnknown):
    """No reply in time."""


class ModelError(ToolError):
    """A language model gives no answer."""


class UnknownModel(ModelError):
    """The session has no model of this name."""


class ModelLimit(ModelError):
    """A cap of the template would be exceeded: the message names it, what is used and what is allowed. Nothing was sent."""


_CLASSES = {
    "unknown_server": UnknownServer,
    "unknown_tool": UnknownTool,
    "unknown_skill": UnknownSkill,
    "invalid_arguments": InvalidArguments,
    "tool_denied": ToolDenied,
    "approval_needed": ApprovalNeeded,
    "tool_limit": ToolLimit,
    "tool_unavailable": ToolUnavailable,
    "unavailable": ToolUnavailable,
    "tool_failed": ToolFailed,
    "reply_too_large": ReplyTooLarge,
    "tool_timeout": ToolTimeout,
    "outcome_unknown": OutcomeUnknown,
}


def error_of(status, problem):
    """The exception for a response that is no success."""
    code = str(problem.get("code", "internal"))
    return _CLASSES.get(code, ToolError)(
        str(problem.get("message", f"the gateway answered {status}")),
        code,
        status,
        problem.get("hint"),
        problem.get("violations", ()),
        problem.get("call"),
        problem.get("prompt"),
        problem.get("server_status"),
        problem.get("retry_after_s"),
    )


def reason_of(error):
    """Why a connection ended, in words: what Python says of a closed one names its own buffers."""
    if isinstance(error, (EOFError, http.client.IncompleteRead, http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)):
        return "the gateway closed the connection before it answered"
    return str(error) or type(error).__name__


def lost(request, reason):
    """The exception for a request without a response."""
    if request.changes:
        return OutcomeUnknown(
            f"the connection to the gateway ended before the reply ({reason}); whether the call was done is unknown",
            "outcome_unknown",
            hint="Look whether it was done before you call it again.",
        )
    return unreachable(reason)


def unreachable(reason):
    """The exception for a gateway that was not reached."""
    return ToolUnavailable(f"the gateway cannot be reached: {reason}", "tool_unavailable", hint="Try again later.")
