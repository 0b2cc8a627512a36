"""One table of node types: what is told of them is what may be done."""

from __future__ import annotations

from polyloop.canvas.registry import CREATABLE, FIELDS, NODE_TYPES, REGISTRY_HASH, node_types


def test_S1_64_what_is_told_of_a_type() -> None:
    told = node_types()
    assert told["registryHash"] == REGISTRY_HASH
    assert [n["type"] for n in told["nodes"]] == list(NODE_TYPES)
    assert [n["type"] for n in told["nodes"] if n["creatable"]] == list(CREATABLE)
    for node in told["nodes"]:
        assert set(node["updateFields"]) <= set(FIELDS)
        assert not set(node["acceptedInputKinds"]) & set(node["rejectedInputKinds"])
        assert node["canTarget"] == bool(node["connectionHandles"]["target"])
        assert node["canSource"] == bool(node["connectionHandles"]["source"])
        assert node["canTarget"] == bool(node["acceptedInputKinds"])
