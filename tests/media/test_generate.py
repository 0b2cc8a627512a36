"""From a wish to a file on a canvas: authority, money, tasks, write-back; each an axis of its own."""

from __future__ import annotations

import pytest

from tests.media.room import picture, room

pytestmark = pytest.mark.needs("media")


@pytest.fixture
def here(tmp_path):
    with room(tmp_path) as found:
        yield found


def test_S1_59_a_picture_is_complete_only_with_its_file_on_its_node(here):
    here.grant()
    ticket, code = here.call("generate_media", picture())
    assert (code, ticket["state"], ticket["complete"]) == (10, "queued", False)
    assert ticket["billing"]["state"] == "reserved"
    here.worker.all()
    done, code = here.call("task_get", {"taskId": ticket["taskId"]})
    assert (code, done["state"], done["complete"]) == (0, "succeeded", True)
    assert done["billing"] == {**done["billing"], "state": "settled", "credits": "1"}
    assert done["writeback"] == {"outcome": "applied", "nodeId": "p1"}
    assert done["synthetic"] is True
    assert here.node("p1")["asset"]["assetId"] == done["result"]["asset"]["assetId"]
    assert here.node("p1")["generation"] == {"taskId": ticket["taskId"], "status": "succeeded"}


def _files(here) -> dict[str, str]:
    """Two pictures on the canvas: their node ids and asset ids."""
    here.grant("10")
    for n in (1, 2):
        here.call("generate_media", picture(f"ref{n}", f"reference {n}"))
    here.worker.all()
    return {f"ref{n}": here.node(f"ref{n}")["asset"]["assetId"] for n in (1, 2)}


def test_S1_49_without_authority_nothing_is_made_and_the_plan_is_named(here):
    told, code = here.call("generate_media", picture())
    assert code == 5
    plan = told["error"]["details"]["plan"]
    assert plan["quote"]["amountMicro"] == 1_000_000
    assert plan["resolved"]["synthetic"] is True
    assert (here.charges(), here.count("task"), here.count("canvas_node")) == ([], 0, 0)


def test_S1_58_approved_twice_is_once_and_a_later_rejection_is_a_conflict(here):
    told, _ = here.call("generate_media", picture())
    plan = told["error"]["details"]["planId"]
    assert here.decide(plan).state == here.decide(plan).state == "approved"
    first, code = here.call("generate_media", picture())
    again, _ = here.call("generate_media", picture())
    named, _ = here.call("generate_media", picture(), plan_id=plan)
    assert code == 10
    assert first["taskId"] == again["taskId"] == named["taskId"]
    assert here.count("task") == 1
    assert [kind for _, kind, _ in here.charges()] == ["reserve"]
    with pytest.raises(Exception, match="consumed"):
        here.decide(plan, "rejected")


def test_S1_58_a_rejected_plan_charges_nothing_and_stays_rejected(here):
    plan = here.call("generate_media", picture())[0]["error"]["details"]["planId"]
    here.decide(plan, "rejected")
    for _ in range(2):
        told, code = here.call("generate_media", picture())
        assert (code, told["error"]["kind"]) == (6, "permission_denied")
    assert (here.charges(), here.count("task")) == ([], 0)


def test_S1_58_an_expired_approval_submits_nothing(here, monkeypatch):
    plan = here.call("generate_media", picture())[0]["error"]["details"]["planId"]
    here.decide(plan)
    late = here.media._now_ms() + 31 * 60 * 1000
    monkeypatch.setattr(here.media, "_now_ms", lambda: late)
    told, code = here.call("generate_media", picture(), plan_id=plan)
    assert code == 5
    assert told["error"]["details"]["planId"] != plan
    assert here.charges() == []


@pytest.mark.parametrize("change", ["reference", "price", "text"])
def test_S1_58_whatever_of_the_plan_changes_after_the_approval_nothing_is_submitted(here, change):
    from msgspec.structs import replace

    from polyloop.media.catalog import EMBEDDED, Catalog

    _files(here)
    here.board("canvas_list_node_types")
    hash_ = here.board("canvas_get_state")["snapshotHash"]
    text = {"type": "add_node", "id": "t1", "nodeType": "text", "content": "one"}
    hash_ = here.board("canvas_apply_ops", {"snapshotHash": hash_, "ops": [text]})["data"]["snapshotHash"]
    # asks although a grant is there: the mode waits for every write
    wish, mode = picture("new", referenceNodeIds=["ref1"], sourceNodeId="t1"), {"mode": "request_approval"}
    plan = here.call("generate_media", wish, **mode)[0]["error"]["details"]["planId"]
    here.decide(plan)
    before = here.count("spend_charge")
    if change == "text":
        ops = [{"type": "update_node", "id": "t1", "patch": {"content": "two"}}]
        here.board("canvas_apply_ops", {"snapshotHash": hash_, "ops": ops})
    elif change == "price":
        model = replace(EMBEDDED[0], prices=(replace(EMBEDDED[0].prices[0], credits="2"),))
        here.media.rooms = replace(here.media.rooms, catalog=Catalog([model, *EMBEDDED[1:]]))
    else:
        body = here.node("ref2")["asset"]
        here.db.write_sync(lambda tx: tx.run("update canvas_node set body = ? where id = 'ref1'", f'{{"asset": {{"assetId": "{body["assetId"]}"}}}}'))
    told, code = here.call("generate_media", wish, **mode)
    assert code == 5
    assert told["error"]["details"]["planId"] != plan
    assert here.count("spend_charge") == before


def test_S1_50_a_grant_is_kept_to_its_modes_and_sizes(here):
    here.grant(modes=("image",), max_width=1024, max_height=1024)
    assert here.call("generate_media", picture("a", size="1024x1024"))[1] == 10
    assert here.call("generate_media", picture("b", size="2048x2048"))[1] == 5
    clip = {**picture("c"), "mode": "video", "logicalModelId": "studio-video", "size": "640x360"}
    assert here.call("generate_media", clip)[1] == 5
    assert len(here.charges()) == 1


def test_S1_50_a_grant_for_ten_is_a_grant_for_ten(here):
    here.grant("10")
    codes = [here.call("generate_media", picture(f"n{n}", f"wish {n}"))[1] for n in range(14)]
    assert codes == [10] * 10 + [5] * 4
    assert here.count("task") == 10


def test_the_same_wish_is_the_task_there_is_unless_a_person_says_another(here):
    here.grant()
    first, _ = here.call("generate_media", picture("a"))
    again, _ = here.call("generate_media", picture("b"))
    assert again["taskId"] == first["taskId"]
    assert here.count("canvas_node") == 1
    another, _ = here.call("generate_media", picture("b"), approved_by="person")
    assert another["taskId"] != first["taskId"]
    larger, _ = here.call("generate_media", picture("c", size="1024x1024"))
    assert larger["taskId"] != first["taskId"]


def test_S1_78_S1_80_nothing_is_written_over(here):
    here.grant()
    here.call("generate_media", picture("a"))
    told, code = here.call("generate_media", picture("a", "something else"))
    assert (code, told["error"]["details"]["issue"]) == (2, "exists")


def test_S1_67_what_is_another_s_and_what_is_not_there_look_the_same(here, tmp_path):
    here.grant()
    ticket, _ = here.call("generate_media", picture())
    other = here.board("canvas_new", {"title": "other"}, owner="bob")["data"]["canvasId"]
    mine = here.board("canvas_new", {"title": "second"})["data"]["canvasId"]
    answers = [
        here.call("task_get", {"taskId": ticket["taskId"]}, canvas=other, owner="bob"),
        here.call("task_get", {"taskId": ticket["taskId"]}, canvas=mine),
        here.call("task_get", {"taskId": "task_" + "0" * 24}),
    ]
    same = {str(told).replace(ticket["taskId"], "ID").replace("task_" + "0" * 24, "ID") for told, _ in answers}
    assert {code for _, code in answers} == {2}
    assert len(same) == 1


def test_S1_48_read_only_makes_nothing(here):
    here.grant()
    told, code = here.call("generate_media", picture(), mode="read_only")
    assert (code, told["error"]["kind"]) == (6, "permission_denied")
    assert here.count("task") == 0


def test_S1_55_S1_66_a_model_that_was_not_listed_for_this_is_refused_and_none_is_chosen_instead(here):
    here.grant()
    session = {"session": "s1"}
    told, _ = here.call("generate_media", picture(), **session)
    assert {p["issue"] for p in told["error"]["details"]["problems"]} == {"not_issued"}
    here.call("model_list", {"mode": "image", "referenceNodeIds": []}, **session)
    told, _ = here.call("generate_media", picture(), **session)
    assert told["error"]["details"]["issue"] == "read_first"
    here.board("canvas_get_state", **session)
    assert here.call("generate_media", picture(), **session)[1] == 10
    listed, _ = here.call("model_list", {"mode": "audio", "referenceNodeIds": []}, **session)
    assert [m["selection"] for m in listed["models"]] == [{"logicalModelId": "studio-audio"}]


def test_S1_34_candidates_are_those_that_take_the_references_with_all_there_is_to_know(here):
    _files(here)
    listed, _ = here.call("model_list", {"mode": "image", "referenceNodeIds": ["ref1"]})
    assert [m["selection"]["logicalModelId"] for m in listed["models"]] == [
        "studio-image", "local-colour-regions", "local-text-layer", "local-point-cut",
    ]  # fmt: skip
    assert all(m["priceTiers"] and m["capability"] and m["selectable"] for m in listed["models"])
    assert here.call("model_list", {"mode": "audio", "referenceNodeIds": ["ref1"]})[0]["models"] == []


def test_S1_35_a_model_without_a_price_is_shown_and_cannot_be_chosen(here):
    from msgspec.structs import replace

    from polyloop.media.catalog import EMBEDDED, Catalog

    here.media.rooms = replace(here.media.rooms, catalog=Catalog([replace(EMBEDDED[0], prices=()), *EMBEDDED[1:]]))
    listed, _ = here.call("model_list", {"mode": "image", "referenceNodeIds": []})
    assert [(m["selectable"], m["issue"]) for m in listed["models"]] == [(False, "price_missing")]
    here.grant()
    told, code = here.call("generate_media", picture())
    assert (code, told["error"]["details"]["issue"]) == (2, "price_missing")


def test_S1_65_a_reference_is_a_media_node_with_a_file(here):
    here.grant()
    here.call("generate_media", picture("waiting"))
    for node, issue in (("waiting", "not_ready"), ("nobody", "")):
        told, code = here.call("generate_media", picture("x", referenceNodeIds=[node]))
        assert code == 2
        assert told["error"]["details"].get("issue", "") == issue


def test_S1_87_a_stale_snapshot_makes_nothing(here):
    here.grant()
    stale = here.board("canvas_get_state")["mediaSnapshotHash"]
    here.call("generate_media", picture("a"))
    told, code = here.call("generate_media", picture("b", "else", snapshotHash=stale))
    assert (code, told["error"]["kind"]) == (7, "revision_conflict")
    now = here.board("canvas_get_state")["mediaSnapshotHash"]
    assert here.call("generate_media", picture("b", "else", snapshotHash=now))[1] == 10


def test_S1_36_a_file_that_cannot_be_read_again_is_no_result(here):
    here.grant()
    ticket, _ = here.call("generate_media", picture())
    here.worker.all()
    here.db.write_sync(lambda tx: tx.run("update media_part set data = ?", b"damaged"))
    told, code = here.call("task_get", {"taskId": ticket["taskId"]})
    assert (told["complete"], "result" in told, told["error"]["kind"], code) == (False, False, "corrupt_store", 1)


def test_S1_90_a_cancelled_task_costs_nothing_and_keeps_its_node(here):
    here.grant()
    ticket, _ = here.call("generate_media", picture())
    told, code = here.call("task_cancel", {"taskId": ticket["taskId"]})
    assert (code, told["data"]["state"]) == (0, "cancelled")
    assert here.worker.all() == 0
    shown, code = here.call("task_get", {"taskId": ticket["taskId"]})
    assert (shown["state"], shown["complete"], shown["billing"]["state"], code) == ("cancelled", False, "refunded", 1)
    assert here.node("p1")["generation"]["status"] == "cancelled"
    told, code = here.call("task_cancel", {"taskId": ticket["taskId"]})
    assert (code, told["error"]["details"]["issue"]) == (2, "ended")


def test_S1_82_after_a_failure_the_same_intent_needs_a_person_whatever_the_model_or_grant(here):
    from msgspec.structs import replace

    from polyloop.media.worker import Means, Worker

    class Broken:
        synthetic = True

        def submit(self, work):
            from polyloop.contract.problem import problem

            raise problem("task_failed", "out of paint", execution_started=False)

    here.grant()
    here.worker = Worker(here.db, replace(here.worker.means, providers={"studio": Broken()}))
    assert isinstance(here.worker.means, Means)
    ticket, _ = here.call("generate_media", picture("a"))
    here.worker.all()
    failed, code = here.call("task_get", {"taskId": ticket["taskId"]})
    assert (failed["state"], failed["error"]["message"], failed["billing"]["state"], code) == ("failed", "out of paint", "refunded", 1)
    for change in ({}, {"size": "1024x1024"}, {"size": "2048x2048"}):
        told, code = here.call("generate_media", picture("b", **change))
        assert (code, told["error"]["kind"]) == (5, "confirmation_required")
    assert [kind for _, kind, _ in here.charges()] == ["reserve", "refund"]
    assert here.call("generate_media", picture("b", "another wish"))[1] == 10
    assert here.call("generate_media", picture("b2"), approved_by="person")[1] == 10


def test_S1_82_another_model_after_a_failure_needs_an_approval_in_auto_and_inside_the_grant(tmp_path):
    """Whatever is offered instead: the same channel, another provider, a synthetic one. Nothing is charged before a person has said yes."""
    from polyloop.media.catalog import EMBEDDED, Catalog, Model, Price
    from polyloop.media.settings import Named, Settings
    from polyloop.testing.media_server import MediaServer

    def model(channel: str, key: str) -> Model:
        return Model(name=key, mode="image", channel=channel, key=key, sizes=("512x512", "256x256"), prices=(Price(tier="s", credits="3"),))

    with MediaServer(tmp_path / "log", ["refuse"]) as server:
        providers = (Named(channel="a", kind="fal", url=server.url("fal")), Named(channel="b", kind="replicate", url=server.url("replicate")))
        found = Settings(providers, Catalog((*EMBEDDED, model("a", "one"), model("a", "two"), model("b", "three"))))
        with room(tmp_path, found) as here:
            here.grant("100")
            wish = {**picture("p1"), "channelId": "a", "channelModelKey": "one"}
            del wish["logicalModelId"]
            failed = here.call("generate_media", wish)[0]["taskId"]
            here.worker.all()
            assert here.call("task_get", {"taskId": failed})[0]["state"] == "failed"
            before = here.charges()
            others = [
                {"channelModelKey": "two"},
                {"channelId": "b", "channelModelKey": "three"},
                {"size": "256x256"},
                {"prompt": " a  quiet river\n"},
            ]
            plans = []
            for n, change in enumerate(others):
                told, code = here.call("generate_media", {**wish, **change, "nodeId": f"again{n}"}, mode="auto")
                assert (code, told["error"]["kind"]) == (5, "confirmation_required"), change
                plans.append(told["error"]["details"]["planId"])
            synthetic = {name: value for name, value in wish.items() if not name.startswith("channel")} | {"logicalModelId": "studio-image"}
            assert here.call("generate_media", {**synthetic, "nodeId": "s"}, mode="auto")[1] == 5
            assert (here.charges(), here.count("task"), server.submissions()) == (before, 1, [])
            here.decide(plans[1])
            assert here.call("generate_media", {**wish, **others[1], "nodeId": "again1"}, mode="auto")[1] == 10
            here.worker.all()
            assert [s["dialect"] for s in server.submissions()] == ["replicate"]


def test_S1_58_the_cap_of_a_tenant_holds_for_pictures_too(here, tmp_path, monkeypatch):
    from msgspec.structs import replace

    from polyloop.gateway.accounts import Accounts
    from polyloop.gateway.settings import Caps

    here.media.rooms = replace(here.media.rooms, purse=Accounts(Caps(tenant="2")))
    here.grant("100")
    codes = [here.call("generate_media", picture(f"n{n}", f"wish {n}")) for n in range(3)]
    assert [code for _, code in codes] == [10, 10, 8]
    assert codes[2][0]["error"]["kind"] == "budget_exceeded"
    assert (here.count("task"), here.count("spend_charge"), here.count("op_entry")) == (2, 2, 3)


def test_a_question_that_a_grant_has_answered_is_not_put_any_more(here):
    """No card is offered for ever."""
    import asyncio

    here.call("generate_media", picture())
    here.grant()
    assert here.call("generate_media", picture())[1] == 10
    assert [a.state for a in asyncio.run(here.media.approvals())] == ["superseded"]
