"""From a run's binding to one `chat()` call: what is forwarded, and what is refused before anything is sent.

Theory of operation. A binding is a string-to-string map that nobody but this adapter reads. Keys that begin `gateway.` become
keyword arguments of `chat()`, values as they are; all other keys are the consumer's own and stay behind. Four defences stand
before the call: a name `chat()` does not declare (or none at all), a blank value, a name the adapter itself fills in, and the
old unprefixed `session_id` / `parent_call_id`. Bindings are logged, so names that look like secrets are refused as well.

Seed: S2.40-S2.47, R72-R81, R84.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

from polyloop.contract.problem import problem
from polyloop.kernel.seams import ModelCallFailed, ModelRequest, Reply

PREFIX: Final = "gateway."
#: Old unprefixed names: once forwarded, then silently ignored, now refused (S2.45).
OLD: Final = ("session_id", "parent_call_id")
#: What the adapter fills in itself; a binding may not. The last ones are passed on only to a `chat()` that declares them.
OWNED: Final = frozenset({"messages", "model", "tools", "params", "stream", "timeout", "call_id", "reply_no"})
NEEDED: Final = ("messages", "model", "params")
OPTIONAL: Final = ("tools", "call_id", "reply_no", "timeout")
_SECRET: Final = frozenset({
    "key", "keys", "apikey", "token", "tokens", "secret", "secrets", "password", "passwd", "credential", "credentials", "authorization", "bearer",
})  # fmt: skip
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class Chat(Protocol):
    """Any object with such a `chat()` is a gateway. Its binding names are the keyword names it declares beyond `OWNED`."""

    chat: Any


def refusal(binding: Mapping[str, str], declared: frozenset[str]) -> tuple[str, str] | None:
    """The first key that may not be sent and why, or None."""
    for key in OLD:
        if key in binding:
            return key, f"write {PREFIX}{key}: without the prefix it is not forwarded"
    for key, value in binding.items():
        if looks_secret(key):
            return key, "it looks like a secret, and bindings are logged"
        if not key.startswith(PREFIX):
            continue
        name = key[len(PREFIX) :]
        if name in OWNED:
            return key, "the adapter fills this in itself"
        if name not in declared:
            return key, "chat() has no parameter of this name"
        if is_blank(value):
            return key, "the value is blank"
    return None


def is_blank(value: str) -> bool:
    """Nothing to be seen: empty, blanks, or characters without a shape."""
    return not any(c.isprintable() and not c.isspace() for c in value)


def looks_secret(key: str) -> bool:
    """`api_key`, `gateway.accessToken`, `password`: by the words of the name, not by its letters."""
    return any(word.lower() in _SECRET for word in _WORDS.findall(key))


def forwarded(binding: Mapping[str, str], declared: frozenset[str]) -> dict[str, str]:
    """Keyword arguments for `chat()`, values untouched. Raises ModelCallFailed(binding_rejected) naming the key; nothing was sent."""
    found = refusal(binding, declared)
    if found is not None:
        key, why = found
        raise ModelCallFailed("binding_rejected", sent=False, key=key, message=f"binding {key!r} is refused: {why}")
    return {key[len(PREFIX) :]: value for key, value in binding.items() if key.startswith(PREFIX)}


def check_scope(binding: Mapping[str, str], scope: str) -> None:
    """Before a run is started: another tenant's coordinate, or a secret that would stand in the log. Raises ProblemError.

    A blank coordinate is left to the defences: it ends the run at step 0.
    """
    named = binding.get(PREFIX + "tenant_id", scope)
    if named != scope and not is_blank(named):
        message = f"the run belongs to tenant {scope!r}, its binding says {PREFIX}tenant_id = {named!r}"
        raise problem("permission_denied", message, operation="run", stage="arguments", details={"field": f"binding.{PREFIX}tenant_id"})
    for key in binding:
        if looks_secret(key):
            message = f"binding {key!r} looks like a secret; bindings are logged"
            raise problem("validation", message, operation="run", stage="arguments", details={"field": f"binding.{key}", "issue": "secret"})


class GatewayModel:
    """The model seam over a gateway: one `call` is one `chat()`. The gateway's own retries are not the kernel's business (S2.35)."""

    def __init__(self, gateway: Chat, model: str) -> None:
        """Raises ProblemError(capability_unavailable) when `gateway.chat` cannot be called as it must be (R84)."""
        self.gateway, self.model = gateway, model
        parameters = _declared(gateway)
        self._passed = tuple(name for name in OPTIONAL if name in parameters)
        self.declared = parameters - OWNED

    async def call(self, request: ModelRequest) -> Reply:
        bound = forwarded(request.binding, self.declared)
        if request.tools is not None and "tools" not in self._passed:
            raise ModelCallFailed("capability_unavailable", sent=False, message="this gateway takes no tools")
        ours = {"tools": request.tools, "call_id": request.call_id, "reply_no": request.reply_no, "timeout": None}
        more: dict[str, Any] = {name: ours[name] for name in self._passed}
        reply: object = await self.gateway.chat(request.messages, model=self.model, params=request.params, **more, **bound)
        if not isinstance(reply, Reply):
            raise ModelCallFailed("invalid_response", message=f"chat() returned {type(reply).__name__}, not a Reply")
        return reply


def _declared(gateway: Chat) -> frozenset[str]:
    """The names `chat()` declares one by one; what `**kwargs` would swallow is declared by nobody."""
    chat: Any = getattr(gateway, "chat", None)
    if not callable(chat):
        raise problem("capability_unavailable", f"{type(gateway).__name__} has no chat()", operation="run", stage="open")
    parameters = list(inspect.signature(chat).parameters.values())
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    names = frozenset(p.name for p in parameters if p.kind not in variable)
    known = frozenset((*NEEDED, *OPTIONAL))
    missing = [name for name in NEEDED if name not in names]
    missing += [p.name for p in parameters if p.kind not in variable and p.default is p.empty and p.name not in known]
    if missing or not inspect.iscoroutinefunction(cast(Any, chat)):
        what = f"cannot be called: {', '.join(missing)}" if missing else "is not async"
        raise problem("capability_unavailable", f"{type(gateway).__name__}.chat {what}", operation="run", stage="open")
    return names
