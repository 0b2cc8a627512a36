"""What all commands share: where the store is, how results and errors are printed, which exit code they give."""

from __future__ import annotations

import functools
import inspect
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TypeVar, cast, get_type_hints

import typer

from polyloop.app.loop import carried_out
from polyloop.contract.problem import Problem, ProblemError
from polyloop.kernel.objects import RunResult
from polyloop.words.catalog import Lang, detail, lang_of, say

from .cells import plain

T = TypeVar("T")

EXIT_BY_REASON: Final = {
    "completed": 0, "budget_exhausted": 8, "stalled": 9, "unresolved_action": 4, "cancelled": 130, "owned_elsewhere": 7, "store_failed": 1,
}  # fmt: skip
#: Of a run that waits for a person, also where a sub-run of it asks.
EXIT_ASKED: Final = 5
EXIT_BY_WAIT: Final = {"task": 10, "run": 10}

StoreOption = Annotated[str | None, typer.Option("--store", help="Store: a path or URL. [env: POLYLOOP_STORE]", show_default=False)]
TenantOption = Annotated[str | None, typer.Option("--tenant", help="Tenant. [env: POLYLOOP_TENANT; default: local]", show_default=False)]
LangOption = Annotated[str | None, typer.Option("--lang", help="zh or en. [env: POLYLOOP_LANG; default: zh]", show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


class Place:
    """Where a command works: the options given before the subcommand, those after it, then the environment."""

    def __init__(self, ctx: typer.Context, store: str | None, tenant: str | None, lang: str | None, *, as_json: bool) -> None:
        before = cast("dict[str, str | None]", ctx.find_root().obj or {})
        home = os.environ.get("POLYLOOP_HOME") or ".polyloop"
        named = store or before.get("store") or os.environ.get("POLYLOOP_STORE")
        #: Whether somebody has said which store.
        self.store_named = bool(named)
        self.store = named or str(Path(home) / "runs.db")
        self.tenant = tenant or before.get("tenant") or os.environ.get("POLYLOOP_TENANT") or "local"
        said = lang or before.get("lang") or os.environ.get("POLYLOOP_LANG") or "zh"
        self.lang: Lang = lang_of(said)
        self.as_json = as_json

    def print_json(self, value: object) -> None:
        sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def placed(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function `(place, ...)`: it gets the options all commands share, in front of them a Place."""
    own = list(inspect.signature(command).parameters.values())[1:]
    shared = {"store": StoreOption, "tenant": TenantOption, "lang": LangOption, "as_json": JsonOption}

    @functools.wraps(command)
    def run(ctx: typer.Context, **given: Any) -> None:
        common = {name: given.pop(name) for name in shared}
        command(Place(ctx, **common), **given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    first = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    last = [inspect.Parameter(name, keyword, default=False if name == "as_json" else None, annotation=kind) for name, kind in shared.items()]
    hints = get_type_hints(command, include_extras=True)
    parameters = [first, *(p.replace(kind=keyword, annotation=hints[p.name]) for p in own), *last]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def fail(place: Place, error: ProblemError) -> NoReturn:
    """Print a typed error where its reader looks, and leave with its exit code."""
    if place.as_json:
        place.print_json({"error": error.problem.as_json()})
    else:
        sys.stderr.write(f"{error.problem.kind}: {error.problem.message}\n")
        for field in cast("list[dict[str, object]]", error.problem.details.get("fields") or []):
            sys.stderr.write(f"  {field['path']}: {field['logged']!r} -> {field['offered']!r}\n")
    raise typer.Exit(error.problem.exit_code)


def refuse_word(word: str, *, as_json: bool) -> NoReturn:
    """Leave because of a word of the command line that is no Unicode text."""
    refused = Problem("validation", f"the argument {word!r} is not valid Unicode", operation="arguments", stage="arguments")
    sys.stdout.write(json.dumps({"error": refused.as_json()}) + "\n" if as_json else "")
    sys.stderr.write("" if as_json else f"{refused.kind}: {refused.message}\n")
    sys.exit(refused.exit_code)


def carry_out(place: Place, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a command's coroutine; typed errors become exit codes."""
    try:
        return carried_out(work())
    except ProblemError as error:
        fail(place, error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None


def exit_code(result: RunResult) -> int:
    """The exit code of a run's outcome (interface.md)."""
    if result.state == "waiting" and result.waiting is not None:
        return EXIT_BY_WAIT.get(result.waiting.kind, EXIT_ASKED)
    if result.reason:
        return EXIT_BY_REASON.get(result.reason, 1)
    return 130 if result.state == "interrupted" else 0


def outcome(result: RunResult, lang: Lang) -> str:
    """What became of a run, in one sentence."""
    told = say(f"wait.{result.waiting.kind}", lang) if result.waiting else detail(result.detail, lang)
    return say(f"run.{result.reason or result.state}", lang, detail=plain(told))


def leave(code: int) -> NoReturn:
    """Leave at once: work that ignored its cancellation must not hold the process back."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run_json(result: RunResult) -> dict[str, Any]:
    """The wire form `polyloop.run.v1`."""
    c, w = result.counters, result.waiting
    return {
        "schema": "polyloop.run.v1", "runId": result.run_id, "tenant": result.scope, "ended": result.ended, "state": result.state,
        "reason": result.reason or None, "detail": result.detail or None, "completedBy": result.completed_by or None, "result": result.result,
        "counters": {
            "iterations": c.iterations, "validSteps": c.valid_steps, "rejectionsTotal": c.rejections_total,
            "rejectionsConsecutive": c.rejections_consecutive, "identicalStreak": c.identical_streak,
        },
        "waiting": None if w is None else {"kind": w.kind, "token": w.token, "until": w.until or None}, "error": result.error,
        "persisted": result.persisted, "lastSeq": result.last_seq, "headHash": result.head_hash,
    }  # fmt: skip


def command_line(place: Place, *words: str) -> str:
    """A command to type, with the store and tenant that are not the default ones; the program by its path if it is not on the PATH."""
    out = ["polyloop" if shutil.which("polyloop") else str(Path(sys.executable).with_name("polyloop")), *words]
    if place.store != str(Path(".polyloop") / "runs.db"):
        out += ["--store", place.store]
    if place.tenant != "local":
        out += ["--tenant", place.tenant]
    return shlex.join(out)
