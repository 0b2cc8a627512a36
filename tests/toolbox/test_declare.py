"""The decorator and its rules; schemas from annotations."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator

from polyloop.contract.problem import ProblemError
from polyloop.kernel.objects import ToolSpec
from polyloop.toolbox import ToolContext, spec_of, tool
from polyloop.toolbox.declare import declared
from polyloop.toolbox.schema import arguments, schema_of, signature_of
from tests.toolbox import zoo

CONTEXT = ToolContext("k", "r", 0)


def settle(key: str, token: str | None, fence: bool) -> None: ...


def test_an_undecorated_function_is_a_careful_write() -> None:
    spec = spec_of(zoo.plain)
    assert spec == ToolSpec("plain", "An undecorated function.", spec.schema, "write", "report_unknown", "process")
    assert spec.schema == {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False}


def test_an_async_function_is_kind_async_and_the_function_stays_itself() -> None:
    @tool
    async def later(text: str) -> str:
        return text

    assert spec_of(later).kind == "async"
    assert later.__name__ == "later"
    assert declared(later).settle is None


def test_every_word_of_the_decorator_reaches_the_spec() -> None:
    @tool(
        effect="pay", replay="probe", kind="thread", completes=True, settle=settle, timeout_s=2.5, result_limit=99, pollable=True,
        max_argument_failures=3, defers=True, interruptible=False,
    )  # fmt: skip
    def buy(cents: int) -> None:
        """Buy."""

    assert spec_of(buy) == ToolSpec(
        "buy", "Buy.", spec_of(buy).schema, "pay", "probe", "thread", True, 2.5, 99, True, 3, True, interruptible=False,
    )  # fmt: skip
    assert declared(buy).settle is settle


@pytest.mark.parametrize(
    ("effect", "given_settle", "replay"),
    [("read", None, "rerun"), ("write", None, "report_unknown"), ("pay", None, "never"), ("write", settle, "probe"), ("pay", settle, "probe")],
)
def test_replay_defaults_to_the_careful_policy(effect: Any, given_settle: Any, replay: str) -> None:
    assert spec_of(tool(effect=effect, settle=given_settle)(lambda: None)).replay == replay


# what is said, a word of the refusal
FORBIDDEN = [
    ({"effect": "write", "replay": "rerun"}, "idempotent=True"),
    ({"effect": "pay", "replay": "rerun", "idempotent": True}, "probe, ask or never"),
    ({"effect": "pay", "replay": "report_unknown"}, "probe, ask or never"),
    ({"defers": True}, "needs replay probe"),
    ({"replay": "probe"}, "needs settle="),
    ({"effect": "write", "kind": "thread"}, "interruptible=False"),
    ({"effect": "pay", "replay": "ask", "kind": "thread"}, "interruptible=False"),
    ({"kind": "async"}, "kind async is for async def"),
    ({"timeout_s": -1}, "timeout_s"),
    ({"result_limit": 0}, "result_limit"),
    ({"max_argument_failures": -1}, "max_argument_failures"),
    ({"effect": "delete"}, "effect must be one of read, write, pay"),
    ({"replay": "perhaps"}, "replay must be one of"),
    ({"kind": "fiber"}, "kind must be one of"),
]


@pytest.mark.parametrize(("said", "word"), FORBIDDEN, ids=[str(said) for said, _ in FORBIDDEN])
def test_S2_28_forbidden_combinations_are_refused_where_the_tool_is_declared(said: dict[str, Any], word: str) -> None:
    with pytest.raises(ProblemError, match=word) as refused:
        tool(**said)(zoo.plain.__class__(zoo.plain.__code__, {}, "shop"))
    assert refused.value.problem.kind == "validation"


def test_all_broken_rules_are_told_at_once() -> None:
    with pytest.raises(ProblemError) as refused:
        tool(effect="pay", replay="rerun", kind="thread", timeout_s=-1)(lambda: None)
    assert len(refused.value.problem.details["rules"]) == 3


def test_an_idempotent_write_may_be_rerun() -> None:
    assert spec_of(tool(effect="write", replay="rerun", idempotent=True)(lambda: None)).replay == "rerun"


@pytest.mark.parametrize("name", ["tool", "args"])
def test_S2_16_parameters_that_hide_in_the_protocol_are_refused(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def f(x: int, *, {name}: str) -> None: ...", scope)
    with pytest.raises(ProblemError, match=f"may not be named '{name}'"):
        spec_of(scope["f"])


def test_generators_and_things_that_are_no_functions_are_refused() -> None:
    def several() -> Any:
        yield 1

    for odd, word in ((several, "generator"), (len, "builtin_function"), (int, "type"), (None, "NoneType")):
        with pytest.raises(ProblemError, match=word):
            spec_of(odd)  # type: ignore[arg-type]  # the odd ones are the point


class Inner(msgspec.Struct, rename="camel"):
    long_name: int
    other: str = ""


class Movie(TypedDict, total=False):
    title: str


class Film(TypedDict):
    year: int
    cut: NotRequired[bool]


@dataclasses.dataclass
class Place:
    x: int
    tags: list[str] = dataclasses.field(default_factory=list)
    hidden: int = dataclasses.field(default=0, init=False)


ANNOTATIONS = [
    (str, {"type": "string"}),
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (None, {"type": "null"}),
    (Any, {}),
    (list, {"type": "array"}),
    (list[int], {"type": "array", "items": {"type": "integer"}}),
    (dict, {"type": "object"}),
    (dict[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
    (Literal["a", 1, False], {"enum": ["a", 1, False]}),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045  # the old spelling is supported too
    (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    (Annotated[str, "a name", 7], {"type": "string", "description": "a name"}),
    (Movie, {"type": "object", "properties": {"title": {"type": "string"}}, "required": [], "additionalProperties": False}),
    (
        Film,
        {
            "type": "object", "properties": {"year": {"type": "integer"}, "cut": {"type": "boolean"}}, "required": ["year"],
            "additionalProperties": False,
        },
    ),
    (
        Place,
        {
            "type": "object", "properties": {"x": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
            "required": ["x"], "additionalProperties": False,
        },
    ),
    (
        Inner,
        {
            "type": "object", "properties": {"longName": {"type": "integer"}, "other": {"type": "string"}}, "required": ["longName"],
            "additionalProperties": False,
        },
    ),
]  # fmt: skip


def one(annotation: Any) -> Any:
    def f(x: Any) -> None: ...

    f.__annotations__ = {"x": annotation}
    return f


@pytest.mark.parametrize(("annotation", "schema"), ANNOTATIONS, ids=[str(a) for a, _ in ANNOTATIONS])
def test_annotations_become_closed_schemas(annotation: Any, schema: dict[str, Any]) -> None:
    made = spec_of(one(annotation)).schema
    assert made == {"type": "object", "properties": {"x": schema}, "required": ["x"], "additionalProperties": False}
    Draft202012Validator(made)


class Node(TypedDict):
    child: Node | None


class Tagged(msgspec.Struct, tag=True):
    x: int


BAD_ANNOTATIONS = [
    bytes, set, tuple[int, str], complex, dict[int, str], Literal[b"x"], list[bytes], object, "Missing", Node, Tagged, Film | Movie,
    type("Odd", (), {}),
]  # fmt: skip


@pytest.mark.parametrize("annotation", BAD_ANNOTATIONS, ids=str)
def test_an_unsupported_annotation_names_the_tool_and_the_parameter(annotation: Any) -> None:
    with pytest.raises(ProblemError, match="tool f: parameter x: ") as refused:
        spec_of(one(annotation))
    assert refused.value.problem.details == {"tool": "f", "parameter": "x"}


def test_a_missing_annotation_and_nameless_parameters_are_named() -> None:
    for odd, name in ((lambda x: x, "x"), (lambda *rest: rest, "rest"), (lambda **more: more, "more"), (lambda p, /: p, "p")):
        with pytest.raises(ProblemError, match=f"parameter {name}: "):
            spec_of(odd)


def test_defaults_make_a_parameter_optional_and_show_when_they_are_json() -> None:
    def f(a: int, b: str = "x", c: ToolContext = CONTEXT, *, d: Place = Place(1), e: list[str] | None = None) -> None: ...  # noqa: B008

    schema = spec_of(f).schema
    assert schema["required"] == ["a"]
    assert schema["properties"]["b"] == {"type": "string", "default": "x"}
    assert "default" not in schema["properties"]["d"]
    assert schema["properties"]["e"]["default"] is None
    assert "c" not in schema["properties"]


def called(function: Any, **args: Any) -> dict[str, Any]:
    return arguments(signature_of(function), args, CONTEXT)


def test_arguments_arrive_as_they_are_and_objects_are_built() -> None:
    assert called(one(Place), x={"x": 1}) == {"x": Place(1)}
    assert called(one(Inner), x={"longName": 3}) == {"x": Inner(3)}
    assert called(one(Film), x={"year": 1}) == {"x": {"year": 1}}
    assert called(zoo.whoami) == {"context": CONTEXT}
    assert called(one(str), x="a\ud800") == {"x": "a\ud800"}
    assert called(one(int), x=10**30) == {"x": 10**30}
    assert called(one(list[int]), x=[1.0, 2]) == {"x": [1, 2]}, "1.0 is the integer 1 in JSON"
    assert isinstance(called(one(int), x=1.0)["x"], int)


def test_S1_25_nothing_is_coerced() -> None:
    for annotation, value in ((int, "1"), (int, True), (str, 1), (bool, 0), (float, "1.5"), (list, "x"), (int, 1.5), (str, None)):
        schema = spec_of(one(annotation)).schema
        assert not Draft202012Validator(schema).is_valid({"x": value})
        with pytest.raises(ProblemError):
            called(one(annotation), x=value)


def test_a_check_of_the_tools_own_type_is_a_problem_not_a_crash() -> None:
    class Positive(msgspec.Struct):
        n: int

        def __post_init__(self) -> None:
            if self.n < 1:
                raise ValueError("n must be positive")

    with pytest.raises(ProblemError, match="n must be positive") as refused:
        called(one(Positive), x={"n": 0})
    assert refused.value.problem.details["problems"][0]["path"] == "x"


LEAVES = st.sampled_from([str, int, float, bool, None, Any, Film, Place, Inner, Literal["a", "b"]])
TYPES = st.recursive(
    LEAVES, lambda t: st.one_of(t.map(lambda a: list[a]), t.map(lambda a: dict[str, a]), t.map(lambda a: a | None if a else a)), max_leaves=4
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.sampled_from(["a", "b", "x"]),
    lambda v: st.lists(v, max_size=2) | st.dictionaries(st.sampled_from(["x", "year", "longName", "tags"]), v, max_size=2),
    max_leaves=5,
)


@given(TYPES, JSON)
def test_what_the_schema_lets_through_can_be_called_with(annotation: Any, value: Any) -> None:
    """Schema and call agree: nothing valid is refused by the call, nothing invalid is bent until it fits."""
    function = one(annotation)
    valid = Draft202012Validator(schema_of("f", signature_of(function))).is_valid({"x": value})
    try:
        called(function, x=value)
        built = True
    except ProblemError:
        built = False
    assert not valid or built


def test_importing_the_toolbox_is_cheap() -> None:
    heavy = "jsonschema_rs subprocess asyncio ctypes concurrent.futures polyloop.toolbox.schema polyloop.toolbox.worker"
    script = f"import sys, polyloop.toolbox; print([m for m in '{heavy}'.split() if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout == "[]\n"
