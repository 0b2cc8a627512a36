"""One table of node types: what is told of them is what may be done."""

from __future__ import annotations

from polyloop.canvas.doings import DOINGS
from polyloop.canvas.registry import CREATABLE, FIELDS, NODE_TYPES, REGISTRY_HASH, node_types
from tests.canvas.easel import Easel, edge, node


def test_S1_64_what_is_told_of_a_type() -> None:
    told = node_types()
    assert told["registryHash"] == REGISTRY_HASH
    assert [n["type"] for n in told["nodes"]] == list(NODE_TYPES)
    assert [n["type"] for n in told["nodes"] if n["creatable"]] == list(CREATABLE)
    for kind in told["nodes"]:
        assert set(kind["updateFields"]) <= set(FIELDS)
        assert not set(kind["acceptedInputKinds"]) & set(kind["rejectedInputKinds"])
        assert kind["canTarget"] == bool(kind["connectionHandles"]["target"])
        assert kind["canSource"] == bool(kind["connectionHandles"]["source"])
        assert kind["canTarget"] == bool(kind["acceptedInputKinds"])


def test_S1_53_S1_71_schema_and_checks_say_what_the_registry_says(easel: Easel) -> None:
    """A patch of any field is taken by the types that have it, and by no other."""
    told = {n["type"]: n for n in easel.do("canvas_list_node_types", {})["nodes"]}
    add = DOINGS["canvas_apply_ops"].op.arguments.raw["properties"]["ops"]["items"]["oneOf"][0]["properties"]
    assert add["nodeType"]["enum"] == [name for name, n in told.items() if n["creatable"]]
    assert set(add["patch"]["properties"]) == {f for n in told.values() for f in n["updateFields"]}
    easel.apply(node("pic", "image"))
    for kind, n in told.items():
        for field in FIELDS if n["creatable"] else ():
            op = node("z", kind, patch={field: "pic"})
            answer, code = easel.call("canvas_apply_ops", {"snapshotHash": easel.hash, "ops": [op]}, session="", dry_run=True)
            assert (code == 0) == (field in n["updateFields"]), (kind, field, answer)


def test_S1_72_who_may_be_connected_with_whom_is_what_the_registry_says(easel: Easel) -> None:
    told = [n for n in easel.do("canvas_list_node_types", {})["nodes"] if n["creatable"]]
    easel.apply(*(node(n["type"], n["type"]) for n in told), *(node(f"{n['type']}2", n["type"]) for n in told))
    for source in told:
        for target in told:
            op = edge("z", source["type"], f"{target['type']}2")
            _, code = easel.call("canvas_apply_ops", {"snapshotHash": easel.hash, "ops": [op]}, session="", dry_run=True)
            assert (code == 0) == (source["inputKind"] in target["acceptedInputKinds"]), (source["type"], target["type"])
