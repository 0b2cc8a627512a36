"""Runs from outside: exit codes, results, conflicts, drift, audit, holders. Interface.md is the table these tests read from."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .conftest import Desk, act

CHECKER = Path(__file__).parent / "checker.py"


def test_S2_27_a_run_ends_is_read_back_and_checked_by_a_program_that_knows_nothing_of_us(desk: Desk) -> None:
    code, told = desk.json("run", desk.request(), "--run-id", "r1")
    assert (code, told["schema"], told["state"], told["completedBy"]) == (0, "polyloop.run.v1", "ended", "completion_tool")
    assert told["result"] == {"summary": "done"}
    assert desk.json("run", "r.toml", "--run-id", "r1") == (0, told)
    for out, expected in (("chain.jsonl", 0), ("chain.jsonl", 7), (str(desk.folder / "again.jsonl"), 0), ("missing/x", 2), (".", 2)):
        assert desk.call("export", "r1", "--format", "chain", "--out", out)[0] == expected
    assert (desk.folder / "again.jsonl").read_bytes() == (desk.folder / "chain.jsonl").read_bytes()
    checked = subprocess.run([sys.executable, str(CHECKER), "chain.jsonl"], cwd=desk.folder, capture_output=True, text=True, check=True)
    assert checked.stdout.split() == [told["headHash"], str(told["lastSeq"] + 1)]
    code, verdict = desk.json("verify", "r1", "--head", told["headHash"])
    assert (code, verdict["ok"], verdict["ended"]) == (0, True, True)
    assert desk.json("verify", "r1", "--head", "f" * 64)[0] == 1


def test_S2_52_an_unknown_tool_for_ever_is_stalled_and_without_the_guard_exactly_the_iterations(desk: Desk) -> None:
    script = [act("no_such_tool", n=1)] * 50
    code, told = desk.json("run", desk.request(script=script))
    assert (code, told["reason"], told["detail"]) == (9, "stalled", "identical_rejections")
    assert told["counters"] == {"iterations": 3, "validSteps": 0, "rejectionsTotal": 3, "rejectionsConsecutive": 3, "identicalStreak": 3}
    budget = "max_valid_steps = 5\nmax_iterations = 12\nmax_identical_rejections = 0"
    code, told = desk.json("run", desk.request(script=script, budget=budget))
    assert (code, told["reason"], told["detail"]) == (8, "budget_exhausted", "iterations")
    assert (told["counters"]["iterations"], told["counters"]["validSteps"]) == (12, 0)


def test_S2_17_completion_on_the_last_permitted_step_is_completion(desk: Desk) -> None:
    code, told = desk.json("run", desk.request(script=[act("submit", summary="x")], budget="max_valid_steps = 1\nmax_iterations = 1"))
    assert (code, told["reason"]) == (0, "completed")


def test_S2_11_one_agent_three_budgets_differ_in_the_budget_only(desk: Desk) -> None:
    started = []
    for steps in (50, 50, 16):
        desk.request(budget=f"max_valid_steps = {steps}\nmax_iterations = 100")
        _, told = desk.json("run", "r.toml")
        first = desk.records(told["runId"])[0]
        started.append({k: v for k, v in first.items() if k not in ("at", "hash", "fence")})
    budgets = [x.pop("budget") for x in started]
    assert started[0] == started[1] == started[2]
    assert [b["max_valid_steps"] for b in budgets] == [50, 50, 16]


PLAIN = '[agent]\nid = "a"\n[budget]\nmax_valid_steps = 1\nmax_iterations = 1\n'
BAD_REQUESTS = {
    "no budget": ('[agent]\nid = "a"\n', "budget"),
    "budget under agent": ('[agent]\nid = "a"\nmax_valid_steps = 3\n[budget]\nmax_valid_steps = 1\nmax_iterations = 1\n', "budget"),
    "half a budget": ('[agent]\nid = "a"\n[budget]\nmax_valid_steps = 1\n', "max_iterations"),
    "unknown field": ('colour = "red"\n' + PLAIN, "colour"),
    "unknown tool": ('tools = ["nope"]\n' + PLAIN, "nope"),
    "glob without match": ('tools = ["zz*"]\n' + PLAIN, "zz"),
    "source of an unknown kind": ('model = "oracle:x"\n' + PLAIN, "oracle"),
    "script that is not JSON": ('model = "script:bad.jsonl"\n' + PLAIN, "line 1"),
    "no script": ('model = "script:none.jsonl"\n' + PLAIN, "none.jsonl"),
    "unknown protocol": (
        'model = "script:ok.jsonl"\n[agent]\nid = "a"\nprotocol = "x/9"\n[budget]\nmax_valid_steps = 1\nmax_iterations = 1\n',
        "x/9",
    ),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_S2_33_a_bad_request_is_exit_2_and_named(desk: Desk, name: str) -> None:
    text, named = BAD_REQUESTS[name]
    (desk.folder / "bad.jsonl").write_text("not json\n")
    (desk.folder / "ok.jsonl").write_text("")
    (desk.folder / "b.toml").write_text(text if "model" in text else 'model = "script:ok.jsonl"\n' + text)
    code, told = desk.json("run", "b.toml")
    assert code == 2
    assert told["error"]["kind"] == "validation"
    assert named in json.dumps(told["error"])


def test_a_request_that_is_not_utf8_and_a_field_given_twice_are_exit_2(desk: Desk) -> None:
    (desk.folder / "x.toml").write_bytes(b'[agent]\nid = "\xff"\n')
    assert desk.json("run", "x.toml")[0] == 2
    assert desk.json("run", desk.request(), "--max-steps", "3")[0] == 2
    assert desk.json("resume", "no-such-run")[1]["error"]["kind"] == "not_found"


def test_S2_49_another_request_under_a_used_id_is_a_conflict_and_a_resume_with_it_is_drift(desk: Desk) -> None:
    script = [act("sleep", s=60), act("submit", summary="x")]
    process = desk.start("run", desk.request(script=script, head='run_id = "d"', tail='[binding]\n"gateway.cache_namespace" = "a"'), "--json")
    wait_for(desk, "d", "action_intent")
    process.kill()
    process.communicate()
    before = desk.records("d")
    desk.request(script=script, head='run_id = "d"', tail='[binding]\n"gateway.cache_namespace" = "b"')
    code, told = desk.json("run", "r.toml")
    fields = [{"path": "binding.gateway.cache_namespace", "logged": "a", "offered": "b"}]
    assert (code, told["error"]["kind"], told["error"]["details"]["fields"]) == (7, "conflict", fields)
    assert desk.records("d") == before
    for _ in range(2):
        code, told = desk.json("resume", "d", "--request", "r.toml")
        assert (code, told["error"]["kind"], told["error"]["details"]["fields"]) == (7, "parameter_drift", fields)
    assert [x["kind"] for x in desk.records("d")[len(before) :]] == ["resume_refused"]


def wait_for(desk: Desk, run: str, kind: str, times: int = 1) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        code, out = desk.call("log", run, "--jsonl")
        if code == 0 and sum(json.loads(x)["kind"] == kind for x in out.splitlines()) >= times:
            return
        time.sleep(0.05)
    raise AssertionError(f"{run} never came to {kind}")


def test_S2_29_an_audit_file_that_cannot_be_written_stops_the_run_before_the_next_seam_call(desk: Desk) -> None:
    code, told = desk.json("run", desk.request(script=[act("note", text="x")] * 3, head='run_id = "f"'), "--audit-to", "/dev/full")
    assert (code, told["persisted"], told["ended"]) == (1, False, False)
    assert not (desk.folder / "notes.txt").exists()
    code, told = desk.json("run", desk.request("g.toml", head='run_id = "g"'), "--audit-to", "audit.jsonl")
    lines = [json.loads(x) for x in (desk.folder / "audit.jsonl").read_text().splitlines()]
    assert [x["type"] for x in lines] == ["run_started", "tool_call", "model_step", "tool_call", "model_step", "run_ended"]
    assert lines[2]["payload"]["reply"] == act("look", n=1)["text"]


def test_S2_29_an_audit_file_that_lacks_the_end_of_a_run_is_brought_up_to_it(desk: Desk) -> None:
    assert desk.json("run", desk.request(head='run_id = "g"'), "--audit-to", "whole.jsonl")[0] == 0
    whole = (desk.folder / "whole.jsonl").read_bytes()
    for kept in (0, 5, whole.index(b"\n") + 1, len(whole) - 300, len(whole)):
        (desk.folder / "torn.jsonl").write_bytes(whole[:kept])
        assert desk.json("run", "r.toml", "--audit-to", "torn.jsonl")[0] == 0
        assert (desk.folder / "torn.jsonl").read_bytes() == whole


FOREIGN = {
    "notes": b"my notes\nand a last line",
    "one": b"x",
    "json": b'{"a": 1}\n',
    "array": b"[1]\n",
    "zeros": bytes(9000),
    "deep": b"[" * 99_999 + b"\n",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_S2_29_a_file_of_something_else_is_no_audit_file_and_stays_as_it_is(desk: Desk, name: str) -> None:
    (desk.folder / name).write_bytes(FOREIGN[name])
    code, told = desk.json("run", desk.request(head='run_id = "f"'), "--audit-to", name)
    assert (code, told["error"]["kind"], (desk.folder / name).read_bytes()) == (2, "validation", FOREIGN[name])
    assert desk.json("show", "f")[1]["error"]["kind"] == "not_found"


def test_S2_29_neither_a_folder_nor_the_store_nor_a_pipe_nobody_reads_takes_audit_lines(desk: Desk) -> None:
    assert desk.json("run", desk.request(), "--run-id", "first")[0] == 0
    for target in (".", "missing/a.jsonl", ".polyloop/runs.db"):
        assert desk.json("run", "r.toml", "--run-id", "next", "--audit-to", target)[0] == 2
    os.mkfifo(desk.folder / "pipe")
    code, told = desk.json("run", "r.toml", "--run-id", "piped", "--audit-to", "pipe")
    assert (code, told["persisted"], told["ended"]) == (1, False, False)
    assert [x["runId"] for x in desk.json("runs")[1]["runs"]] == ["piped", "first"]


def test_S1_49_a_write_under_request_approval_waits_is_approved_once_and_is_done_once(desk: Desk) -> None:
    script = [act("note", text="paid"), act("submit", summary="ok")]
    desk.request(script=script, head='run_id = "p"\npermission_mode = "request_approval"')
    code, told = desk.json("run", "r.toml")
    assert (code, told["state"], told["waiting"]["kind"]) == (5, "waiting", "approval")
    before = desk.records("p")
    assert desk.json("resume", "p")[0] == 5
    assert desk.records("p") == before
    _, listed = desk.json("approvals", "list")
    token = listed["approvals"][0]["id"]
    assert listed["approvals"][0]["prompt"] == {"tool": "note", "args": {"text": "paid"}, "effect": "write"}
    assert desk.json("approvals", "approve", token)[0] == 0
    assert desk.json("approvals", "approve", token)[0] == 0
    assert desk.json("approvals", "reject", token)[0] == 7
    assert not (desk.folder / "notes.txt").exists()
    assert desk.json("resume", "p")[0] == 0
    assert (desk.folder / "notes.txt").read_text() == "paid\n"


def test_S1_48_a_read_only_run_writes_nothing(desk: Desk) -> None:
    script = [act("note", text="x"), act("submit", summary="ok")]
    code, told = desk.json("run", desk.request(script=script, head='run_id = "ro"\npermission_mode = "read_only"'))
    assert (code, told["counters"]["validSteps"], told["counters"]["rejectionsTotal"]) == (0, 1, 1)
    assert not (desk.folder / "notes.txt").exists()
    assert [x["rejection"]["code"] for x in desk.records("ro") if x["kind"] == "step" and x["rejection"]] == ["denied"]


def test_S2_22_cancel_from_another_process_and_ctrl_c(desk: Desk) -> None:
    script = [act("sleep", s=60), act("submit", summary="x")]
    process = desk.start("run", desk.request(script=script, head='run_id = "c"'), "--json")
    wait_for(desk, "c", "action_intent")
    desk.json("cancel", "c", "--reason", "enough")
    out, _ = process.communicate(timeout=50)  # before its action would have ended by itself
    assert (process.returncode, json.loads(out)["reason"]) == (130, "cancelled")
    process = desk.start("run", desk.request("s.toml", script=script, head='run_id = "s"'), "--json")
    wait_for(desk, "s", "action_intent")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)["state"]) == (130, "interrupted")
    code, told = desk.json("cancel", "s")
    assert (code, told["reason"]) == (130, "cancelled")


def test_S2_24_a_holder_stopped_past_its_lease_writes_nothing_after_its_successor(desk: Desk) -> None:
    script = [act("wait"), act("look", n=1), act("submit", summary="x")]
    process = desk.start("run", desk.request(script=script, head='run_id = "z"'), "--json", POLYLOOP_LEASE_S="1")
    wait_for(desk, "z", "action_intent")
    process.send_signal(signal.SIGSTOP)
    (desk.folder / "go").touch()  # for its successor, and for itself when it wakes up
    time.sleep(1.3)
    code, told = desk.json("resume", "z")
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=60)
    assert (code, told["reason"]) == (0, "completed")
    assert (process.returncode, json.loads(out)["persisted"]) == (7, False)
    fences = [x["fence"] for x in desk.records("z")]
    assert fences == sorted(fences)
    assert desk.json("verify", "z")[1]["ok"]


def test_S2_28_an_action_only_a_person_can_settle(desk: Desk) -> None:
    script = [act("slow_note", text="once", s=60), act("submit", summary="x")]
    process = desk.start("run", desk.request(script=script, head='run_id = "q"'), "--json")
    wait_for(desk, "q", "action_intent")
    while not (desk.folder / "notes.txt").exists():
        time.sleep(0.02)
    process.kill()
    process.communicate()
    code, told = desk.json("resume", "q")
    assert (code, told["waiting"]["kind"]) == (5, "settle")
    assert desk.json("settle", "q", "--call", "1", "--as", "done")[0] == 2
    assert desk.json("settle", "q", "--call", "0", "--as", "perhaps")[0] == 2
    for word, expected in (("done", 0), ("done", 0), ("not-done", 7), ("retry", 7)):
        assert desk.json("settle", "q", "--call", "0", "--as", word)[0] == expected
    code, told = desk.json("resume", "q")
    assert (code, told["reason"], told["counters"]["validSteps"]) == (0, "completed", 2)
    assert (desk.folder / "notes.txt").read_text() == "once\n"


def test_tenants_do_not_see_each_other_and_runs_are_listed_by_pages(desk: Desk) -> None:
    for number in range(3):
        desk.json("run", desk.request(), "--run-id", f"t{number}", "--tenant", "a")
    foreign, missing = (desk.json("log", run, "--tenant", "b") for run in ("t0", "t9"))
    assert json.dumps(foreign).replace("t0", "t9") == json.dumps(missing)
    assert missing[0] == 2
    _, page = desk.json("runs", "--tenant", "a", "--limit", "2")
    assert ([x["runId"] for x in page["runs"]], page["hasMore"], page["complete"]) == (["t2", "t1"], True, False)
    _, page = desk.json("runs", "--tenant", "a", "--limit", "2", "--continuation", page["continuation"])
    assert ([x["runId"] for x in page["runs"]], page["hasMore"]) == (["t0"], False)
    assert desk.json("runs", "--tenant", "b")[1]["runs"] == []


def test_a_fork_continues_from_a_step_and_not_from_inside_one(desk: Desk) -> None:
    desk.json("run", desk.request(script=[act("look", n=1), act("submit", summary="x"), act("submit", summary="y")]), "--run-id", "o")
    records = desk.records("o")
    step = next(x["seq"] for x in records if x["kind"] == "step")
    assert desk.json("fork", "o", "--at", str(step - 1), "--run-id", "w")[0] == 2
    code, told = desk.json("fork", "o", "--at", str(step), "--run-id", "n")
    assert (code, told["reason"]) == (0, "completed")
    first = desk.records("n")[0]
    assert first["origin"] == {"run": "o", "seq": step, "head_hash": records[step]["hash"]}
    assert desk.json("resume", "n")[0] == 0


def test_a_used_id_is_a_conflict_also_while_its_run_is_held(desk: Desk) -> None:
    script = [act("sleep", s=60), act("submit", summary="x")]
    process = desk.start("run", desk.request(script=script, head='run_id = "h"'), "--json")
    wait_for(desk, "h", "action_intent")
    desk.request("other.toml", script=script, head='run_id = "h"', budget="max_valid_steps = 3\nmax_iterations = 40")
    code, told = desk.json("run", "other.toml")
    assert (code, told["error"]["kind"]) == (7, "conflict")
    assert {x["path"] for x in told["error"]["details"]["fields"]} >= {"budget.max_valid_steps"}
    assert desk.json("run", "r.toml")[1]["error"]["kind"] == "owned_elsewhere"
    code, told = desk.json("cancel", "h")
    assert (code, told["reason"]) == (130, "cancelled")
    process.communicate(timeout=60)
