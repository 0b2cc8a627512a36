"""A provider that refuses to tell, is silent, or knows nothing: what is asked again, how often, and what becomes of task, node and money."""

from __future__ import annotations

import itertools

import pytest

from polyloop.media import limits
from polyloop.media.provider import Found, Job, Output
from tests.media.room import Clock, picture, played, room

pytestmark = pytest.mark.needs("media")

HOUR = 3600 * 1000


@pytest.fixture
def here(tmp_path):
    with room(tmp_path) as found:
        found.grant()
        yield found


def _told(here, ticket):
    told, _ = here.call("task_get", {"taskId": ticket["taskId"]})
    return told, (told["state"], told["billing"]["state"])


def test_a_poll_refused_again_and_again_leaves_an_unknown_task_that_a_person_settles(here, play):
    ticket, _ = here.call("generate_media", picture())
    provider, clock = play.ScriptedProvider(poll=[play.REFUSED]), Clock()
    played(here, provider, clock).all()
    told, ended = _told(here, ticket)
    assert ended == ("unknown", "uncertain")
    assert told["error"]["details"]["status"] == 404
    assert provider.count("poll") == limits.REFUSALS
    assert here.call("task_settle", {"taskId": ticket["taskId"], "as": "not_charged"}, approved_by="person")[1] == 0
    assert _told(here, ticket)[1] == ("failed", "refunded")


def test_a_silent_provider_is_asked_less_and_less_and_its_task_goes_on_when_it_answers(here, play):
    ticket, _ = here.call("generate_media", picture())
    provider, clock = play.ScriptedProvider(poll=[*[play.DOWN] * 4, Found("running"), play.DONE]), Clock()
    worker = played(here, provider, clock)
    start, at = clock.now, []
    while worker.one() is not None or provider.count("poll") < 4:
        at += [clock.now] if provider.count("poll") else []
        clock.now += 100
    waits = [b - a for a, b in itertools.pairwise(at)]
    assert waits == sorted(waits)
    assert "error" in _told(here, ticket)[0]
    worker.one() or clock.pause(60)
    worker.one()
    assert "error" not in _told(here, ticket)[0]
    worker.all()
    told, ended = _told(here, ticket)
    assert (ended, told["complete"], "error" in told) == (("succeeded", "settled"), True, False)
    assert clock.now - start < 5 * 60_000


@pytest.mark.parametrize("verb", ["poll", "fetch"])
def test_S0_39_an_outage_after_the_submission_is_not_told_as_if_nothing_had_begun(here, play, verb):
    ticket, _ = here.call("generate_media", picture())
    worker = played(here, play.ScriptedProvider(**{verb: [play.DOWN]}))
    worker.one(), worker.one()
    told, ended = _told(here, ticket)
    assert (ended, told["error"]["kind"], told["error"]["executionStarted"]) == (("running", "reserved"), "capability_unavailable", None)
    played(here, None).one()
    worker.means.pause(120)
    played(here, None, worker.means.now_ms).one()
    told, _ = _told(here, ticket)
    assert ("not set up" in told["error"]["message"], told["error"]["executionStarted"]) == (True, None)


def test_S0_39_a_search_that_cannot_be_made_is_not_told_as_if_nothing_had_begun(here, play):
    ticket, _ = here.call("generate_media", picture())
    played(here, play.ScriptedProvider(submit=[play.LOST])).one()
    clock = Clock()
    clock.pause(120)
    played(here, play.ScriptedProvider(find=[play.DOWN]), clock).one()
    told, ended = _told(here, ticket)
    assert (ended, told["error"]["executionStarted"]) == (("unknown", "uncertain"), None)


def test_of_a_provider_that_stays_silent_nothing_is_known_and_it_is_asked_for_a_day(here, play):
    ticket, _ = here.call("generate_media", picture())
    provider, clock = play.ScriptedProvider(poll=[play.DOWN]), Clock()
    worker, start = played(here, provider, clock), clock.now
    while clock.now - start < limits.SILENT_MS + 3 * limits.ASK_AGAIN_MS:
        worker.all()  # ends by itself: nothing is due soon
        clock.now += limits.ASK_AGAIN_MS
    assert _told(here, ticket)[1] == ("unknown", "uncertain")
    assert here.node("p1")["generation"]["status"] == "unknown"
    assert provider.count("poll") < 40
    clock.now += 25 * HOUR
    worker.all()
    asked = provider.count("poll")
    clock.now += 25 * HOUR
    worker.all()
    assert provider.count("poll") == asked


def test_the_day_of_asking_begins_when_nothing_is_known_any_more(here, play):
    ticket, _ = here.call("generate_media", picture())
    clock = Clock()
    clock.now += 30 * HOUR
    provider = play.ScriptedProvider(submit=[play.LOST], find=[None, Job])
    worker = played(here, provider, clock)
    worker.all()
    assert _told(here, ticket)[1] == ("unknown", "uncertain")
    for _ in range(2):
        clock.now += limits.ASK_AGAIN_MS
        worker.all()
    assert _told(here, ticket)[1] == ("succeeded", "settled")
    assert provider.count("submit") == 1


@pytest.mark.parametrize(("first", "cancels"), [("REFUSED", 1), ("LOST", 2)])
def test_S1_90_a_cancel_that_is_not_taken_keeps_nobody_from_the_result(here, play, first, cancels):
    ticket, _ = here.call("generate_media", picture())
    provider = play.ScriptedProvider(cancel=[getattr(play, first), None], poll=[Found("running"), Found("running"), play.DONE])
    worker = played(here, provider)
    worker.one()
    assert here.call("task_cancel", {"taskId": ticket["taskId"]})[1] == 0
    worker.all()
    assert (_told(here, ticket)[1], provider.count("cancel")) == (("succeeded", "settled"), cancels)


@pytest.mark.parametrize(("word", "ended"), [("unknown", ("unknown", "uncertain")), ("failed", ("cancelled", "refunded"))])
def test_S1_90_a_cancelled_task_its_provider_knows_nothing_of_is_not_refunded(here, play, word, ended):
    ticket, _ = here.call("generate_media", picture())
    provider = play.ScriptedProvider(poll=[Found("running"), Found(word)])
    worker = played(here, provider)
    worker.one()
    here.call("task_cancel", {"taskId": ticket["taskId"]})
    worker.all()
    assert _told(here, ticket)[1] == ended


def test_a_file_that_cannot_be_had_for_a_while_is_still_the_paid_result(here, play):
    ticket, _ = here.call("generate_media", picture())
    provider = play.ScriptedProvider(fetch=[*[play.DOWN] * 5, play.red()])
    played(here, provider).all()
    assert _told(here, ticket)[1] == ("succeeded", "settled")
    assert provider.count("fetch") == 6


def test_a_file_that_never_comes_is_not_refunded_by_us(here, play):
    ticket, _ = here.call("generate_media", picture())
    provider, clock = play.ScriptedProvider(fetch=[play.DOWN]), Clock()
    worker = played(here, provider, clock)
    for _ in range(30):
        worker.all()
        clock.now += limits.ASK_AGAIN_MS
    told, ended = _told(here, ticket)
    assert (ended, told["error"]["details"]["reason"]) == (("unknown", "uncertain"), "not_fetched")


def test_an_address_that_came_with_the_answer_is_asked_again(here, play):
    ticket, _ = here.call("generate_media", picture())
    kept = Job("", outputs=(Output(url="https://x/y"),))
    provider = play.ScriptedProvider(submit=[kept], poll=[lambda job: Found("succeeded", job.outputs) if job.outputs else Found("unknown")],
                                     fetch=[play.DOWN, play.red()])  # fmt: skip
    played(here, provider).all()
    assert _told(here, ticket)[1] == ("succeeded", "settled")
    assert [output for verb, output in provider.seen if verb == "fetch"] == [kept.outputs[0]] * 2


def test_a_node_says_when_nothing_is_known_and_when_something_is_again(here, play):
    ticket, _ = here.call("generate_media", picture())
    clock = Clock()
    worker = played(here, play.ScriptedProvider(poll=[Found("unknown"), Found("running")]), clock)
    worker.one(), worker.one()
    assert (here.node("p1")["generation"]["status"], _told(here, ticket)[0]["writeback"]["outcome"]) == ("unknown", "pending")
    clock.now += limits.ASK_AGAIN_MS
    worker.one()
    told, _ = _told(here, ticket)
    assert (here.node("p1")["generation"]["status"], told["state"], "error" in told) == ("running", "running", False)


def test_nobody_waits_for_a_provider_that_is_not_set_up_here_and_after_a_day_it_is_refunded(here):
    ticket, _ = here.call("generate_media", picture())
    clock = Clock()
    worker, start = played(here, None, clock), clock.now
    assert worker.all() == 1
    assert clock.now == start
    told, ended = _told(here, ticket)
    assert (ended, told["error"]["kind"]) == (("queued", "reserved"), "capability_unavailable")
    clock.now += limits.UNKNOWN_MS + limits.ASK_AGAIN_MS
    worker.all()
    assert _told(here, ticket)[1] == ("failed", "refunded")


def test_the_cause_of_an_unknown_submission_is_kept_whatever_asking_again_meets(here, play):
    ticket, _ = here.call("generate_media", picture())
    clock = Clock()
    played(here, play.ScriptedProvider(submit=[play.LOST]), clock).one()
    cause, _ = _told(here, ticket)
    for find in ([None], [play.DOWN], [play.REFUSED], [None]):
        clock.pause(120)
        provider = play.ScriptedProvider(find=find)
        played(here, provider, clock).one()
        assert provider.count("find") == 1
        told, ended = _told(here, ticket)
        assert ended == ("unknown", "uncertain")
        assert (told["error"]["kind"], told["error"]["message"]) == (cause["error"]["kind"], cause["error"]["message"])
        assert told["error"]["details"]["latest"]["message"] != cause["error"]["message"]
    clock.pause(120)
    played(here, None, clock).one()
    assert "not set up" in _told(here, ticket)[0]["error"]["details"]["latest"]["message"]
    here.call("task_settle", {"taskId": ticket["taskId"], "as": "charged"}, approved_by="person")
    assert _told(here, ticket)[0]["error"]["message"] == cause["error"]["message"], "and a person who settles it is told it"


def test_a_task_that_is_found_again_and_lost_again_tells_the_new_cause(here, play):
    ticket, _ = here.call("generate_media", picture())
    clock = Clock()
    played(here, play.ScriptedProvider(submit=[play.LOST]), clock).one()
    clock.pause(120)
    provider = play.ScriptedProvider(find=[Job("j")], poll=[Found("unknown")])
    worker = played(here, provider, clock)
    worker.one(), worker.one()
    told, ended = _told(here, ticket)
    assert (ended, told["error"]["message"]) == (("unknown", "uncertain"), "the provider knows nothing of it")
