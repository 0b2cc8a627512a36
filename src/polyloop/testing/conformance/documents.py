"""The document transport: one test for each sentence a runtime relies on, whatever service stands behind it.

A service runs it by subclassing `DocumentsConformance` in a test module and giving one fixture: `make_transport(tenant)`, a
transport to the documents of that tenant. Tenants are fresh in every test.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from polyloop.contract.problem import Problem, ProblemError
from polyloop.documents import requests as ask
from polyloop.documents.requests import Transport
from polyloop.ids import uuid7

MakeTransport = Callable[[str], Transport]

ONE, TWO, THREE = (f'{{"type":"paragraph","runs":[{{"text":"{text}"}}]}}' for text in ("one", "two", "three"))


def refused(kind: str, service: Transport, request: ask.Request, step_id: str = "") -> Problem:
    """It is refused as this kind, and says that nothing has begun."""
    with pytest.raises(ProblemError) as caught:
        service.ask(request, step_id)
    assert caught.value.problem.kind == kind
    assert caught.value.problem.execution_started is False
    return caught.value.problem


class DocumentsConformance:
    """The whole suite."""

    @pytest.fixture
    def tenant(self) -> str:
        return f"tenant-{uuid7()}"

    @pytest.fixture
    def service(self, make_transport: MakeTransport, tenant: str) -> Transport:
        return make_transport(tenant)

    @pytest.fixture
    def node(self, service: Transport) -> str:
        """A document of one block at revision 1."""
        node = f"n_{uuid7()}"
        service.ask(ask.Create(node=node, title="D", blocks=(ONE,)), "made")
        return node

    def bodies(self, service: Transport, node: str, revision: int | None = None) -> list[str]:
        return [body for _, body, _ in service.ask(ask.Content(node=node, revision=revision))["blocks"]]

    # --- writes are done once ----------------------------------------------------------------------------------------

    def test_a_write_tells_the_node_and_the_revision_it_made(self, service: Transport, node: str) -> None:
        reply = service.ask(ask.Edit(node=node, blocks=(TWO,)), "s1")
        assert (reply["nodeId"], reply["before"], reply["revision"]) == (node, 1, 2)
        assert self.bodies(service, node) == [ONE, TWO]

    def test_the_same_step_again_is_answered_and_not_done(self, service: Transport, node: str) -> None:
        first = service.ask(ask.Edit(node=node, blocks=(TWO,)), "s1")
        assert service.ask(ask.Edit(node=node, blocks=(TWO,)), "s1") == first
        assert self.bodies(service, node) == [ONE, TWO]
        refused("conflict", service, ask.Edit(node=node, blocks=(THREE,)), "s1")

    def test_a_write_without_a_step_is_refused(self, service: Transport, node: str) -> None:
        refused("validation", service, ask.Edit(node=node, blocks=(TWO,)))

    def test_find_gives_the_reply_of_a_step_and_fences_what_never_was(self, service: Transport, node: str) -> None:
        reply = service.ask(ask.Edit(node=node, blocks=(TWO,)), "s1")
        assert service.ask(ask.Find(step_id="s1"))["reply"] == reply
        for _ in range(2):
            assert service.ask(ask.Find(step_id="s2"))["reply"] is None
        refused("conflict", service, ask.Edit(node=node, blocks=(THREE,)), "s2")
        assert self.bodies(service, node) == [ONE, TWO]

    def test_what_is_refused_leaves_its_step_unused(self, service: Transport, node: str) -> None:
        refused("revision_conflict", service, ask.Edit(node=node, expected=9, blocks=(TWO,)), "s1")
        assert service.ask(ask.Edit(node=node, expected=1, blocks=(TWO,)), "s1")["revision"] == 2

    def test_writes_side_by_side_are_each_done_once(self, service: Transport, node: str) -> None:
        steps = [f"s{n}" for n in range(8)] * 2
        threads = [threading.Thread(target=service.ask, args=(ask.Edit(node=node, blocks=(TWO,)), step)) for step in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert self.bodies(service, node) == [ONE, *[TWO] * 8]

    # --- preconditions -----------------------------------------------------------------------------------------------

    def test_a_stale_revision_changes_nothing_and_says_what_did(self, service: Transport, node: str) -> None:
        service.ask(ask.Edit(node=node, blocks=(TWO,)), "s1")
        for n, request in enumerate((
            ask.Edit(node=node, expected=1, remove=None), ask.Put(node=node, expected=1, title="x"), ask.Save(node=node, expected=1),
            ask.Revert(node=node, expected=1, revision=1), ask.Copy(node="n_copy", source=node, expected=1, title="x"),
        )):  # fmt: skip
            why = refused("revision_conflict", service, request, f"stale{n}")
            assert (why.details["current"], len(why.details["changed"]["added"])) == (2, 1)
        assert service.ask(ask.Describe(node=node))["revision"] == 2

    def test_a_block_that_is_not_as_it_was_stops_the_write(self, service: Transport, node: str) -> None:
        block_id, _, mark = service.ask(ask.Content(node=node))["blocks"][0]
        service.ask(ask.Edit(node=node, was={block_id: mark}, change={block_id: TWO}), "s1")
        refused("revision_conflict", service, ask.Edit(node=node, was={block_id: mark}, change={block_id: THREE}), "s2")
        assert self.bodies(service, node) == [TWO]

    # --- what is read is what was written ----------------------------------------------------------------------------

    def test_every_revision_stays_readable(self, service: Transport, node: str) -> None:
        service.ask(ask.Edit(node=node, blocks=(TWO,)), "s1")
        service.ask(ask.Edit(node=node, remove=None, blocks=(THREE,)), "s2")
        service.ask(ask.Revert(node=node, revision=2), "s3")
        assert [self.bodies(service, node, r) for r in (1, 2, 3, 4)] == [[ONE], [ONE, TWO], [THREE], [ONE, TWO]]
        hashes = [service.ask(ask.Content(node=node, revision=r))["hash"] for r in (1, 2, 3, 4)]
        assert hashes[1] == hashes[3]
        assert len(set(hashes)) == 3

    def test_facts_are_those_of_one_revision(self, service: Transport, node: str) -> None:
        first = service.ask(ask.Edit(node=node, blocks=(TWO,)), "s1")
        before = service.ask(ask.Facts(node=node, revision=first["revision"]))
        service.ask(ask.Edit(node=node, blocks=(TWO,)), "s2")
        assert service.ask(ask.Facts(node=node, revision=first["revision"])) == before
        assert (before["step"], before["whole"], before["removed"], before["next"]) == ("s1", True, [], "")

    def test_a_url_is_not_made_of_the_title(self, service: Transport, node: str) -> None:
        before = service.ask(ask.Describe(node=node))["target"]
        service.ask(ask.Put(node=node, title="Another"), "s1")
        after = service.ask(ask.Describe(node=node))
        assert (after["title"], after["target"]) == ("Another", before)
        assert all(before[name] for name in ("nodeId", "resourceType", "canonicalUrl", "container"))

    # --- lists -------------------------------------------------------------------------------------------------------

    def test_pages_of_one_snapshot_do_not_move(self, service: Transport) -> None:
        for n in range(5):
            service.ask(ask.Create(node=f"n_{n}", title=f"t{n}"), f"made{n}")
        seen: list[Any] = []
        page = service.ask(ask.Nodes(limit=2))
        for n in itertools.count():
            seen += [item["nodeId"] for item in page["items"]]
            if page["next"] is None:
                break
            service.ask(ask.Create(node=f"n_late{n}", title="t"), f"late{n}")
            service.ask(ask.Put(node=f"n_{4 - n}", state="trashed"), f"gone{n}")
            page = service.ask(ask.Nodes(limit=2, cursor=page["next"], snapshot=page["snapshot"]))
        assert seen == [f"n_{n}" for n in range(5)]
        assert page["total"] == 5

    def test_titles_are_found_whole(self, service: Transport, node: str) -> None:
        assert [i["nodeId"] for i in service.ask(ask.Nodes(title="D"))["items"]] == [node]
        for title in ("d", "D ", ""):
            assert service.ask(ask.Nodes(title=title))["items"] == []

    # --- tenants -----------------------------------------------------------------------------------------------------

    def test_another_tenant_sees_and_touches_nothing(self, service: Transport, node: str, make_transport: MakeTransport) -> None:
        stranger = make_transport(f"tenant-{uuid7()}")
        for request in (ask.Describe(node=node), ask.Content(node=node), ask.Versions(node=node), ask.Facts(node=node, revision=1)):
            refused("not_found", stranger, request)
        refused("not_found", stranger, ask.Edit(node=node, blocks=(TWO,)), "s1")
        assert stranger.ask(ask.Nodes())["items"] == []
        assert stranger.ask(ask.Create(node=node, title="mine"), "made")["revision"] == 1, "ids, of nodes and steps, are of one tenant"
        assert self.bodies(service, node) == [ONE]
