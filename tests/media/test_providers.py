"""The four HTTP providers against a server that misbehaves as told: what each failure proves, and that nothing is ever sent twice."""

from __future__ import annotations

import contextlib
import time

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.media.hosted import hosted
from polyloop.media.provider import Found, Job, Work
from polyloop.media.wire import Wire

pytestmark = pytest.mark.needs("media")

GRAPH = {
    "1": {"class_type": "T", "inputs": {"prompt": "$prompt", "width": "$width", "height": "$height", "seed": "$seed"}},
    "9": {"inputs": ["1", 0]},
}
DIALECTS = ("openai", "fal", "replicate", "comfyui")
#: fault -> (does the submission raise, and with which execution_started; how the work ends; what the file's check says).
EXPECTED = {
    "": (None, "succeeded", ""),
    "twice": (None, "succeeded", ""),
    "slow": (None, "succeeded", ""),
    "refuse": ((False,), "", ""),
    "drop_reply": ((None,), "", ""),
    "error_after": ((None,), "", ""),
    "no_id": ((None,), "", ""),
    "fail_late": (None, "failed", ""),
    "empty_result": (None, "failed", ""),
    "truncate": (None, "succeeded", "truncated"),
    "cut": (None, "succeeded", "lost"),
    "wrong_type": (None, "succeeded", "not_decodable"),
    "wrong_size": (None, "succeeded", "size"),
    "lost": (None, "unknown", ""),
}
#: Where the answer is the result there is no later: what would fail later holds nothing.
AT_ONCE = {"fail_late": ((None,), "", ""), "empty_result": ((None,), "", ""), "lost": ((None,), "", ""), "cut": (None, "succeeded", "")}


def _work(n: int) -> Work:
    return Work(id=f"task-{n}", mode="image", model="owner/model", prompt=f"a quiet river {n}", width=256, height=144)


def _ended(provider, job: Job) -> Found:
    found = Found("unknown")
    for _ in range(12):
        try:
            found = provider.poll(job)
        except ProblemError:
            found = Found("unknown")
        if found.state not in ("queued", "running"):
            break
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_S1_81_each_failure_says_what_it_proves_and_nothing_is_sent_twice(dialect, tmp_path):
    from polyloop.media.verify import accepted
    from polyloop.testing.media_server import MediaServer

    expected = {**EXPECTED, **(AT_ONCE if dialect == "openai" else {})}
    with MediaServer(tmp_path / "log", list(expected)) as server:
        provider = hosted(dialect, server.url(dialect), "key", GRAPH)
        for n, (fault, (stops, end, check)) in enumerate(expected.items()):
            work, before = _work(n), len(server.submissions())
            raises = pytest.raises(ProblemError) if stops else contextlib.nullcontext()
            job = None
            with raises as stop:
                job = provider.submit(work)
            assert len(server.submissions()) - before == (fault != "refuse"), fault
            if stop is not None:
                assert stop.value.problem.execution_started is stops[0], fault
                assert (provider.find(work.id) is not None) == (dialect == "comfyui" and fault not in ("refuse", "lost")), fault
                continue
            assert job is not None
            found = _ended(provider, job)
            assert found.state == end, fault
            if end != "succeeded":
                continue
            why = ""
            try:
                accepted(provider.fetch(found.outputs[0], 1 << 24), work)
            except ProblemError as wrong:
                why = wrong.problem.details.get("reason") or ("lost" if wrong.problem.stage == "reply" else "")
            assert why == check, fault


@pytest.mark.parametrize(
    ("dialect", "fault", "end"), [("fal", "stuck", "failed"), ("replicate", "stuck", "cancelled"), ("comfyui", "stuck", "unknown")]
)
def test_a_cancelled_job_ends_and_a_late_cancel_changes_nothing(dialect, fault, end, tmp_path):
    """fal tells a cancelled job as completed with an error; ComfyUI forgets it."""
    from polyloop.testing.media_server import MediaServer

    with MediaServer(tmp_path / "log", ["stuck", "cancel_late"]) as server:
        provider = hosted(dialect, server.url(dialect), "key", GRAPH)
        for work, expected in ((_work(1), end), (_work(2), "succeeded")):
            job = provider.submit(work)
            provider.cancel(job)
            assert _ended(provider, job).state == expected


def test_an_unreachable_provider_has_not_begun():
    with pytest.raises(ProblemError) as stop:
        hosted("fal", "http://127.0.0.1:9", "key").submit(_work(1))
    assert (stop.value.problem.kind, stop.value.problem.execution_started) == ("capability_unavailable", False)


@pytest.mark.parametrize("link", ["http://169.254.169.254/x", "https://elsewhere.example/x", "file:///etc/passwd"])
def test_a_link_to_another_host_is_never_asked(link):
    provider = hosted("fal", "http://127.0.0.1:9", "key")
    with pytest.raises(ProblemError) as stop:
        provider.poll(Job("r", {"status": link, "response": link, "cancel": link}))
    assert stop.value.problem.kind == "invalid_response"


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest", "file:///etc/passwd", "ftp://x/y"])
def test_a_result_is_fetched_from_its_provider_or_over_https_only(url):
    from polyloop.media.provider import Output

    with pytest.raises(ProblemError) as stop:
        hosted("replicate", "http://127.0.0.1:9", "key").fetch(Output(url=url), 1000)
    assert stop.value.problem.stage == "fetch"


@pytest.mark.parametrize("base", ["ftp://x", "http://user:secret@x/y", "http://x/?key=1", "nonsense"])
def test_an_address_that_is_none_is_refused(base):
    with pytest.raises(ProblemError) as stop:
        hosted("fal", base, "key")
    assert stop.value.problem.kind == "validation"


def test_there_is_no_other_provider():
    with pytest.raises(ProblemError):
        hosted("nobody", "http://127.0.0.1:9", "")


def test_trusted_certificates_are_read_once_for_all_doors():
    """In seconds of this process: forty doors of either kind take less than reading the certificates five times."""
    import httpx2

    from polyloop.gateway.wire import Wire as ModelWire

    began = time.process_time()
    for _ in range(5):
        httpx2.create_ssl_context(trust_env=False)
    five = time.process_time() - began
    began = time.process_time()
    for _ in range(20):
        Wire("https://example.org", {})
        ModelWire()._open()
    assert time.process_time() - began < five
