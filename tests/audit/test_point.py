"""A point whose model invents its evidence: well-formed files are not enough."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from polyloop.app.phases import carry_out
from polyloop.app.store import open_runs
from polyloop.audit.flow import point_flow
from polyloop.audit.source import source_of
from polyloop.formats import read
from polyloop.phases import FlowResult
from polyloop.workspace import Workspace

TEXT = "# A notice\n\nTo all: the meeting is on 1 May 2025.\n"


def script(folder: Path, phase: str, path: str, value: Any) -> None:
    calls = [("workspace_write", {"path": path, "text": json.dumps(value), "ifAbsent": False}), ("submit", {"summary": "done"})]
    lines = [json.dumps({"text": json.dumps({"action": {"tool": tool, "args": args}})}) for tool, args in calls]
    (folder / f"{phase}.jsonl").write_text("\n".join(lines) + "\n")


def audited(folder: Path, quote: str) -> FlowResult:
    finding = {"rule": "own", "severity": "error", "message": "m", "evidence": {"file": "a.md", "quote": quote, "location": "line 3"}}
    script(folder, "plan", "plan.json", {"pointId": "p1", "file": "a.md", "groups": [{"name": "x", "rules": ["own"]}]})
    script(folder, "execute", "findings/x.json", {"pointId": "p1", "group": "x", "findings": [finding]})
    script(folder, "summarize", "output.json", {"pointId": "p1", "file": "a.md", "counts": {"error": 1}, "findings": [finding]})
    places = {"base": str(folder), "skills": "audit", "workspace": str(folder / "ws"), "workspace_read_only": '["data", "attempts"]'}
    flow = point_flow("f", "acme", "p1", "a.md", "en", places)
    flow = replace(flow, phases=tuple(replace(p, assembly={**p.assembly, "model": f"script:{p.name}.jsonl"}) for p in flow.phases))
    (folder / "ws/data").mkdir(parents=True)
    (folder / "ws/data/document.jsonl").write_bytes(source_of(read("a.md", TEXT.encode())))

    async def work() -> FlowResult:
        async with open_runs(str(folder / "runs.db"), "acme", dedicated=True) as runs, runs.holding():
            return await carry_out(runs, flow, Workspace(folder / "ws", read_only=("data", "attempts")))

    return asyncio.run(work())


def test_a_true_quote_passes_every_phase(tmp_path: Path) -> None:
    assert [(p.phase, p.state, p.attempt) for p in audited(tmp_path, "1 May 2025").phases] == [
        ("plan", "completed", 1), ("execute", "completed", 1), ("summarize", "completed", 1),
    ]  # fmt: skip


def test_S2_26_the_prompt_of_a_phase_is_made_from_what_the_one_before_left(tmp_path: Path) -> None:
    result = audited(tmp_path, "1 May 2025")

    async def shown(run: str) -> str:
        async with open_runs(str(tmp_path / "runs.db"), "acme") as runs:
            return "\n".join(segment.text for segment in (await runs.request(run)).segments)

    texts = [asyncio.run(shown(p.run)) for p in result.phases]
    assert [(tmp_path / "ws" / path).read_text() in text for path, text in zip(("plan.json", "findings/x.json"), texts[1:], strict=True)] == [
        True,
        True,
    ]
    assert '"phase": "plan"' in texts[0]


def test_an_invented_quote_fails_the_phase_that_wrote_it_in_every_attempt(tmp_path: Path) -> None:
    result = audited(tmp_path, "2 May 2025")
    assert [(p.phase, p.state, p.attempt) for p in result.phases] == [("plan", "completed", 1), ("execute", "failed", 2)]
    assert "2 May 2025" in result.phases[-1].problems[0]
    assert (tmp_path / "ws/attempts/1/findings/x.json").exists()
