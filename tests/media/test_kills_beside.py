"""SIGKILL at the edges of what stands beside a single wish: a cancel, a batch, a picture taken apart. The next process brings it to its end."""

from __future__ import annotations

import base64
import io
import itertools
import signal

import pytest
from msgspec.structs import replace

from polyloop.media import limits
from polyloop.media.catalog import EMBEDDED, Catalog, References
from polyloop.media.settings import Settings
from tests.media.room import room
from tests.media.test_batch import _table
from tests.media.test_kills import MODEL, SOAK, WISH, forked, life, outside

pytestmark = pytest.mark.needs("media")

BATCH = {"nodeId": "t", "channelId": "x", "channelModelKey": "owner/m", "size": "256x144"}
SPLIT = {"prompt": "p", "nodeId": "cut", "title": "l", "referenceNodeIds": ["ref"], "logicalModelId": "local-colour-regions"}


def _reference(here) -> None:
    """Two colours, side by side."""
    from PIL import Image

    from polyloop.testing.media_provider import red

    picture, out = Image.new("RGB", (64, 64), "blue"), io.BytesIO()
    picture.paste(Image.open(io.BytesIO(red(24, 64))), (0, 0))
    picture.save(out, "PNG")
    assert here.call("upload", {"nodeId": "ref", "title": "r", "file": base64.b64encode(out.getvalue()).decode()})[1] == 0


def _states(here) -> list[str]:
    return [state for (state,) in here.db.look(lambda tx: tx.rows("select state from task order by no"))]


class Cancel:
    """Of a job that never ends by itself."""

    fault, step = "stuck", 3

    @staticmethod
    def before(here) -> None:
        here.call("generate_media", WISH)
        here.worker.one()

    @staticmethod
    def deed(here) -> None:
        [task] = here.db.look(lambda tx: tx.row("select id from task"))
        here.call("task_cancel", {"taskId": task})
        here.worker.all()

    @staticmethod
    def holds(here, sent: list[str]) -> None:
        assert (_states(here), sent) == (["cancelled"], [WISH["prompt"]])
        assert [kind for _, kind, _ in here.charges()] == ["reserve", "refund"]


class Batch:
    """Of two rows, one after the other; the second runs also where nothing is known of the first."""

    fault, step = "", 6

    @staticmethod
    def before(here) -> None:
        _reference(here)
        _table(here, ["in red", "in blue"], 1)

    @staticmethod
    def deed(here) -> None:
        assert here.call("batch_run", BATCH, approved_by="person", key="batch")[1] == 0
        here.worker.all()

    @staticmethod
    def holds(here, sent: list[str]) -> None:
        states = _states(here)
        assert (len(states), states.count("succeeded") >= 1, set(states) <= {"succeeded", "unknown"}) == (2, True, True)
        assert (len(sent), states.count("succeeded") <= len(sent)) == (len(set(sent)), True)
        last = {order: kind for order, kind, _ in here.charges()}
        assert sorted(last.values()) == sorted(["refund", *({"succeeded": "settle", "unknown": "uncertain"}[s] for s in states)])


class Layers:
    """Of one picture: all are there, once."""

    fault, step = "", 2

    @staticmethod
    def before(here) -> None:
        _reference(here)

    @staticmethod
    def deed(here) -> None:
        assert here.call("image_layer_split", SPLIT, key="split")[1] in (0, 10)
        here.worker.all()

    @staticmethod
    def holds(here, sent: list[str]) -> None:
        assert (_states(here), sent, here.charges()) == (["succeeded"], [], [])
        assert here.count("canvas_node") == 1 + 2
        assert here.count("media_asset") == 1 + 2


@pytest.mark.parametrize("case", [Cancel, Batch, Layers])
def test_S1_81_a_kill_beside_a_single_wish_loses_nothing_and_repeats_nothing(case, tmp_path, monkeypatch):
    from polyloop.testing.media_server import MediaServer

    monkeypatch.setattr(limits, "POLL_MS", 5)
    edges, code, at = itertools.count(1, 1 if SOAK else case.step), -signal.SIGKILL, 0
    with MediaServer(tmp_path / "log", [case.fault] * 60 if case.fault else []) as server:
        found = Settings(outside("comfyui", server.url("comfyui")).providers, Catalog((*EMBEDDED, replace(MODEL, references=References(image=1)))))
        while code == -signal.SIGKILL:
            at, before = next(edges), len(server.submissions())
            where = tmp_path / str(at)
            where.mkdir()
            with room(where, found) as here:
                here.grant("9")
                case.before(here)
                same = {"canvas": here.canvas}
            code = forked(lambda where=where, at=at, same=same: life(where, found, at, case.deed, **same))
            with room(where, found, **same) as here:
                case.deed(here)
                case.holds(here, [s["prompt"] for s in server.submissions()[before:]])
                assert here.books_agree()
    assert (code, at > 5) == (0, True)
