"""The `polyloop` command."""

from __future__ import annotations

import io
import sys
from typing import Final

import typer

from . import approvals, canvas, docs, gateway, phases, runs, skills, spend
from .answer import answer
from .audit import audit
from .demo import demo
from .frame import LangOption, StoreOption, TenantOption, placed, refuse_word
from .guide import guide
from .watch import watch

app: Final = typer.Typer(name="polyloop", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)

COMMANDS: Final = {
    "demo": demo, "audit": audit,
    "run": runs.run, "resume": runs.resume, "cancel": runs.cancel, "settle": runs.settle, "abandon": runs.abandon, "fork": runs.fork,
    "runs": runs.runs_, "show": runs.show, "log": runs.log, "verify": runs.verify, "export": runs.export, "tools": runs.tools,
    "schema": runs.schema, "watch": watch, "guide": guide, "answer": answer,
}  # fmt: skip

for _name, _command in COMMANDS.items():
    app.command(_name)(placed(_command))
app.add_typer(approvals.app, name="approvals")
app.add_typer(canvas.app, name="canvas")
app.add_typer(docs.app, name="docs")
app.add_typer(gateway.app, name="gateway")
app.add_typer(phases.app, name="phases")
app.add_typer(skills.app, name="skills")
app.add_typer(spend.app, name="spend")


@app.callback()
def options(ctx: typer.Context, store: StoreOption = None, tenant: TenantOption = None, lang: LangOption = None) -> None:
    """A durable agent runtime: nothing is called done until it has been proved."""
    ctx.obj = {"store": store, "tenant": tenant, "lang": lang}


def main() -> None:
    # What is told may hold half a character, which UTF-8 cannot carry: it is shown as its JSON escape.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    for word in sys.argv[1:]:
        if not word.isprintable() and any("\udc80" <= char <= "\udcff" for char in word):  # no record could hold it
            refuse_word(word, as_json="--json" in sys.argv)
    app()


if __name__ == "__main__":
    main()
