"""Runs of one store, one after the other, in this process; their models read from a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polyloop.app.answers import answer
from polyloop.app.request_file import load
from polyloop.app.runs import Runs
from polyloop.app.store import open_runs
from polyloop.app.wiring import request_for, rewire, wire
from polyloop.kernel import records as r
from polyloop.kernel.objects import RunResult

DONE = ("submit", {"summary": "好"})


def act(tool: str, args: Mapping[str, Any]) -> str:
    return json.dumps({"text": json.dumps({"action": {"tool": tool, "args": args}})}) + "\n"


class Chain:
    """Runs of one store; each `run` is one opening of it, as if by another process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, str(folder / "s.db")

    def lay(self, run: str, *calls: tuple[str, Mapping[str, Any]], parent: str = "", tools: str = '"ask_user", "submit"', head: str = "") -> Path:
        (self.folder / f"{run}.jsonl").write_text("".join(act(*c) for c in calls))
        path = self.folder / f"{run}.toml"
        path.write_text(
            f'run_id = "{run}"\nmodel = "script:{run}.jsonl"\ntools = [{tools}]\nparent = "{parent}"\n{head}\n[agent]\nid = "a"\n'
            '[budget]\nmax_valid_steps = 20\nmax_iterations = 20\n[[segments]]\nname = "t"\ntext = "x"\n'
        )
        return path

    def run(self, path: Path) -> RunResult:
        async def main() -> RunResult:
            plan = load(path, {})
            async with open_runs(self.store, "local", dedicated=True) as runs, runs.holding():
                return await runs.run(request_for(plan), wire(plan))

        return asyncio.run(main())

    def on(self, work: Any) -> Any:
        async def main() -> Any:
            async with open_runs(self.store, "local", dedicated=True) as runs, runs.holding():
                return await work(runs)

        return asyncio.run(main())

    def answer(self, run: str, said: object) -> dict[str, Any]:
        return self.on(lambda runs: answer(runs, run, said))

    def resume(self, run: str, *accept: str) -> RunResult:
        async def main(runs: Runs) -> RunResult:
            asked = await runs.request(run)
            return await runs.resume(asked, rewire(asked), accept)

        return self.on(main)

    def cancel(self, run: str) -> RunResult:
        return self.on(lambda runs: runs.cancel(run, "", "person", rewire))

    def records(self, run: str) -> list[r.Record]:
        async def look(runs: Runs) -> list[r.Record]:
            return [r.decode(s.kind, s.body) for s in (await runs.read(run)).sealed if s.body is not None]

        return self.on(look)

    def asked(self, run: str) -> list[int]:
        """The rounds of the questions this run put to the person."""
        prompts: list[Any] = [one.prompt for one in self.records(run) if isinstance(one, r.ActionDeferred)]
        return [p["round"] for p in prompts]

    def heard(self, run: str) -> list[dict[str, Any]]:
        texts = [str(one.observation[0].text) for one in self.records(run) if isinstance(one, r.ActionResult)]
        return [json.loads(text) for text in texts if text.startswith("{")]
