"""A run as a person reads it: settings, then one row per step, then the outcome."""

from __future__ import annotations

import sys
from typing import Any, cast

from polyloop.kernel.objects import RunResult
from polyloop.words.catalog import say

from .frame import Place

#: Characters of arguments or messages shown in a row.
ROW_CHARS = 60


def print_timeline(place: Place, result: RunResult, records: list[dict[str, Any]]) -> None:
    start, lines = records[0], list[str]()
    budget, definition = start["budget"], start["definition"]
    lines.append(f"{result.run_id}  {definition['id']} {definition['version']}  {definition['interpreter']}")
    lines += [f"  {key} = {value}" for key, value in {**start["assembly"], **start["binding"]}.items()]
    c = result.counters
    lines.append(
        say(
            "run.counts",
            place.lang,
            valid=c.valid_steps,
            max_valid=budget["max_valid_steps"],
            iterations=c.iterations,
            max_iterations=budget["max_iterations"],
            rejections=c.rejections_total,
        )
    )
    lines += [row for record in records if (row := _row(record))]
    detail = say(f"wait.{result.waiting.kind}", place.lang) if result.waiting else result.detail
    lines.append(say(f"run.{result.reason or result.state}", place.lang, detail=detail))
    sys.stdout.write("\n".join(lines) + f"\nhead {result.head_hash}\n")


def _row(record: dict[str, Any]) -> str:
    kind, seq = record["kind"], record["seq"]
    if kind == "step":
        action = cast("dict[str, Any] | None", record.get("action")) or {}
        said = record["rejection"]["message"] if record["rejection"] else str(action.get("args", ""))
        repairs = f" [{', '.join(record['repairs'])}]" if record["repairs"] else ""
        took = record["timings"]["action"]
        ms = f"{took:.0f} ms" if took is not None else "-"
        return f"{seq:>6}  {record['tier']}  {record['tool'] or '-':<22} {record['outcome']:<14} {ms:>9}  {_short(said)}{repairs}"
    if kind in ("resume_started", "replay", "action_deferred", "action_resolved", "cancel_requested", "resume_refused", "tail_repaired"):
        shown = {k: v for k, v in record.items() if k in ("policy", "decision", "attempt", "awaited", "by", "reason") and v not in ("", None)}
        return f"{seq:>6}  ·  {kind:<22} {_short(' '.join(f'{k}={v}' for k, v in shown.items()))}"
    return ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= ROW_CHARS else line[: ROW_CHARS - 1] + "…"
