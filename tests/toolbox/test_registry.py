"""One object says what the model sees, what exists, what is checked and what is dispatched."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.contract.problem import ProblemError
from polyloop.kernel.objects import ToolSpec
from polyloop.kernel.seams import Action, Outcome
from polyloop.toolbox import tool
from polyloop.toolbox.actions import ToolActions
from polyloop.toolbox.references import FunctionRef, find, load, ref_of
from polyloop.toolbox.registry import Registry
from polyloop.toolbox.submit import Submit
from tests.toolbox import zoo

CLOSED = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


class Ready(msgspec.Struct, frozen=True):
    spec: ToolSpec
    settle: Any = None
    idempotent: bool = False

    async def run(self, action: Action) -> str:
        return f"ran {action.tool}"


def ready(name: str, **more: Any) -> Ready:
    return Ready(ToolSpec(name, "", CLOSED, effect="read", replay="rerun", kind="async", **more))


NAMES = ("workspace_read", "workspace_write", "workspace_exec", "doc_fetch", "submit")
CATALOGUE: Mapping[str, Any] = {**{name: ready(name) for name in NAMES[:4]}, "submit": Submit()}


def action(tool: str, **args: Any) -> Action:
    return Action(tool, args, "k", 0, "r", "local")


@given(st.lists(st.sampled_from([*NAMES, "workspace_*", "*", "doc_[ef]*"]), max_size=4), st.sampled_from(NAMES))
def test_S2_13_seen_existing_checked_and_dispatched_are_the_same(names: list[str], tool: str) -> None:
    registry = Registry.resolve(names, CATALOGUE)
    seen = tool in registry.specs
    assert (registry.find(tool) is not None) == seen
    assert (registry.problems(tool, {"summary": "x"} if tool == "submit" else {}) == []) == seen
    outcome = asyncio.run(ToolActions(registry).execute(action(tool)))
    assert isinstance(outcome, Outcome)
    assert (outcome.status == "ok") == seen


def test_S2_12_a_run_sees_only_its_narrow_set_in_the_order_it_was_named() -> None:
    wide = Registry.resolve(["submit", "workspace_*", "workspace_exec"], CATALOGUE)
    assert list(wide.specs) == ["submit", "workspace_read", "workspace_write", "workspace_exec"]
    assert list(wide.narrow(["workspace_*", "submit"]).specs) == ["workspace_read", "workspace_write", "submit"]
    with pytest.raises(ProblemError, match="unknown tool doc_fetch"):
        wide.narrow(["doc_fetch"])
    with pytest.raises(ProblemError, match="unknown tool os:getcwd"):
        wide.narrow(["os:getcwd"])


def test_exec_is_matched_by_no_glob() -> None:
    assert "workspace_exec" not in Registry.resolve(["*"], CATALOGUE).specs
    with pytest.raises(ProblemError, match="no tool matches workspace_e"):
        Registry.resolve(["workspace_e*"], CATALOGUE)
    assert "workspace_exec" in Registry.resolve(["workspace_exec"], CATALOGUE).specs


@pytest.mark.parametrize(
    "name", ["nothing", "canvas_*", "submit ", "a:b:c", "json:", ":x", "../x:y", "no_such_module:f", "json:nothing", "json:decoder"]
)
def test_an_unknown_tool_is_a_validation_problem_that_names_it(name: str) -> None:
    with pytest.raises(ProblemError) as refused:
        Registry.resolve([name], CATALOGUE)
    assert refused.value.problem.kind == "validation"
    assert refused.value.problem.details["tool"] == name


def test_completes_of_request_and_declaration_are_united() -> None:
    registry = Registry.resolve(["submit", "doc_fetch"], CATALOGUE, completes=["doc_fetch"])
    assert [spec.completes for spec in registry.specs.values()] == [True, True]
    assert asyncio.run(ToolActions(registry).execute(action("doc_fetch"))).status == "ok"  # type: ignore[union-attr]  # an outcome
    with pytest.raises(ProblemError, match="completes names workspace_read"):
        Registry.resolve(["submit"], CATALOGUE, completes=["workspace_read"])


def test_completes_also_holds_for_a_handler_of_any_class() -> None:
    class Plain:
        spec, settle, idempotent = ready("plain").spec, None, False

        async def run(self, action: Action) -> str:
            return "ran"

    registry = Registry.resolve(["plain"], {"plain": Plain()}, completes=["plain"])
    assert registry.specs["plain"].completes
    assert asyncio.run(ToolActions(registry).execute(action("plain"))).status == "ok"  # type: ignore[union-attr]  # an outcome


def test_the_same_tool_twice_is_one_and_two_of_a_name_are_refused() -> None:
    assert list(Registry.resolve(["submit", "submit", "s*"], CATALOGUE).specs) == ["submit"]
    with pytest.raises(ProblemError, match="two tools are named"):
        Registry([ready("x"), ready("x", timeout_s=1)])


@pytest.mark.parametrize("name", ["ask_user", "sub_run"])
def test_a_function_takes_no_name_whose_results_mean_something_to_others(name: str) -> None:
    """A question and a sub-run are read again from the log by their tool's name."""

    async def mine(q: str) -> str:
        """Mine."""
        return q

    mine.__name__ = name
    with pytest.raises(ProblemError, match=f"validation: {name} is"):
        Registry([tool(effect="read")(mine)])


def test_handlers_are_held_to_the_same_rules() -> None:
    with pytest.raises(ProblemError, match="idempotent=True"):
        Registry([Ready(ToolSpec("x", "", CLOSED, "write", "rerun", "async"))])
    with pytest.raises(ProblemError, match="may not be named 'args'"):
        Registry([Ready(ToolSpec("x", "", {**CLOSED, "properties": {"args": {}}}, "read", "rerun", "async"))])


def test_functions_that_a_worker_cannot_find_again_are_refused_at_once() -> None:
    def closure(x: int) -> int:
        return x

    for odd in (closure, tool(lambda: None)):
        with pytest.raises(ProblemError, match="move it to the top of a module, or make it async"):
            Registry([odd])

    async def fine(x: int) -> int:
        return x

    assert Registry([fine]).specs["fine"].kind == "async"


PROBLEMS = [
    ({"rows": [{"x": 1, "note": "n"}], "point": {"x": 1}}, []),
    ({}, ["point: required", "rows: required"]),
    ({"rows": [{"x": "1"}], "point": {"x": 1}}, ["rows[0].note: required", 'rows[0].x: "1" is not of type "integer"']),
    ({"rows": "none", "point": {"x": 1, "z": 2}}, ["point.z: not declared", 'rows: "none" is not of type "array"']),
    ({"rows": [], "point": {"x": 1}, "mode": "SLOW"}, ['mode: "SLOW" is not one of "fast" or "slow"']),
    ({"rows": [], "point": {"x": 1}, "limit": "3"}, ['limit: "3" is not of type "integer"']),
    ({"rows": [], "point": {"x": None}, "Mode": 1}, ['point.x: null is not of type "integer"', "Mode: not declared"]),
    ([], [': [] is not of type "object"']),
    (None, [': null is not of type "object"']),
]  # fmt: skip


@pytest.mark.parametrize(("args", "told"), PROBLEMS, ids=[str(i) for i in range(len(PROBLEMS))])
def test_all_problems_at_once_each_with_its_path(args: Any, told: list[str]) -> None:
    found = [f"{p['path']}: {p['issue']}" for p in Registry([zoo.shapes]).problems("shapes", args)]
    assert sorted(found) == sorted(told)


def test_other_rules_of_a_schema_are_told_shortly() -> None:
    schema = {**CLOSED, "properties": {"n": {"type": "integer", "maximum": 5}, "s": {"type": "string", "pattern": "^a"}}}
    registry = Registry([Ready(ToolSpec("x", "", schema, "read", "rerun", "async"))])
    told = registry.problems("x", {"n": 77, "s": "secret" * 1000})
    assert [p["path"] for p in told] == ["n", "s"]
    assert len(str(told)) < 500
    assert "5" in str(told[0]["issue"])


def test_problems_are_bounded() -> None:
    assert len(Registry([zoo.plain]).problems("plain", {"text": "", **{f"x{i}": 1 for i in range(10)}})) == 10
    wide = {**CLOSED, "properties": {"l": {"type": "array", "items": {"type": "integer"}}}}
    assert len(Registry([Ready(ToolSpec("x", "", wide, "read", "rerun", "async"))]).problems("x", {"l": ["a"] * 2_000})) == 100


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=10))
def test_problems_never_raise(args: Any) -> None:
    assert isinstance(Registry([zoo.shapes]).problems("shapes", args), list)


# --- references --------------------------------------------------------------------------------------------------


def write(folder: Path, text: str, name: str = "mytools.py") -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_a_module_beside_the_request_is_its_own_even_under_the_same_name(tmp_path: Path) -> None:
    for folder, answer in ((tmp_path / "a", "from a"), (tmp_path / "b", "from b")):
        write(folder, f"import beside\n\ndef charge(cents: int) -> str:\n    '''Charge.'''\n    return {answer!r} + beside.WORD\n")
        write(folder, f"WORD = {folder.name!r}\n", "beside.py")
    registries = [Registry.resolve(["mytools:charge"], {}, str(tmp_path / name)) for name in "ab"]
    assert [r.specs["charge"].ref for r in registries] == ["mytools:charge"] * 2

    async def both() -> list[Any]:
        out: list[Any] = []
        for registry in registries:
            actions = ToolActions(registry, tmp_path)
            out.append(await actions.execute(action("charge", cents=1)))
            await actions.aclose()
        return [o.observation[0].text for o in out]

    # The worker of b has a `beside` of its own; this process's is shared, as modules are.
    assert asyncio.run(both()) == ["from aa", "from bb"]


def test_a_changed_module_is_loaded_anew(tmp_path: Path) -> None:
    write(tmp_path, "async def f() -> int:\n    return 1\n")
    first, _ = load("mytools:f", str(tmp_path))
    write(tmp_path, "async def f() -> int:\n    return 22\n")
    second, _ = load("mytools:f", str(tmp_path))
    assert (asyncio.run(first()), asyncio.run(second())) == (1, 22)


def test_packages_beside_the_request_and_modules_on_the_path(tmp_path: Path) -> None:
    write(tmp_path, "", "pkg_beside/__init__.py")
    write(tmp_path, "from .inner import N\n\nasync def f() -> int:\n    return N\n", "pkg_beside/tools.py")
    write(tmp_path, "N = 7\n", "pkg_beside/inner.py")
    function, ref = load("pkg_beside.tools:f", str(tmp_path))
    assert asyncio.run(function()) == 7
    assert (ref.module, ref.folder) == ("pkg_beside.tools", str(tmp_path))
    assert load("tests.toolbox.zoo:plain")[0] is zoo.plain


@pytest.mark.parametrize("body", ["def f(:\n", "raise SystemExit(3)\n", "import not_there_at_all\n", "1 / 0\n", "f = 3\n"])
def test_a_module_that_fails_is_named_and_leaves_nothing_behind(tmp_path: Path, body: str) -> None:
    write(tmp_path, body)
    with pytest.raises(ProblemError, match="mytools"):
        load("mytools:f", str(tmp_path))
    write(tmp_path, "async def f() -> int:\n    return 1  # mended\n")
    assert asyncio.run(load("mytools:f", str(tmp_path))[0]()) == 1


def test_a_worker_finds_a_function_by_name_or_else_by_its_file(tmp_path: Path) -> None:
    write(tmp_path, "def f() -> int:\n    return 1\n\nclass Box:\n    inner = f\n", "elsewhere.py")
    file = str(tmp_path / "elsewhere.py")
    for module in ("", "only_a_loader_knew_this", "tests.toolbox.zoo"):
        assert find(FunctionRef(module, file, "f"))() == 1
        assert find(FunctionRef(module, file, "Box.inner"))() == 1
    assert find(FunctionRef("tests.toolbox.zoo", "", "plain")) is zoo.plain
    with pytest.raises(ProblemError, match="no such function any more"):
        find(FunctionRef("", file, "gone"))
    with pytest.raises(ModuleNotFoundError):
        find(FunctionRef("no_such_module", "", "f"))
    write(tmp_path, "", "elsewhere.txt")
    with pytest.raises(ModuleNotFoundError, match="no Python file"):
        find(FunctionRef("", str(tmp_path / "elsewhere.txt"), "f"))


def test_a_function_of_no_file_cannot_go_to_a_worker() -> None:
    typed = types.ModuleType("typed_at_a_prompt")
    exec("def f() -> None: ...", typed.__dict__)
    sys.modules["typed_at_a_prompt"] = typed
    try:
        with pytest.raises(ProblemError, match="is no file"):
            ref_of(typed.f)
    finally:
        del sys.modules["typed_at_a_prompt"]


def test_submit_only_records() -> None:
    registry = Registry([Submit()])
    spec = registry.specs["submit"]
    assert (spec.effect, spec.replay, spec.kind, spec.completes) == ("write", "rerun", "async", True)
    good = {"summary": "s", "result": {"x": 1}, "claims": [{"text": "t", "evidence": ["r"], "scope": "all", "unverified": True}], "unsettled": ["u"]}
    assert registry.problems("submit", good) == []
    bad = {"claims": [{"text": "t", "evidence": "r", "scope": "some"}], "more": 1}
    told = {p["path"] for p in registry.problems("submit", bad)}
    assert told == {"summary", "claims[0].evidence", "claims[0].scope", "more"}
    outcome = asyncio.run(ToolActions(registry).execute(action("submit", **good)))
    assert isinstance(outcome, Outcome)
    assert (outcome.status, outcome.completion) == ("ok", "NOT_DONE")
