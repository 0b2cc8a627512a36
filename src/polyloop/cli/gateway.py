"""Commands of the gateway: one call, what its cache holds, what calls have cost, and forgetting."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Annotated, Any, Final

import msgspec
import typer

from polyloop.app import gateway
from polyloop.contract.problem import problem
from polyloop.contract.spend import MICRO
from polyloop.gateway import accounts
from polyloop.gateway import cache as kept
from polyloop.gateway.accounts import Charged, Used
from polyloop.gateway.cache import Held
from polyloop.gateway.stream import Piece
from polyloop.kernel.objects import Json
from polyloop.kernel.seams import Reply
from polyloop.words.catalog import say

from .cells import visible
from .frame import Place, carry_out, placed

app: Final = typer.Typer(no_args_is_help=True, help="The gateway: call a model, see its cache and its cost.")
NamespaceOption = Annotated[str | None, typer.Option("--namespace", help="Cache namespace.")]


@app.command()
@placed
def chat(
    place: Place,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="For example openai:NAME@URL.")],
    text: Annotated[str, typer.Argument(metavar="TEXT|-", help="What to say; - reads it from stdin.")],
    namespace: NamespaceOption = None,
    cache: Annotated[str | None, typer.Option("--cache", help="off, use or refresh.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="Session the cost is counted under.")] = None,
    params: Annotated[str, typer.Option("--params", metavar="JSON", help="Parameters for the model, a JSON object.")] = "{}",
    stream: Annotated[bool, typer.Option("--stream", help="Show the text on stderr as it comes.")] = False,
) -> None:
    """Call a model once, outside any run. `--stream` shows its text on stderr as it comes; what counts is printed at the end."""
    named = {"cache_namespace": namespace, "cache": cache, "session_id": session}
    binding = {f"gateway.{name}": value for name, value in named.items() if value is not None}
    said = sys.stdin.read() if text == "-" else text

    async def work() -> Reply:
        return await gateway.ask(place.store, place.tenant, model, said, binding, _params(params), _shown if stream else None)

    reply = carry_out(place, work)
    if place.as_json:
        place.print_json(reply_json(reply))
    else:
        sys.stdout.write(f"{visible(reply.text) if sys.stdout.isatty() else reply.text}\n")


def _shown(piece: Piece) -> None:
    sys.stderr.write(("\n" if piece.first else "") + visible(piece.text))
    sys.stderr.flush()


def _params(text: str) -> dict[str, Json]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise problem("validation", f"--params: {error}", operation="chat", stage="arguments", details={"field": "params"}) from error


def reply_json(reply: Reply) -> dict[str, Any]:
    """The wire form of a reply."""
    return {
        "text": reply.text, "toolCalls": [msgspec.to_builtins(c) for c in reply.tool_calls], "finishReason": reply.finish_reason,
        "servedBy": reply.served_by, "cached": reply.cached, "attempts": reply.attempts,
        "usage": None if reply.usage is None else {"input": reply.usage.input, "output": reply.usage.output},
    }  # fmt: skip


@app.command()
@placed
def cache(place: Place) -> None:
    """What the cache holds for this tenant, by namespace."""

    async def work() -> list[Held]:
        return gateway.look(place.store, place.tenant, kept.held)

    found = carry_out(place, work)
    if place.as_json:
        place.print_json({"tenant": place.tenant, "namespaces": [msgspec.to_builtins(h) for h in found]})
    else:
        lines = [say("gateway.held", place.lang, namespace=h.namespace, replies=h.replies, size=h.bytes) for h in found]
        sys.stdout.write("\n".join(lines or [say("gateway.nothing", place.lang)]) + "\n")


@app.command()
@placed
def usage(place: Place) -> None:
    """What this tenant's calls have cost, by session and source."""

    async def work() -> list[Used]:
        return gateway.look(place.store, place.tenant, accounts.usage)

    found = carry_out(place, work)
    if place.as_json:
        place.print_json({"tenant": place.tenant, "usage": [_used_json(u) for u in found]})
    else:
        lines = [say("gateway.used", place.lang, **_used_json(u)) for u in found]
        sys.stdout.write("\n".join(lines or [say("gateway.nothing", place.lang)]) + "\n")


def _used_json(used: Used) -> dict[str, Any]:
    """Credits as decimal text; `unknownCalls` have a cost that nobody knows."""
    return {"session": used.session, "source": used.source, "calls": used.calls, "input": used.input, "output": used.output,
            "held": _credits(used.held_micro), "spent": _credits(used.spent_micro), "unknownCalls": used.unknown}  # fmt: skip


def _credits(amount_micro: int) -> str:
    return format(Decimal(amount_micro) / MICRO, "f")


@app.command()
@placed
def held(place: Place) -> None:
    """Charges that nobody could settle yet: calls under way, cut off, or failed after they were sent."""

    async def work() -> list[Charged]:
        return gateway.look(place.store, place.tenant, accounts.held)

    found = carry_out(place, work)
    if place.as_json:
        place.print_json({"tenant": place.tenant, "held": [_charged_json(c) for c in found]})
    else:
        _print_charges(place, found)


@app.command()
@placed
def settle(
    place: Place,
    call_id: Annotated[str, typer.Argument(metavar="CHARGE", help="As `held` names it.")],
    spent: Annotated[str, typer.Option("--spent", metavar="CREDITS", help="What it really cost, by the provider's bill; 0 = nothing.")],
) -> None:
    """Say what a held charge has cost: the rest of what it held is free again."""

    async def work() -> Charged:
        return gateway.close(place.store, place.tenant, call_id, spent)

    closed = carry_out(place, work)
    if place.as_json:
        place.print_json({"tenant": place.tenant, "charge": _charged_json(closed)})
    else:
        _print_charges(place, [closed])


def _charged_json(charged: Charged) -> dict[str, Any]:
    """`amount` null = nobody knows."""
    amount = None if charged.amount_micro is None else _credits(charged.amount_micro)
    return {"callId": charged.call_id, "session": charged.session, "source": charged.source, "kind": charged.kind, "amount": amount,
            "attempts": charged.attempts, "at": charged.at}  # fmt: skip


def _print_charges(place: Place, found: list[Charged]) -> None:
    lines = [say("gateway.charge", place.lang, **{**_charged_json(c), "kind": say(f"charge.{c.kind}", place.lang)}) for c in found]
    sys.stdout.write("\n".join(lines or [say("gateway.nothing", place.lang)]) + "\n")


@app.command()
@placed
def record(place: Place, run_id: Annotated[str, typer.Argument(metavar="RUN", help="The run.")]) -> None:
    """Print the replies of a run as a script file: `script:FILE` says them again."""

    async def work() -> bytes:
        return await gateway.recorded(place.store, place.tenant, run_id)

    sys.stdout.write(carry_out(place, work).decode())


@app.command()
@placed
def erase(place: Place, namespace: NamespaceOption = None) -> None:
    """Forget the kept replies of this tenant, or of one of its namespaces. What was charged stays."""

    async def work() -> int:
        return gateway.change(place.store, place.tenant, lambda tx, tenant: kept.erase(tx, tenant, namespace)) or 0

    erased = carry_out(place, work)
    if place.as_json:
        place.print_json({"tenant": place.tenant, "namespace": namespace, "erased": erased})
    else:
        sys.stdout.write(say("gateway.erased", place.lang, erased=erased) + "\n")
