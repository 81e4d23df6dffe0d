"""Everything that can go wrong, as classes. Raised where it is found, rendered once per protocol.

MaxiError
├── InvalidRequest 400
│   ├── ContextTooLong 400
│   └── DoesNotFit 400          the request alone is more than the machine holds
├── Unauthorized 401
├── Forbidden 403               a foreign origin or Host header
├── NotFound 404
│   └── ModelNotFound 404
├── MethodNotAllowed 405
├── TooLarge 413
├── UnsupportedMedia 415
├── Overloaded 429              the queue is full
├── Unavailable 503             draining, or no memory for the model right now
├── NotInstalled 501
├── EngineFailed 500
 ├── DownloadFailed 502          what was to be fetched didn't come, or has no room here
 ├── SetupError                  a command can't go on; exit code 2, no HTTP status of its own
 └── NoAnswer                    a command asked a server, which refuses, fails or is gone; code 1
"""

from __future__ import annotations


class MaxiError(Exception):
    """An error with words for the user.

    ``status`` is the HTTP status it suggests, ``kind`` OpenAI's error type, ``code`` a stable
    word for programs, ``param`` the request field at fault (``messages[0].content``).
    """

    status = 500
    kind = "server_error"
    code: str | None = None
    retry_after_s: int | None = None

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        if code is not None:
            self.code = code
        if retry_after_s is not None:
            self.retry_after_s = retry_after_s


class InvalidRequest(MaxiError):
    status = 400
    kind = "invalid_request_error"


class ContextTooLong(InvalidRequest):
    """``prompt_tokens`` (at least so many) and ``context_tokens`` are the numbers in the message,
    for wire formats whose clients look for them."""

    code = "context_length_exceeded"
    prompt_tokens: int | None = None
    context_tokens: int | None = None

    @classmethod
    def by(cls, message: str, *, prompt_tokens: int, context_tokens: int) -> ContextTooLong:
        error = cls(message)
        error.prompt_tokens, error.context_tokens = prompt_tokens, context_tokens
        return error


class DoesNotFit(InvalidRequest):
    code = "does_not_fit_in_memory"


class Unauthorized(MaxiError):
    status = 401
    kind = "authentication_error"
    code = "invalid_api_key"


class Forbidden(MaxiError):
    status = 403
    kind = "permission_error"
    code = "forbidden"


class NotFound(MaxiError):
    status = 404
    kind = "invalid_request_error"
    code = "not_found"


class ModelNotFound(NotFound):
    code = "model_not_found"


class MethodNotAllowed(MaxiError):
    status = 405
    kind = "invalid_request_error"
    code = "method_not_allowed"


class TooLarge(MaxiError):
    status = 413
    kind = "invalid_request_error"
    code = "request_too_large"


class UnsupportedMedia(MaxiError):
    status = 415
    kind = "invalid_request_error"
    code = "unsupported_media_type"


class Overloaded(MaxiError):
    status = 429
    kind = "rate_limit_error"
    code = "overloaded"
    retry_after_s = 1


class Unavailable(MaxiError):
    status = 503
    kind = "server_error"
    code = "unavailable"
    retry_after_s = 5


class NotInstalled(MaxiError):
    status = 501
    kind = "server_error"
    code = "not_installed"


class EngineFailed(MaxiError):
    code = "engine_failed"


class DownloadFailed(MaxiError):
    status = 502
    code = "download_failed"


class SetupError(MaxiError):
    """Something about this machine or the command line keeps a command from going on."""


class NoAnswer(MaxiError):
    """What a command asked a server for did not come; ``code`` is the server's word for it."""
