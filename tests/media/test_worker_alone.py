"""What one task does to the others, and a loser to a winner: nothing."""

from __future__ import annotations

import asyncio
import base64

import pytest

from polyloop.journal.carry import Caller
from polyloop.media import limits
from polyloop.media.provider import Found, Job, Output
from tests.media.room import Clock, picture, played, room
from tests.media.scenes import scene

pytestmark = pytest.mark.needs("media")

SPLIT = {"prompt": "p", "nodeId": "cut", "title": "l", "referenceNodeIds": ["src"], "logicalModelId": "local-colour-regions"}


@pytest.fixture
def here(tmp_path):
    with room(tmp_path) as found:
        found.grant()
        yield found


def _upload(here, node: str, data: bytes) -> None:
    assert here.call("upload", {"nodeId": node, "title": node, "file": base64.b64encode(data).decode()})[1] == 0


def _state(here, ticket) -> tuple[str, str]:
    told, _ = here.call("task_get", {"taskId": ticket["taskId"]})
    return told["state"], told["billing"]["state"]


def test_layers_whose_place_is_taken_are_refused_before_they_are_queued(here, play):
    _upload(here, "src", scene("two things")[0])
    _upload(here, "cut_3", play.red())
    told, code = here.call("image_layer_split", SPLIT)
    assert (code, told["error"]["details"]["issue"]) == (2, "exists")


def test_layers_whose_place_is_taken_meanwhile_are_kept_and_everybody_else_goes_on(here, play):
    _upload(here, "src", scene("two things")[0])
    ticket, _ = here.call("image_layer_split", SPLIT)
    _upload(here, "cut_2", play.red())
    other, _ = here.call("generate_media", picture())
    played(here, play.ScriptedProvider()).all()
    told, _ = here.call("task_get", {"taskId": ticket["taskId"]})
    assert (told["state"], told["writeback"]["reason"]) == ("succeeded", "output_exists")
    assert "asset" not in here.node("cut")
    assert _state(here, other) == ("succeeded", "settled")
    assert here.call("task_recover", {"taskId": ticket["taskId"], "nodeId": "again"})[1] == 0


def test_layers_of_a_node_with_the_longest_name_can_be_named_too(here):
    _upload(here, "src", scene("two things")[0])
    ticket, _ = here.call("image_layer_split", {**SPLIT, "nodeId": "x" * 80})
    here.worker.all()
    told, _ = here.call("task_get", {"taskId": ticket["taskId"]})
    names = told["result"]["nodeIds"]
    assert max(map(len, names)) == 80
    for name in names:  # each is a name that can be said
        assert here.call("image_layer_split", {**SPLIT, "nodeId": name})[0]["error"]["details"]["issue"] == "exists"


def test_a_picture_too_small_to_be_taken_apart_fails_and_says_so(here, play):
    _upload(here, "src", play.red(2, 2))
    note, _ = here.call("image_annotation_render", {"nodeId": "src", "annotations": [{"label": "a", "x": 0.5, "y": 0.5}]}, session="s")
    here.board("canvas_get_state", session="s")
    here.call("model_list", {"mode": "image", "referenceNodeIds": ["src"]}, session="s")
    cut = {**SPLIT, "logicalModelId": "local-point-cut", "referenceTransientIds": [note["referenceTransientId"]]}
    ticket, code = here.call("image_layer_split", cut, session="s")
    assert code == 10
    here.worker.all()
    told, _ = here.call("task_get", {"taskId": ticket["taskId"]})
    assert (told["state"], told["error"]["kind"]) == ("failed", "task_failed")


@pytest.mark.parametrize(
    ("verb", "ended"), [("submit", ("unknown", "uncertain")), ("poll", ("unknown", "uncertain")), ("fetch", ("unknown", "uncertain"))]
)
def test_a_failure_nobody_foresaw_is_told_on_its_task_and_stops_no_other(here, play, verb, ended):
    first, _ = here.call("generate_media", picture("a", "one"))
    second, _ = here.call("generate_media", picture("b", "two"))
    bad = RuntimeError("no such thing")
    provider = play.ScriptedProvider(**{verb: [bad, {"submit": lambda work: Job(work.id), "poll": play.DONE, "fetch": play.red()}[verb]]})
    clock = Clock()
    worker = played(here, provider, clock)
    worker.all()
    assert (_state(here, first), _state(here, second)) == (ended, ("succeeded", "settled"))
    told, _ = here.call("task_get", {"taskId": first["taskId"]})
    assert "RuntimeError" in told["error"]["message"]
    clock.now += limits.ASK_AGAIN_MS
    worker.all()
    assert provider.count("submit") == 2
    assert _state(here, first) == (ended if verb == "submit" else ("succeeded", "settled"))


@pytest.mark.parametrize("url", ["https://[x", "https://a b\x01/c", "http://127.0.0.1:99999/x"])
def test_a_hostile_address_of_a_result_harms_nobody(here, play, url):
    from polyloop.media.hosted import hosted

    ticket, _ = here.call("generate_media", picture())
    outside = hosted("replicate", "http://127.0.0.1:9", "k")
    provider = play.ScriptedProvider(poll=[Found("succeeded", (Output(url=url),))], fetch=[lambda output: outside.fetch(output, 1000)])
    played(here, provider).all()
    assert _state(here, ticket)[0] in ("running", "unknown", "failed")


def test_what_a_person_settles_while_a_worker_fetches_stays_settled(here, play):
    ticket, _ = here.call("generate_media", picture())
    clock = Clock()

    def meanwhile(output):
        assert here.call("task_settle", {"taskId": ticket["taskId"], "as": "not_charged"}, approved_by="person")[1] == 0
        return play.red()

    worker = played(here, play.ScriptedProvider(poll=[Found("unknown"), play.DONE], fetch=[meanwhile]), clock)
    worker.all()
    clock.now += limits.ASK_AGAIN_MS
    worker.all()
    assert _state(here, ticket) == ("failed", "refunded")
    assert [kind for _, kind, _ in here.charges()] == ["reserve", "uncertain", "refund"]
    assert here.count("media_asset") == 0


def test_a_worker_that_slept_through_its_lease_changes_nothing(here, play):
    ticket, _ = here.call("generate_media", picture())
    clock = Clock()
    other = played(here, play.ScriptedProvider(poll=[Found("failed", error="no")]), clock)

    def slow(output):
        clock.now += limits.LEASE_MS + 1
        other.one()
        return play.red()

    played(here, play.ScriptedProvider(fetch=[slow]), clock).all()
    assert _state(here, ticket) == ("failed", "refunded")
    assert here.count("media_asset") == 0


def test_a_word_that_takes_most_of_a_lease_is_given_a_new_one(here, play):
    """A fetch that is slow although the poll before it was slow too: nobody else takes the task meanwhile."""
    here.call("generate_media", picture())
    clock = Clock()
    taken = []

    def slow(answer):
        def word(_):
            clock.now += limits.LEASE_MS - 1000
            taken.append(other.one())
            return answer

        return word

    other = played(here, play.ScriptedProvider(), clock)
    played(here, play.ScriptedProvider(poll=[slow(play.DONE)], fetch=[slow(play.red())]), clock).all()
    assert taken == [None, None]


def test_one_layer_that_was_lost_is_recovered_and_the_others_stay(here):
    _upload(here, "src", scene("two things")[0])
    ticket, _ = here.call("image_layer_split", SPLIT)
    here.worker.all()
    state = here.board("canvas_get_state")["snapshotHash"]
    here.board("canvas_delete_nodes", {"snapshotHash": state, "nodeIds": ["cut_2"]}, approved_by="person")
    done, code = here.call("task_recover", {"taskId": ticket["taskId"], "nodeId": "again"})
    assert (code, done["data"]["nodeIds"]) == (0, ["again"])
    told, _ = here.call("task_get", {"taskId": ticket["taskId"]})
    assert told["result"]["nodeIds"] == ["cut", "again", "cut_3"]
    assert here.node("again")["asset"]["assetId"] == told["result"]["layers"][1]["asset"]["assetId"]
    assert here.call("task_recover", {"taskId": ticket["taskId"], "nodeId": "more"})[0]["error"]["details"]["issue"] == "delivered"


@pytest.mark.parametrize("gone", ["every file", "one file"])
def test_a_result_whose_files_are_gone_is_not_recovered_and_says_so(here, gone):
    _upload(here, "src", scene("two things")[0])
    ticket, _ = here.call("image_layer_split", SPLIT)
    here.worker.all()
    second = here.node("cut_2")["asset"]["assetId"].removeprefix("sha256:")
    state = here.board("canvas_get_state")["snapshotHash"]
    here.board("canvas_delete_nodes", {"snapshotHash": state, "nodeIds": ["cut", "cut_2", "cut_3"]}, approved_by="person")
    here.db.write_sync(lambda tx: tx.run("delete from media_asset where ? or sha256 = ?", int(gone == "every file"), second))
    told, code = here.call("task_recover", {"taskId": ticket["taskId"], "nodeId": "again"})
    assert (code, told["error"]["details"]["issue"]) == (2, "no_result")


def test_a_reference_that_is_gone_stops_the_task_before_anything_is_sent(here, play):
    here.call("generate_media", picture("ref", "a coat"))
    here.worker.all()
    ticket, _ = here.call("generate_media", picture("n", "again", referenceNodeIds=["ref"]))
    here.db.write_sync(lambda tx: tx.run("delete from media_asset"))
    provider = play.ScriptedProvider()
    played(here, provider).all()
    assert (_state(here, ticket), provider.seen) == (("failed", "refunded"), [])


def test_a_file_is_told_as_it_is_kept(here):
    """One that was generated, saved and brought again is still synthetic."""
    here.call("generate_media", picture())
    here.worker.all()
    data = asyncio.run(here.media.file("p1", Caller(within=here.canvas)))[1]
    told, _ = here.call("upload", {"nodeId": "again", "title": "p", "file": base64.b64encode(data).decode()})
    assert told["data"]["asset"]["synthetic"] is True
    assert here.db.look(lambda tx: tx.rows("select distinct target from op_entry where entry like '%media.%'")) == [(here.canvas,)]


def test_an_icon_on_nothing_has_no_two_layers():
    from PIL import Image, ImageDraw

    from polyloop.contract.problem import ProblemError
    from polyloop.media.layers import split

    icon = Image.new("RGBA", (200, 200), (0, 0, 0, 0))
    ImageDraw.Draw(icon).ellipse((50, 50, 150, 150), fill=(220, 30, 30, 255))
    for method, points in (("colour-regions", ()), ("point-cut", [(0.02, 0.02)]), ("point-cut", [(0.5, 0.5)])):
        with pytest.raises(ProblemError, match="nothing in this picture to part"):
            split(icon, method, points)
