"""What a command line, a request file, a script or a damaged store may throw at the program: a typed error, and nothing else suffers."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.gateway.script import parse

from .conftest import Desk, act


def test_a_run_id_that_no_store_can_hold_is_a_bad_request_and_to_readers_an_unknown_run(desk: Desk) -> None:
    for name, head in (("nul.toml", 'run_id = "a\\u0000b"'), ("empty.toml", 'run_id = ""')):
        code, told = desk.json("run", desk.request(name, head=head))
        assert (code, told["error"]["kind"], told["error"]["details"]["field"]) == (2, "validation", "run_id")
    half = "x\udcff"
    for words in (("run", desk.request(), "--run-id", half), ("show", half), ("cancel", half), ("runs", "--continuation", half)):
        code, told = desk.json(*words)  # a word that is no Unicode text is refused before any command looks at it
        assert (words, code, told["error"]["kind"], told["error"]["stage"]) == (words, 2, "validation", "arguments")
    code, told = desk.json("resume", "")
    assert (code, told["error"]["kind"]) == (2, "not_found")


def test_a_number_in_a_budget_that_is_no_time_a_store_can_hold_is_refused(desk: Desk) -> None:
    for line in ("wall_clock_s = 1e306", "wall_clock_s = nan", "max_recoveries = 99999999999999999999"):
        code, told = desk.json("run", desk.request(budget=f"max_valid_steps = 1\nmax_iterations = 1\n{line}"))
        assert (code, told["error"]["details"]["field"]) == (2, "budget." + line.split()[0])


DEEP = "[" * 100_000


@pytest.mark.parametrize("line", ['{"text": "", "items": ' + DEEP, '{"delay_s": NaN}', '{"delay_s": 1e999}', '{"delay_s": -1}', '{"text": "\udcff"}'])
def test_a_script_line_that_is_no_json_is_named_however_it_is_broken(line: str) -> None:
    with pytest.raises(ProblemError, match="line 2"):
        parse("s.jsonl", b'{"text": ""}\n' + line.encode("utf-8", "surrogateescape"))


def test_half_a_character_comes_through_a_script_and_is_shown_as_its_escape(desk: Desk) -> None:
    text = act("look", n=1)["text"].replace('"r"', '"\ud800"')
    assert parse("s", json.dumps({"text": text}).encode())[0].text == text
    desk.request(script=[{"text": text}], head='run_id = "h"')
    for words in (("run", "r.toml", "--json"), ("show", "h", "--json"), ("log", "h", "--json"), ("show", "h"), ("log", "h")):
        _, out = desk.call(*words, PYTHONIOENCODING="ascii")
        assert ("\\ud800" in out) == (words[0] != "run"), words


def test_a_request_nested_without_end_is_refused(desk: Desk) -> None:
    code, told = desk.json("run", desk.request(tail=f"[model_params]\nx = {DEEP}"))
    assert (code, told["error"]["kind"]) == (2, "validation")


def store(desk: Desk) -> sqlite3.Connection:
    return sqlite3.connect(Path(desk.folder / ".polyloop" / "runs.db"))


def test_one_damaged_run_hides_no_other(desk: Desk) -> None:
    desk.request()
    for name in ("whole", "middle", "alone"):
        assert desk.json("run", "r.toml", "--run-id", name)[0] == 0
    with store(desk) as db:
        ids = dict(db.execute("select run, id from stream").fetchall())
        db.execute("delete from frame where stream = ? and first_seq > 0", (ids["alone"],))
        for (row,) in db.execute("select id from frame where first_seq = 0 and stream <> ?", (ids["whole"],)).fetchall():
            (body,) = db.execute("select body from frame where id = ?", (row,)).fetchone()
            db.execute("update frame set body = ? where id = ?", (body[:99] + bytes([body[99] ^ 1]) + body[100:], row))
    db.close()
    _, told = desk.json("runs")
    assert {x["runId"]: (x["state"], x["reason"]) for x in told["runs"]} == {
        "whole": ("ended", "completed"), "middle": ("unreadable", "corrupt_store"), "alone": ("unreadable", "corrupt_store"),
    }  # fmt: skip
    assert desk.json("approvals", "list") == (0, {"approvals": []})
    assert desk.json("approvals", "show", "x")[1]["error"]["kind"] == "not_found"
    for words in (
        ("show", "alone"),
        ("log", "alone"),
        ("resume", "alone"),
        ("abandon", "alone"),
        ("cancel", "alone"),
        ("run", "r.toml", "--run-id", "alone"),
    ):
        code, told = desk.json(*words)
        assert (words, code, told["error"]["kind"]) == (words, 1, "corrupt_store")


def test_runs_that_were_taken_and_never_begun_stand_in_no_list_and_stop_no_paging(desk: Desk) -> None:
    desk.request()
    assert desk.json("run", "r.toml", "--run-id", "first")[0] == 0
    with store(desk) as db:
        for name in ("t1", "t2", "t3"):
            db.execute("insert into stream (scope, run, created) values ('local', ?, 0)", (name,))
    db.close()
    _, told = desk.json("runs", "--limit", "1")
    assert ([x["runId"] for x in told["runs"]], told["hasMore"]) == (["first"], False)


def test_a_run_cannot_reach_its_own_log_in_its_workspace(desk: Desk) -> None:
    names = ("data.db", "data.db-wal", "Data.DB", "sub/../data.db", "audit.jsonl")
    script = [act("workspace_write", path=name, text="gone", ifAbsent=False) for name in names]
    desk.request(script=[*script, act("workspace_list"), act("submit", summary="s")], head='workspace = "."')
    file = desk.folder / "r.toml"
    file.write_text(file.read_text().replace("tools = [", 'tools = ["workspace_*", '))
    code, told = desk.json("run", "r.toml", "--run-id", "w", "--store", "data.db", "--audit-to", "audit.jsonl")
    assert (code, told["reason"]) == (0, "completed")
    assert desk.json("verify", "w", "--store", "data.db")[0] == 0
    _, out = desk.call("log", "w", "--store", "data.db")
    results = [x for x in map(json.loads, out.splitlines()) if x["kind"] == "action_result"]
    assert [x["status"] for x in results] == ["error"] * len(names) + ["ok"] * 2
    assert "data.db" not in json.dumps(results[-2])


def test_S2_27_a_flipped_byte_of_any_text_is_found_and_its_record_named(desk: Desk) -> None:
    texts = ["a" * 3000, "b" * 5000]
    desk.request(script=[{**act("look", n=1), "reasoning": text} for text in texts] + [act("submit", summary="s")], head='run_id = "t"')
    assert desk.json("run", "r.toml")[0] == 0
    replies = [x["seq"] for x in desk.records("t") if x["kind"] == "model_result"]
    with store(desk) as db:
        rows = db.execute("select id, texts from frame where texts is not null order by first_seq").fetchall()
        for (row, kept), seq in zip(rows, replies, strict=False):
            for at in (0, len(kept) - 1):
                db.execute("update frame set texts = ? where id = ?", (kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1 :], row))
                db.commit()
                code, told = desk.json("verify", "t")
                assert (code, told["problem"]["kind"], told["problem"]["seq"], told["records"]) == (1, "blob", seq, seq)
            db.execute("update frame set texts = ? where id = ?", (kept, row))
    db.close()
    assert (len(rows), desk.json("verify", "t")[0]) == (2, 0)
