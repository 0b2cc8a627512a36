"""What went wrong with one attempt, and what may be done about it. Every source says this of its own exceptions (R98)."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from polyloop.kernel.seams import ModelCallFailed

#: `again` = the same source may be asked again, then the next; `elsewhere` = only the next; `no` = the call itself is at fault.
Next = Literal["again", "elsewhere", "no"]


class Fault(Struct, frozen=True):
    """`sent` false = nothing left the process. `wait_s` = what the source asked for. `charged` false = the source said it did no work."""

    code: str
    sent: bool
    next: Next
    message: str = ""
    wait_s: float = 0.0
    charged: bool = True


class SourceError(Exception):
    """An attempt that a source has judged itself."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message or fault.code)
        self.fault = fault


#: HTTP numbers of a refused call: code, and what may follow. Others: 5xx = `server_error`/again, else `invalid_response`/elsewhere.
STATUS: Final[dict[int, tuple[str, Next]]] = {
    400: ("bad_request", "no"), 413: ("bad_request", "no"), 422: ("bad_request", "no"),
    401: ("authentication_required", "elsewhere"), 403: ("permission_denied", "elsewhere"), 402: ("quota_exceeded", "elsewhere"),
    404: ("not_found", "elsewhere"), 405: ("not_found", "elsewhere"),
    408: ("timeout", "again"), 409: ("server_error", "again"), 425: ("server_error", "again"), 429: ("rate_limited", "again"),
}  # fmt: skip


def of_status(status: int, message: str, wait_s: float) -> Fault:
    """The fault of an answer other than 200. An error says that the call was not carried out; a number under 300 does not say so."""
    code, then = STATUS.get(status, ("server_error", "again") if status >= 500 else ("invalid_response", "elsewhere"))  # noqa: PLR2004
    return Fault(code, sent=True, next=then, message=f"{status}: {message}"[:2000], wait_s=wait_s, charged=status < 300)  # noqa: PLR2004


def invalid(why: str) -> SourceError:
    """An answer that is none: not JSON, not the promised shape, cut, too large."""
    return SourceError(Fault("invalid_response", sent=True, next="again", message=why))


def refused(code: str, why: str) -> SourceError:
    """What a source will not send."""
    return SourceError(Fault(code, sent=False, next="elsewhere", message=why))


def judged(error: Exception) -> Fault | None:
    """What sources say themselves; None = somebody else's exception."""
    if isinstance(error, SourceError):
        return error.fault
    if isinstance(error, ModelCallFailed):
        return Fault(error.code, sent=error.sent, next="no", message=error.message)
    return None
