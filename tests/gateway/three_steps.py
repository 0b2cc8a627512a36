"""A run of three steps that `local:` generated: look, look, submit. `python -m tests.gateway.three_steps` generates it again (extra `local`).

`local/three_steps.jsonl` = its replies as a script, with tokens and the digest of the weights; `local/pieces.json` = the text of each token.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

import polyloop
from polyloop.app.gateway import recorded
from polyloop.kernel.objects import Agent, Budget, Request, RunResult, Segment
from tests.gateway.desk import open_store, run

FOLDER = Path(__file__).parent / "local"
SCRIPT, PIECES = FOLDER / "three_steps.jsonl", FOLDER / "pieces.json"
FILES = {"a.txt": "a.txt: Rain fell.", "b.txt": "b.txt: The river rose."}
TASK = "Look at a.txt, look at b.txt, then submit."
#: One whole example, so that a very small model knows the way.
SHOWN = (
    ("user", TASK),
    ("assistant", '{"name":"look","arguments":{"path":"a.txt"}}'), ("user", "a.txt: Snow fell."),
    ("assistant", '{"name":"look","arguments":{"path":"b.txt"}}'), ("user", "b.txt: The road closed."),
    ("assistant", '{"name":"submit","arguments":{"summary":"Snow fell and the road closed."}}'),
    ("user", TASK),
)  # fmt: skip


@polyloop.tool(effect="read", replay="rerun")
async def look(path: Literal["a.txt", "b.txt"]) -> str:
    """Read one file."""
    return FILES[path]


@polyloop.tool(effect="write", replay="report_unknown", completes=True)
async def submit(summary: str) -> str:
    """Finish with a summary."""
    return summary


def request() -> Request:
    segments = tuple(Segment(f"part {n}", role, text) for n, (role, text) in enumerate(SHOWN))  # type: ignore[arg-type]  # roles of segments
    return Request("three", Agent("a", protocol="native-tools/1"), Budget(5, 5), segments, params={"max_tokens": 60})


async def made(folder: Path, model: Any) -> RunResult:
    async with open_store(folder / "runs.db", "local") as store:
        return await run(request(), store=store, model=model, tools=[look, submit])


def main() -> None:
    from polyloop.gateway.local import Llama

    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(made(Path(folder), "local:"))
        script = asyncio.run(recorded(str(Path(folder) / "runs.db"), "local", "three"))
    lines = [json.loads(line) for line in script.splitlines()]
    model = Llama()._model
    used = sorted({token for line in lines for token in line["items"][0]["tokens"]})
    SCRIPT.write_bytes(script)
    PIECES.write_text(json.dumps({token: model.detokenize([token]).decode() for token in used}, indent=0) + "\n")
    sys.stdout.write(f"{result.reason} {result.result}\n")


if __name__ == "__main__":
    main()
