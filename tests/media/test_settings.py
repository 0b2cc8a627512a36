"""`media.toml` where money is: what it claims is sent, and what it misspells is refused where it stands."""

from __future__ import annotations

import os

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.media.carries import KINDS
from polyloop.media.settings import parse
from tests.media.room import picture, room
from tests.media.test_batch import RUN, _table

pytestmark = pytest.mark.needs("media")

WORKFLOW = '[providers.graph.1]\nclass_type = "Resize"\ninputs = {text = "$prompt", max_width = 512, logical_id = "a"}\n'
MODEL = {"channel": '"c"', "key": '"k"', "name": '"N"', "mode": '"image"', "sizes": '["512x512"]', "prices": '[{tier = "s", credits = "1"}]'}


def _file(kind: str = "fal", url: str = "https://q.example", graph: str = "", **model: str) -> bytes:
    fields = "\n".join(f"{name} = {value}" for name, value in {**MODEL, **model}.items() if value)
    return f'[[providers]]\nchannel = "c"\nkind = "{kind}"\nurl = "{url}"\n{graph}\n[[models]]\n{fields}\n'.encode()


def _refused(data: bytes) -> str:
    with pytest.raises(ProblemError) as stop:
        parse("media.toml", data)
    assert (stop.value.problem.kind, "media.toml" in stop.value.problem.message) == ("validation", True)
    return stop.value.problem.message


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "comfyui"])
def test_what_is_right_is_taken(kind):
    assert parse("m", _file(kind)).catalog.models[-1].sizes == ("512x512",)


def test_a_workflow_is_taken_as_it_stands():
    """Its words are those of its nodes, also where ours are spelt alike."""
    found = parse("m", _file("comfyui", graph=WORKFLOW, sizes="", prompt_chars="9"))
    assert found.providers[0].graph["1"]["inputs"] == {"text": "$prompt", "max_width": 512, "logical_id": "a"}
    assert found.catalog.models[-1].prompt_chars == 9


#: What is wrong -> a word of the message.
WRONG = {
    "kind": (_file("nonsense"), "nonsense"),
    "url": (_file(url="not an address"), "address"),
    "url with a key": (_file(url="https://q.example/?key=1"), "address"),
    "url with a port that is none": (_file(url="https://q.example:99999"), "ort"),
    "a blank in the url": (_file(url="https://q.example/ x"), "address"),
    "a url that is not drawn": (_file(url="https://q\\u0001.example"), "address"),
    "a host that is none": (_file(url="https://a..b"), "address"),
    "key variable": (_file(graph='key_env = "A=B"'), "key_env"),
    "key variable with a NUL": (_file(graph='key_env = "A\\u0000"'), "key_env"),
    "deep": (b"a = " + b"[" * 5000, "nested"),
    "deep within": (_file("comfyui", graph="graph = " + "{a = " * 400 + "1" + "}" * 400), "nested"),
    "a workflow that is no JSON": (_file("comfyui", graph=WORKFLOW + "when = 2030-01-01\n", sizes=""), "graph"),
    "a side that is too long": (_file(sizes='["8193x8"]'), "8193x8"),
    "too many pixels": (_file(sizes='["8192x8192"]'), "8192x8192"),
    "pixels of a clip": (_file(mode='"video"', seconds="[1, 2]", sizes='["9000x64"]'), "9000x64"),
    "a long id": (_file(logical_id=f'"{"x" * 300}"'), "logical_id"),
    "an id with a control sign": (_file(logical_id='"a\\u001b"'), "logical_id"),
    "a blank id": (_file(logical_id='" a"'), "logical_id"),
    "no key": (_file(key='""'), "key"),
    "no name": (_file(name='""'), "name"),
    "a name with a control sign": (_file(name='"\\u001b[31m"'), "name"),
    "no tier": (_file(prices='[{tier = "", credits = "1"}]'), "tier"),
    "an empty quality": (_file(qualities='[""]'), "qualities"),
    "a long quality": (_file(qualities=f'["{"x" * 41}"]'), "qualities"),
    "more references than a call has": (_file(references="{image = 17}"), "image"),
    "longer prompts than a call has": (_file(prompt_chars="16001"), "prompt_chars"),
    "no prompt": (_file(prompt_chars="0"), "prompt_chars"),
    "a length that may be none": (_file(mode='"video"', seconds="[0, 9]"), "seconds"),
    "no graph": (_file("comfyui"), "graph"),
    "a graph for another": (_file("fal", graph=WORKFLOW), "graph"),
    "unknown field of a price": (_file(prices='[{tier = "s", credits = "1", max_heigth = 9}]'), "max_heigth"),
    "unknown field of references": (_file(references="{images = 1}"), "images"),
    "price": (_file(prices='[{tier = "s", credits = "much"}]'), "much"),
    "limit of a price": (_file(prices='[{tier = "s", credits = "1", max_seconds = nan}]'), "max_seconds"),
    "a picture priced by the second": (_file(prices='[{tier = "s", credits = "1", unit = "second"}]'), "second"),
    "size": (_file(sizes='["big"]'), "big"),
    "seconds": (_file(mode='"video"', seconds="[9, 1]"), "seconds"),
    "endless seconds": (_file(mode='"video"', seconds="[1, inf]"), "seconds"),
    "default outside": (_file(mode='"video"', seconds="[1, 9]", default_seconds="10"), "seconds"),
    "fewer than no references": (_file(references="{image = -1}"), "image"),
    "an openai clip": (_file("openai", mode='"video"', seconds="[1, 9]"), "mode"),
    "an openai sound for a picture": (_file("openai", sound="true"), "sound"),
    "openai clips given along": (_file("openai", references="{video = 1}"), "references"),
    "references of comfyui": (_file("comfyui", graph=WORKFLOW, sizes="", references="{image = 1}"), "references"),
    "sizes without a place": (_file("comfyui", graph=WORKFLOW), "sizes"),
    "qualities without a place": (_file("comfyui", graph=WORKFLOW, sizes="", qualities='["high"]'), "qualities"),
    "seconds without a place": (_file("comfyui", graph=WORKFLOW, sizes="", mode='"audio"', seconds="[1, 9]"), "seconds"),
    "sound without a place": (_file("comfyui", graph=WORKFLOW, sizes="", mode='"video"', sound="true"), "sound"),
    "a method of this machine": (_file(splits='"colour-regions"'), "splits"),
}


def test_a_channel_without_a_name_is_refused():
    for channel in ("", "\\u001b[31m", "x" * 200):
        assert "channel" in _refused(f'[[providers]]\nchannel = "{channel}"\nkind = "fal"\nurl = "https://q.example"\n'.encode())


@pytest.mark.parametrize("name", ["media.toml", "gateway.toml"])
def test_settings_that_are_no_file_are_refused_and_not_waited_for(tmp_path, monkeypatch, name):
    from polyloop.app import gateway, media

    monkeypatch.setenv("POLYLOOP_HOME", str(tmp_path))
    os.mkfifo(tmp_path / name)
    with pytest.raises(ProblemError, match="regular file") as stop:
        (media if name == "media.toml" else gateway).settings()
    assert stop.value.problem.kind == "validation"


@pytest.mark.parametrize(("data", "word"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_refused_by_name(data, word):
    assert word in _refused(data)


@pytest.mark.parametrize("kind", ["fal", "replicate", "comfyui"])
def test_everything_that_was_approved_is_sent(kind, monkeypatch):
    from polyloop.media.hosted import hosted
    from polyloop.media.provider import Reference, Work

    graph = {"1": {"inputs": {name: f"${name}" for name in ("prompt", "width", "height", "seconds", "sound", "quality")}}}
    provider, sent = hosted(kind, "http://127.0.0.1:9", "k", graph if kind == "comfyui" else None), []
    monkeypatch.setattr(provider.wire, "ask", lambda _method, _path, body=None: sent.append(body) or {"prompt_id": body.get("prompt_id", "")})
    clip, song = (Reference(mime, b"x") for mime in ("video/mp4", "audio/wav"))
    work = Work(id="t", mode="video", model="m", prompt="p", width=8, height=6, seconds=3, sound=True, quality="high", references=(clip, song))
    if kind == "comfyui":
        provider.submit(work)
        assert sent[0]["prompt"]["1"]["inputs"] == {"prompt": "p", "width": 8, "height": 6, "seconds": 3, "sound": True, "quality": "high"}
        return
    with pytest.raises(ProblemError):
        provider.submit(work)  # the answer names no job
    told = sent[0] if kind == "fal" else sent[0]["input"]
    assert (told["quality"], told["duration"], told["generate_audio"]) == ("high", 3, True)
    assert (told["video_url"][:15], told["audio_url"][:15], "image_url" in told) == ("data:video/mp4;", "data:audio/wav;", False)


def test_a_model_is_chosen_by_its_selection_not_by_its_name(tmp_path):
    """Two models of one name, one of them without a price."""
    priceless = _file(key='"b"', prices="").decode().partition("[[models]]")[2]
    found = parse("m", _file() + b"\n[[models]]\n" + priceless.encode())
    with room(tmp_path, found) as here:
        here.grant()
        wish = {**picture(), "channelId": "c", "channelModelKey": "k"}
        wish.pop("logicalModelId")
        assert here.call("generate_media", wish)[1] == 10
        told, code = here.call("generate_media", {**wish, "nodeId": "p2", "channelModelKey": "b"})
        assert (code, told["error"]["details"]["issue"]) == (2, "price_missing")


@pytest.mark.parametrize("mode", ["image", "video", "audio"])
def test_S1_66_what_has_no_length_has_no_price_by_the_second(mode):
    from polyloop.media.catalog import Model, Price, Wish, quoted

    price = (Price(tier="s", credits="1", unit="second"),)
    with pytest.raises(ValueError, match="second"):
        Model(name="N", mode=mode, channel="c", key="k", prices=price)
    timed = Model(name="N", mode=mode, channel="c", key="k", prices=price, seconds=(1, 9))
    assert quoted(timed, Wish(mode=mode)) is None
    assert quoted(timed, Wish(mode=mode, seconds=2)).amount_micro == 2_000_000


def test_the_prompt_of_a_row_is_held_to_its_model_too(tmp_path):
    from msgspec.structs import replace

    from polyloop.media.catalog import EMBEDDED, Catalog

    with room(tmp_path) as here:
        here.grant()
        here.call("generate_media", picture("ref", "a coat"))
        here.worker.all()
        here.media.rooms = replace(here.media.rooms, catalog=Catalog([replace(EMBEDDED[0], prompt_chars=3), *EMBEDDED[1:]]))
        _table(here, ["longer than three"])
        told, code = here.call("batch_run", RUN, approved_by="person")
        problem = told["error"]["details"]["problems"][0]
        assert (code, problem["field"], problem["issue"]) == (2, "rows[0].prompt", "length")
