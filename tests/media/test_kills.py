"""SIGKILL at every edge of a task: wherever it strikes, one submission, one charge, one file; or an uncertain state that is settled."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys

import pytest
from msgspec.structs import replace

from polyloop.db import Database
from polyloop.journal.carry import Caller
from polyloop.media import limits
from polyloop.media.catalog import EMBEDDED, Catalog, Model, Price
from polyloop.media.settings import Named, Settings
from tests.media.room import Room, opened, picture, room
from tests.media.test_providers import GRAPH

pytestmark = pytest.mark.needs("media")

MODEL = Model(name="X", mode="image", channel="x", key="owner/m", sizes=("256x144",), prices=(Price(tier="s", credits="3"),))
WISH = {**picture(prompt="one wish"), "size": "256x144", "channelId": "x", "channelModelKey": "owner/m"}
WISH.pop("logicalModelId")


def outside(kind: str, url: str) -> Settings:
    """The settings of a place with one provider over HTTP."""
    return Settings((Named(channel="x", kind=kind, url=url, graph=GRAPH if kind == "comfyui" else {}),), Catalog((*EMBEDDED, MODEL)))


def forked(work) -> int:
    """Run `work` in a child; its exit code, or minus the signal that ended it."""
    return forked_together([work])[0]


def forked_together(works) -> list[int]:
    """All at once, each in a child of its own."""
    children = []
    for work in works:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = work()
            finally:
                sys.stdout.flush()
                os._exit(code)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


class Struck:
    """Ends this process at its n-th edge: inside a transaction or after its commit, before or after each word to the provider."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0

    def edge(self) -> None:
        self.seen += 1
        if self.seen == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def inside(self, fn):
        def work(tx, *args):
            value = fn(tx, *args)
            self.edge()
            return value

        return work

    def over(self, db: Database) -> None:
        write, write_sync = db.write, db.write_sync

        async def struck(fn, *args):
            value = await write(self.inside(fn), *args)
            self.edge()
            return value

        def struck_sync(fn, *args):
            value = write_sync(self.inside(fn), *args)
            self.edge()
            return value

        db.write, db.write_sync = struck, struck_sync

    def around(self, provider):
        for name in ("submit", "poll", "cancel", "fetch", "find"):
            verb = getattr(provider, name)

            def struck(*args, verb=verb):
                self.edge()
                value = verb(*args)
                self.edge()
                return value

            setattr(provider, name, struck)
        return provider


def _ask_and_work(here: Room) -> None:
    here.call("generate_media", WISH)
    here.worker.all()


def life(where, found: Settings, at: int, deed=_ask_and_work, **more: str) -> int:
    """One process that does its deed until it is struck; 0 = it got through."""
    strike = Struck(at)
    db = opened(where)
    here = Room(db, found, **more)
    strike.over(db)
    means = here.worker.means
    here.worker.means = replace(means, lease_ms=1, providers={name: strike.around(p) for name, p in means.providers.items()})
    deed(here)
    return 0


SOAK = bool(os.environ.get("POLYLOOP_SOAK"))
#: dialect -> the edges after which nobody can tell whether the work was taken: struck before the submission, or (where the provider cannot
#: be asked by our own id) before its answer was kept. The answer of OpenAI images is the result, so it is kept together with its file.
UNCERTAIN = {"comfyui": {6, 7}, "replicate": {6, 7, 8, 9}, "fal": {6, 7, 8, 9}, "openai": {6, 7, 8, 9, 10, 11}}


def struck(where, found: Settings, at: int, server, tenant: str = "local") -> tuple[int, str]:
    """A life that ends at its n-th edge, and one that goes on from there. How the first ended, and the state of its task in the end."""
    with room(where, found, tenant=tenant) as here:
        here.grant("3")
        same = {"tenant": tenant, "canvas": here.canvas}
    before = len(server.submissions())
    code = forked(lambda: life(where, found, at, **same))
    with room(where, found, **same) as here:
        ticket, _ = here.call("generate_media", WISH)  # as whoever waits for it asks again
        here.worker.all()
        told, _ = here.call("task_get", {"taskId": ticket["taskId"]})
        kinds = [kind for _, kind, _ in here.charges()]
        assert len(server.submissions()) - before <= 1
        assert here.count("task") == 1
        if told["state"] == "unknown":
            assert (kinds, told["complete"], here.count("media_asset")) == (["reserve", "uncertain"], False, 0)
            settled, settled_code = here.call("task_settle", {"taskId": ticket["taskId"], "as": "not_charged"}, approved_by="person")
            assert (settled_code, settled["data"]["billing"]["state"]) == (0, "refunded")
        else:
            assert (told["complete"], kinds, here.count("media_asset")) == (True, ["reserve", "settle"], 1), told
            assert len(server.submissions()) - before == 1
        assert here.books_agree()
    return code, told["state"]


@pytest.mark.parametrize(("kind", "first"), [("comfyui", 1), ("replicate", 2), ("fal", 3), ("openai", 4)])
def test_S1_81_a_kill_at_any_edge_leaves_one_submission_one_charge_one_file(kind, first, tmp_path, monkeypatch):
    """Each dialect at every fourth edge, so that together they are struck at every one; in a soak, each at all of them."""
    from polyloop.testing.media_server import MediaServer

    monkeypatch.setattr(limits, "POLL_MS", 5)
    edges, code, told, at = itertools.count(1) if SOAK else itertools.count(first, 4), -signal.SIGKILL, dict[int, str](), 0
    with MediaServer(tmp_path / "log") as server:
        while code == -signal.SIGKILL:
            at = next(edges)
            (tmp_path / str(at)).mkdir()
            code, told[at] = struck(tmp_path / str(at), outside(kind, server.url(kind)), at, server)
    assert (code, at > 12) == (0, True)
    assert {edge for edge, state in told.items() if state == "unknown"} == UNCERTAIN[kind] & told.keys()


def fifty_for_ten(where, tenant: str) -> None:
    """50 wishes at once in 5 processes against a grant for 10: exactly 10 become tasks."""
    with room(where, tenant=tenant) as here:
        here.grant("1000", tasks=10)
        same = {"tenant": tenant, "canvas": here.canvas}

    def ask(part: int) -> int:
        with room(where, **same) as mine:

            async def all_at_once():
                wishes = [picture(f"n{part}_{n}", f"wish {part} {n}") for n in range(10)]
                return await asyncio.gather(*(mine.media.call("generate_media", w, Caller(within=mine.canvas)) for w in wishes))

            return sum(getattr(answer, "state", "") == "queued" for answer in asyncio.run(all_at_once()))

    assert sum(forked_together([lambda part=part: ask(part) for part in range(5)])) == 10
    with room(where, **same) as here:
        assert (here.count("task"), here.count("canvas_node"), len(here.charges())) == (10, 10, 10)


def test_S1_58_fifty_at_once_against_a_grant_for_ten_are_ten(tmp_path):
    fifty_for_ten(tmp_path, "local")
