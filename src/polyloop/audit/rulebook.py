"""`rules:audit`: a deterministic auditor that speaks json-text/1 like any model, and works without a key or a network.

Theory of operation. A pure function of the messages: what it was told to do stands in the task, what it has seen stands in the
observations of its own calls. So it goes on after a kill as any model would, from the log. It reads the document with the
tools of its run, checks what it has read, and writes what it has found; what it has not been shown it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from polyloop.audit.checks import RULES
from polyloop.kernel.seams import Message

from .findings import GROUPS, counts, found, written
from .source import DOCUMENT

PLAN: Final = "plan.json"
OUTPUT: Final = "output.json"
FINDINGS: Final = "findings"
#: The line of a task that a program can read.
TASK: Final = "TASK "
LINES: Final = 2000


class Seen(Struct, frozen=True):
    """A call it made, and what it was shown of it."""

    tool: str
    args: dict[str, Any]
    text: str

    @property
    def ok(self) -> bool:
        return self.text.startswith(f"[{self.tool}: ok]")

    @property
    def value(self) -> Any:
        return json.loads(self.text.partition("\n")[2])


class Talk(Struct, frozen=True):
    """The messages, read: the task, and the calls that went well, in their order."""

    task: dict[str, str]
    seen: tuple[Seen, ...]

    def of(self, tool: str, **args: object) -> list[Seen]:
        """Calls of a tool with these arguments among its own."""
        return [s for s in self.seen if s.tool == tool and all(s.args.get(name) == value for name, value in args.items())]


def reply(messages: Sequence[Message]) -> str:
    """What the auditor says next. Raises ValueError when there is no task it knows."""
    talk = _talk(messages)
    move = _MOVES.get(talk.task.get("phase", ""))
    if move is None:
        raise ValueError("the messages hold no task of an audit")
    reflection, tool, args = move(talk)
    return json.dumps({"reflection": reflection, "action": {"tool": tool, "args": args}}, ensure_ascii=False)


Move = tuple[str, str, dict[str, Any]]


def _plan(talk: Talk) -> Move:
    looked = talk.of("workspace_read_lines", path=DOCUMENT)
    if not looked:
        return "First see what it is.", "workspace_read_lines", {"path": DOCUMENT, "count": 1}
    if not talk.of("workspace_write", path=PLAN):
        lang = json.loads(looked[0].value["lines"][0])["lang"]
        applies = {rule.name for rule in RULES if lang in rule.langs}
        groups = [{"name": name, "rules": [rule for rule in rules if rule in applies]} for name, rules in GROUPS.items()]
        plan = {"pointId": talk.task["pointId"], "file": talk.task["file"], "lang": lang, "groups": groups}
        return "These checks apply.", "workspace_write", _file(PLAN, json.dumps(plan, ensure_ascii=False, indent=1) + "\n")
    return "The plan stands.", "submit", {"summary": f"{len(GROUPS)} groups of checks are planned for {talk.task['file']}."}


def _execute(talk: Talk) -> Move:
    if (page := _next_page(talk, PLAN)) is not None:
        return "What was planned?", "workspace_read_lines", page
    if (page := _next_page(talk, DOCUMENT)) is not None:
        return "Read the document.", "workspace_read_lines", page
    plan = json.loads("\n".join(_lines(talk, PLAN)))
    findings = found("\n".join(_lines(talk, DOCUMENT)).encode(), talk.task["lang"])
    total = 0
    for group in plan["groups"]:
        path = f"{FINDINGS}/{group['name']}.json"
        of_group = [finding for rule in group["rules"] for finding in findings.get(rule, ())]
        total += len(of_group)
        if not talk.of("workspace_write", path=path):
            text = written({"pointId": talk.task["pointId"], "group": group["name"]}, of_group)
            return f"{len(of_group)} findings of {group['name']}.", "workspace_write", _file(path, text)
    return "All groups are written.", "submit", {"summary": f"{total} findings in {len(plan['groups'])} groups."}


def _summarize(talk: Talk) -> Move:
    listed = talk.of("workspace_list")
    if not listed:
        return "What was found?", "workspace_list", {"glob": f"{FINDINGS}/*.json"}
    found_in = [file["path"] for file in listed[-1].value["files"]]
    findings: list[dict[str, Any]] = []
    for path in found_in:
        if (page := _next_page(talk, path)) is not None:
            return f"Read {path}.", "workspace_read_lines", page
        findings += json.loads("\n".join(_lines(talk, path)))["findings"]
    told = counts(findings)
    if not talk.of("workspace_write", path=OUTPUT):
        head = {"pointId": talk.task["pointId"], "file": talk.task["file"], "counts": told, "from": found_in}
        return "Put it together.", "workspace_write", _file(OUTPUT, written(head, findings))
    return "The result stands.", "submit", {"summary": f"{len(findings)} findings.", "result": told}


_MOVES: Final[Mapping[str, Callable[[Talk], Move]]] = {"plan": _plan, "execute": _execute, "summarize": _summarize}


def _file(path: str, text: str) -> dict[str, Any]:
    return {"path": path, "text": text, "ifAbsent": False}


def _next_page(talk: Talk, path: str) -> dict[str, Any] | None:
    """The arguments of the next read, None when the file has been read to its end."""
    pages = talk.of("workspace_read_lines", path=path)
    following = pages[-1].value.get("nextStart") if pages else 1
    return None if following is None else {"path": path, "start": following, "count": LINES}


def _lines(talk: Talk, path: str) -> list[str]:
    return [line for page in talk.of("workspace_read_lines", path=path) for line in page.value["lines"]]


def _talk(messages: Sequence[Message]) -> Talk:
    begun = next((at for at, message in enumerate(messages) if message.role == "assistant"), len(messages))
    # The task comes last: what stands before it may quote anything.
    told = [line for message in messages[:begun] for line in message.text.split("\n") if line.startswith(TASK)]
    seen: list[Seen] = []
    call: tuple[str, dict[str, Any]] | None = None
    for message in messages[begun:]:
        text = message.text
        if message.role == "assistant":
            action = cast("dict[str, Any]", json.loads(text)["action"])
            call = (action["tool"], action["args"])
        elif call is not None:
            if (one := Seen(*call, text)).ok:
                seen.append(one)
            call = None
    return Talk(json.loads(told[-1].removeprefix(TASK)) if told else {}, tuple(seen))
