"""Clauses of the canvas seed that hold across rooms: what a run is offered, how a person is asked, what stands for what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from polyloop.kernel import records as r
from tests.dialogue.chain import DONE, Chain
from tests.dialogue.test_injections import polyloop

Calls = list[tuple[str, dict[str, Any]]]
READ: tuple[str, dict[str, Any]] = ("canvas_get_state", {})


class Board(Chain):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.canvas = polyloop("canvas", "new", "--title", "T", "--store", self.store)["canvasId"]
        self.on_it = f'canvas = "{self.canvas}"'

    def steps(self, run: str) -> list[r.Step]:
        return [one for one in self.records(run) if isinstance(one, r.Step)]


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


def test_S1_2_only_tools_and_fields_of_this_session(board: Board) -> None:
    """What the build has and this run was not given does not exist for it; nor does a field that its schema does not name."""
    calls: Calls = [
        ("model_list", {"mode": "image", "referenceNodeIds": []}),
        ("canvas_get_state", {"page": 1}),
        ("canvas_delete_nodes", {}),
        READ,
        DONE,
    ]
    assert board.run(board.lay("a", *calls, tools='"canvas_get_state", "submit"', head=board.on_it)).reason == "completed"
    assert [s.rejection.code if s.rejection else s.outcome for s in board.steps("a")] == ["unknown_tool", "args_invalid", "unknown_tool", "ok", "ok"]
    start = board.records("a")[0]
    assert isinstance(start, r.RunStarted)
    assert [t.name for t in start.tools] == ["canvas_get_state", "submit"]


def native(*calls: tuple[str, Any]) -> str:
    return json.dumps({"tool_calls": [{"id": f"c{n}", "name": name, "arguments": json.dumps(args)} for n, (name, args) in enumerate(calls)]}) + "\n"


def test_S1_15_one_thing_is_asked_at_a_time_and_the_second_round_asks_what_is_left(board: Board) -> None:
    """Three questions in one reply: the first waits, the others are not carried out. The next round shows what no answer has settled."""
    asks = [("ask_user", {"question": f"Which {n}?", "options": [{"label": f"a{n}"}, {"label": f"b{n}"}]}) for n in (1, 2, 3)]
    fields = [{"id": i, "title": i, "type": "text", "defaultValue": i} for i in ("ratio", "length", "voice")]
    again = [{"id": i, "title": i, "type": "text", "defaultValue": i} for i in ("ratio", "mood", "colour")]
    path = board.lay("a", tools='"canvas_get_state", "ask_user", "submit"', head=board.on_it)
    path.write_text(path.read_text().replace("[agent]\n", '[agent]\nprotocol = "native-tools/1"\n'))
    forms = [[("ask_user", {"question": "form", "fields": fields})], [("ask_user", {"question": "more", "fields": again})]]
    (board.folder / "a.jsonl").write_text(native(READ) + native(*asks) + native(DONE))
    assert board.run(path).waiting is not None
    assert board.asked("a") == [1]
    assert [(s.call, s.tier, s.outcome) for s in board.steps("a")[1:]] == [(1, "H", "not_executed"), (2, "H", "not_executed")]
    board.cancel("a")
    path.write_text(path.read_text().replace('run_id = "a"', 'run_id = "b"'))
    (board.folder / "a.jsonl").write_text(native(READ) + "".join(native(*one) for one in forms) + native(DONE))
    board.run(path)
    board.answer("b", {"answers": {"ratio": "16:9"}})
    board.resume("b")
    prompts: list[Any] = [one.prompt for one in board.records("b") if isinstance(one, r.ActionDeferred)]
    assert [(p["round"], [f["id"] for f in p["asked"]["fields"]]) for p in prompts] == [(1, ["ratio", "length", "voice"]), (2, ["mood", "colour"])]


def test_S1_30_nothing_fills_in_for_what_a_reply_lacks_and_none_stands_for_another(board: Board) -> None:
    """A hash and a row nobody gave, a node's id for a task's: each is refused. A call that failed, and what was no call, prove nothing."""

    def claim(ref: str) -> tuple[str, dict[str, Any]]:
        return ("submit", {"summary": "made", "claims": [{"text": "the picture is made", "evidence": [ref]}]})

    tools = '"canvas_*", "model_list", "generate_media", "task_get", "submit"'
    guess = {"snapshotHash": "node:0", "nodeId": "n", "action": "remove", "rowId": "1"}
    calls: Calls = [
        READ,
        ("canvas_list_node_types", {}),
        ("canvas_edit_storyboard", guess),
        ("task_get", {"taskId": "n"}),
        claim("n"),
        claim("a@19"),
    ]
    calls.append(("submit", {"summary": "nothing was made"}))
    assert board.run(board.lay("a", *calls, tools=tools, head=board.on_it)).reason == "completed"
    told = board.heard("a")
    kinds = [one["error"]["kind"] for one in told if "error" in one]
    assert kinds == ["not_found", "not_found", "validation", "validation"], kinds
    refusals = [one["error"]["details"]["refusals"][0]["issue"] for one in told if "refusals" in one.get("error", {}).get("details", {})]
    assert refusals == ["unknown_ref", "unsupported"]
