"""An audit point: one document, one workspace, three phases that exchange files (S2.3, S2.4, S2.12).

plan 50 steps -> plan.json; execute 50 -> findings/*.json; summarize 16 -> output.json. One definition for all three; budgets
and tools are the runs'. Quotes are proved before a phase counts as done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from polyloop.kernel.objects import Agent, Budget, Segment
from polyloop.phases import Flow, Phase, PhaseOutcome, Required
from polyloop.phases.phase import Prompt
from polyloop.workspace import Workspace

from .findings import FINDINGS_SCHEMA, OUTPUT_SCHEMA, PLAN_SCHEMA, unproved
from .rulebook import FINDINGS, OUTPUT, PLAN, TASK
from .source import DOCUMENT

AGENT: Final = Agent("auditor")
ATTEMPTS: Final = 2
#: Characters of an earlier phase's file that are put into a prompt; the whole file can be read with the tools.
SHOWN_CHARS: Final = 8_000
_PLAN_TOOLS: Final = ("workspace_read_lines", "workspace_write", "workspace_grep", "workspace_exec", "submit")
TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "plan": _PLAN_TOOLS,
    "execute": (*_PLAN_TOOLS, "skill_search", "skill_read_file"),
    "summarize": ("workspace_read_lines", "workspace_write", "workspace_list", "submit"),
}
STEPS: Final[Mapping[str, int]] = {"plan": 50, "execute": 50, "summarize": 16}
_RULES: Final = f"""You audit one document. It lies in {DOCUMENT}: the first line tells of it, each further line is a JSON array
of blocks with their text and place (a line that begins with + goes on with the line before). Never change it.
What you quote must stand verbatim in the text of a block.
Files you must write are JSON. Work only with your tools; when your files are written, submit."""
_TASKS: Final[Mapping[str, str]] = {
    "plan": f"Look at the document and decide what to check. Write {PLAN}: "
    '{"pointId", "file", "groups": [{"name", "rules": [...]}]}; a group is checked and written together.',
    "execute": f"Carry out {PLAN}. For each group write {FINDINGS}/<group>.json: "
    '{"pointId", "group", "findings": [{"rule", "severity": "error|warning|info", "message", "evidence": {"file", "quote", "location"}}]}.',
    "summarize": f"Read {FINDINGS}/*.json and write {OUTPUT}: "
    '{"pointId", "file", "counts": {"error", "warning", "info"}, "findings": [...]}, findings as they are.',
}
_REQUIRED: Final[Mapping[str, Required]] = {
    "plan": Required(PLAN, schema=PLAN_SCHEMA),
    "execute": Required(dir=FINDINGS, pattern="*.json", min_files=1, schema=FINDINGS_SCHEMA),
    "summarize": Required(OUTPUT, schema=OUTPUT_SCHEMA),
}


def point_flow(flow: str, scope: str, point: str, file: str, lang: str, assembly: Mapping[str, str]) -> Flow:
    """The flow of a point. `assembly`: model and workspace, the same in all its runs; `lang`: that of the findings' messages."""
    phases = tuple(
        Phase(
            name, AGENT, Budget(STEPS[name], 2 * STEPS[name]), _prompt(name, point, file, lang),
            {**assembly, "tools": json.dumps(TOOLS[name]), "completes": '["submit"]', "permission_mode": "auto"},
            (_REQUIRED[name],), ATTEMPTS, check=None if name == "plan" else unproved,
        )
        for name in STEPS
    )  # fmt: skip
    return Flow(f"{flow}.{point}", scope, phases)


def _prompt(name: str, point: str, file: str, lang: str) -> Prompt:
    def prompt(workspace: Workspace, before: Sequence[PhaseOutcome]) -> tuple[Segment, ...]:
        task = {"phase": name, "pointId": point, "file": file, "lang": lang}
        earlier = [
            Segment(f"from {path}", text=f"{path}:\n{workspace.read_bytes(path).decode()[:SHOWN_CHARS]}")
            for outcome in before[-1:] for path in outcome.outputs
        ]  # fmt: skip
        return (
            Segment("rules", "system", _RULES), Segment("tools", "system", slot="tools"), *earlier,
            Segment("task", text=f"{_TASKS[name]}\nMessages in {lang}.\n{TASK}{json.dumps(task, ensure_ascii=False)}"),
        )  # fmt: skip

    return prompt
