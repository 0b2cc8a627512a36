"""A run as a person reads it: its settings, how much of its budget is used, then what happened when, and the outcome.

One reader of records for all: `show` feeds it a whole log, `watch` one record after the other. A call is a line of its intent, a line of
its result and a line of its step; where a reply was repaired, the raw text stands beside what was read.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from polyloop.kernel.objects import RunResult
from polyloop.kernel.records import canonical
from polyloop.words.catalog import Lang, say

from .cells import fit, pad, plain
from .frame import Place, outcome

Shown = dict[str, Any]

#: Columns where nobody says how wide the page is, and the fewest that are used.
COLUMNS: Final = 120
NARROWEST: Final = 60
BAR: Final = 24
THOUSAND_S: Final = 1_000_000  # ms
#: Columns of the time and the number in front of a line.
MARGIN: Final = 18
#: Characters before the first difference that are still shown.
BEFORE: Final = 12
COLOURS: Final = {"ok": "32", "error": "31", "unknown": "33", "rejected": "31", "quiet": "2"}
#: Kinds shown in one line by some of their fields.
NOTES: Final[dict[str, tuple[str, ...]]] = {
    "resume_started": ("attempt", "holder"), "resume_refused": ("fields",), "replay": ("of", "policy", "decision", "attempt"),
    "drift_accepted": ("fields", "by"), "action_deferred": ("awaited", "token"), "action_resolved": ("decision", "by"),
    "tail_repaired": ("first_seq", "reason"), "cancel_requested": ("by", "reason"),
    "run_ended": ("reason", "detail", "completed_by"),
}  # fmt: skip


def columns() -> int:
    """How wide the page is: the terminal's width, or a fixed one."""
    return max(NARROWEST, shutil.get_terminal_size((COLUMNS, 24)).columns - 1) if sys.stdout.isatty() else COLUMNS


class Timeline:
    """Lines of a run, from its records in order. `styled` = with colours."""

    def __init__(self, lang: Lang, columns: int, *, styled: bool = False) -> None:
        self.lang: Lang = lang
        self.columns, self.styled = columns, styled
        self.began = 0
        self.said: Shown = {}  # the reply that is being read
        self.below = {"valid_steps": 0, "iterations": 0}  # used by sub-runs
        self.spent = {"model": 0.0, "action": 0.0, "store": 0.0}
        self.readers: dict[str, Callable[[Shown], list[str]]] = {
            "model_intent": self._asked, "model_result": self._replied, "action_intent": self._intended,
            "action_result": self._returned, "step": self._stepped,
        }  # fmt: skip

    # --- settings and budgets ----------------------------------------------------------------------------------

    def settings(self, start: Shown) -> list[str]:
        """Which agent, under which settings."""
        self.began = start["at"]
        d = start["definition"]
        lines = [f"{plain(d['id'])} {plain(d['version'])}  {d['interpreter']}"]
        more = {**start["assembly"], **start["binding"]}
        if start["overflow"] != "none":
            more["overflow"] = start["overflow"]
        more |= {name: start[name] for name in ("parent", "root") if start[name]}
        return [*lines, *(fit(f"  {key} = {value}", self.columns) for key, value in more.items())]

    def bars(self, start: Shown, result: RunResult, last_at: int) -> list[str]:
        """How much of each budget is used, and on what the time went."""
        budget, c = start["budget"], result.counters
        used: list[tuple[str, float, float]] = [
            ("valid_steps", c.valid_steps + self.below["valid_steps"], budget["max_valid_steps"]),
            ("iterations", c.iterations + self.below["iterations"], budget["max_iterations"]),
        ]
        if budget["wall_clock_s"]:
            used.append(("wall_clock", (last_at - start["at"]) / 1000, budget["wall_clock_s"]))
        if budget["working_time_s"]:
            used.append(("working_time", sum(self.spent.values()) / 1000, budget["working_time_s"]))
        labels = [say(f"show.{name}", self.lang) for name, _, _ in used]
        lines = [f"  {pad(label, 14)}{_bar(n, of)}  {n:g}/{of:g}" for label, (_, n, of) in zip(labels, used, strict=True)]
        spent = {name: f"{ms:.0f}" for name, ms in self.spent.items()}
        return [*lines, "  " + say("show.spent", self.lang, rejections=c.rejections_total, **spent)]

    # --- what happened ----------------------------------------------------------------------------------------

    def feed(self, record: Shown) -> list[str]:
        """The lines of the next record."""
        if "erased" in record:
            return [self._line(record, say("show.erased", self.lang), "quiet")]
        kind = record["kind"]
        if kind in NOTES:
            return [self._line(record, f"· {kind}  " + _fields(record, NOTES[kind]))]
        reader = self.readers.get(kind)
        return reader(record) if reader else []

    def _line(self, record: Shown, text: str, style: str = "") -> str:
        line = f"{_clock(record['at'] - self.began)} {record['seq']:>6}  {fit(text, self.columns - MARGIN)}"
        return self._coloured(line, style)

    def _coloured(self, line: str, style: str) -> str:
        return f"\x1b[{COLOURS[style]}m{line}\x1b[0m" if self.styled and style in COLOURS else line

    def _asked(self, record: Shown) -> list[str]:
        self.said = {"iteration": record["iteration"]}
        return []

    def _replied(self, record: Shown) -> list[str]:
        self.said = {**self.said, **record}
        self.spent["model"] += record["ms"]
        head = f"#{self.said.get('iteration', '?')} model  {record['ms']:.0f} ms"
        if record["error"]:
            sent = "sent" if record["error"]["sent"] else "not sent"
            return [self._line(record, f"{head}  {record['error']['code']} ({sent}) {record['error']['message']}", "error")]
        usage = record["usage"]
        if usage:
            head += f"  {usage['input']} in, {usage['output']} out"
        calls = [f"{c['name']} {c['arguments']}" for c in record["tool_calls"]]
        return [self._line(record, f"{head}  {' '.join([record['text'], *calls])}")]

    def _intended(self, record: Shown) -> list[str]:
        return [self._line(record, f"-> {record['tool']}  {record['effect']}/{record['replay']}  {_json(record['args'])}")]

    def _returned(self, record: Shown) -> list[str]:
        self.spent["action"] += record["ms"] or 0
        for name in self.below:
            self.below[name] += sum(proof[name] for proof in record["evidence"])
        took = "" if record["ms"] is None else f"  {record['ms']:.0f} ms"
        code = f" ({record['code']})" if record["code"] else ""
        leaked = "  " + say("show.leaked", self.lang) if record["leaked"] else ""
        seen = " ".join(p["text"] if p["type"] == "text" else f"[{p['type']}]" for p in record["observation"])
        return [self._line(record, f"<- {record['status']}{code}{took}{leaked}  {seen}", record["status"])]

    def _stepped(self, record: Shown) -> list[str]:
        t, refused = record["timings"], record["rejection"]
        self.spent["store"] += t["store"]
        shown = ("assemble", "model", "interpret", "action", "store")
        took = ", ".join(f"{name} {t[name]:.0f}" for name in shown if t[name] is not None)
        lines = [self._line(record, f"=  {record['tier']}  {record['tool'] or '-'}  {record['outcome']}  {took} ms", "rejected" if refused else "")]
        if refused:
            lines.append(self._beneath(f"{refused['code']}: {refused['message']}"))
        if record["repairs"]:
            lines += self._repaired(record)
        return lines

    def _repaired(self, record: Shown) -> list[str]:
        """The raw reply beside the text that was judged, from where they part."""
        raw, read = str(self.said.get("text", "")), str(record["raw_output"])
        start = max(0, _parting(raw, read) - BEFORE)
        half = (self.columns - MARGIN - 7) // 2
        left, right = (fit(("…" if start else "") + text[start:], half) for text in (raw, read))
        names = say("show.repairs", self.lang, repairs=", ".join(record["repairs"]))
        heads = [say(f"show.{side}", self.lang) for side in ("raw", "read")]
        rows = [names, f"{pad(heads[0], half)} | {heads[1]}", f"{pad(left, half)} | {right}"]
        return [self._beneath(row) for row in rows]

    def _beneath(self, text: str) -> str:
        return self._coloured(" " * MARGIN + "   " + fit(text, self.columns - MARGIN - 3), "quiet")

    # --- the end ------------------------------------------------------------------------------------------------

    def outcome(self, result: RunResult) -> list[str]:
        """What became of it."""
        lines = [outcome(result, self.lang)]
        if result.error is not None:
            lines.append(fit(_json(result.error), self.columns))
        return [*lines, f"head {result.head_hash}"]


def _bar(used: float, of: float) -> str:
    full = min(BAR, round(BAR * used / of))
    return f"[{'#' * full}{'-' * (BAR - full)}]"


def _clock(ms: int) -> str:
    """Time since the start, in nine columns."""
    if ms < THOUSAND_S:
        return f"{ms / 1000:+9.3f}"
    minutes, seconds = divmod(ms // 1000, 60)
    return f"{f'+{minutes // 60}:{minutes % 60:02}:{seconds:02}':>9}"


def _fields(record: Shown, names: Iterable[str]) -> str:
    said = ((name, record.get(name)) for name in names)
    return " ".join(f"{name}={value if isinstance(value, str) else _json(value)}" for name, value in said if value not in ("", None))


def _json(value: object) -> str:
    return canonical(value).decode("utf-8", "surrogatepass")


def _parting(one: str, other: str) -> int:
    """Where two texts begin to differ."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def styled() -> bool:
    """Whether lines are coloured: on a terminal whose owner has not said otherwise."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_timeline(place: Place, result: RunResult, records: Sequence[Shown]) -> None:
    """A whole run on stdout."""
    timeline = Timeline(place.lang, columns(), styled=styled())
    start = records[0]
    head = timeline.settings(start)
    rows = [line for record in records for line in timeline.feed(record)]
    bars = timeline.bars(start, result, records[-1]["at"])
    print_lines([result.run_id, *head, *bars, *rows, *timeline.outcome(result)])


def print_lines(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
