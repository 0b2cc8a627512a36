"""Providers over HTTP: OpenAI images, the fal queue, Replicate, a ComfyUI server. Each is a translation and keeps nothing.

| | id we choose | may be found again after a lost reply | result |
|---|---|---|---|
| openai | no | no | in the answer itself |
| fal | no | no | links |
| replicate | no | no | links |
| comfyui | yes, the prompt's | yes, by it | files of the server |
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

from ..contract.problem import is_object, problem
from .catalog import MODES
from .provider import Found, Job, Output, Provider, State, Work
from .wire import Wire, ratio, text_of

#: The states of each, as published, in our words. What is not here is unknown.
FAL: Final[Mapping[str, State]] = {"IN_QUEUE": "queued", "IN_PROGRESS": "running", "COMPLETED": "succeeded"}
REPLICATE: Final[Mapping[str, State]] = {
    "starting": "queued", "processing": "running", "succeeded": "succeeded", "failed": "failed", "canceled": "cancelled", "aborted": "cancelled",
}  # fmt: skip


class _Hosted:
    synthetic = False

    def __init__(self, base: str, key: str, scheme: str = "Bearer") -> None:
        self.wire = Wire(base, {"authorization": f"{scheme} {key}"} if key else {})

    def find(self, work_id: str) -> Job | None:
        return None

    def fetch(self, output: Output, limit: int) -> bytes:
        return output.data or self.wire.file(output.url, limit)


class OpenAIImages(_Hosted):
    """`/images/generations`, and `/images/edits` where pictures are given along. The answer is the result: there is no job to ask for."""

    def submit(self, work: Work) -> Job:
        fields = {"model": work.model, "prompt": work.prompt, "size": f"{work.width}x{work.height}", "n": "1"}
        fields |= {"quality": work.quality} if work.quality else {}
        if work.references:
            files = [("image[]", (f"{n}", r.data, r.mime)) for n, r in enumerate(work.references)]
            told = self.wire.ask("POST", "/images/edits", form=(fields, files))
        else:
            told = self.wire.ask("POST", "/images/generations", {**fields, "n": 1})
        found = [entry for entry in _objects(told.get("data")) if "b64_json" in entry or "url" in entry]
        if not found:
            raise problem("invalid_response", "the answer holds no picture", stage="reply", execution_started=None)
        return Job(text_of(told, "id", ""), outputs=(_inline(found[0]),))

    def poll(self, job: Job) -> Found:
        return Found("succeeded", job.outputs) if job.outputs else Found("unknown")

    def cancel(self, job: Job) -> None:
        return  # it has ended before it can be named


class FalQueue(_Hosted):
    """`POST /MODEL` -> request_id and three links; COMPLETED may still carry an error."""

    def __init__(self, base: str, key: str) -> None:
        super().__init__(base, key, "Key")

    def submit(self, work: Work) -> Job:
        told = self.wire.ask("POST", f"/{work.model}", _inputs(work))
        return Job(text_of(told, "request_id"), {name: text_of(told, f"{name}_url") for name in ("status", "response", "cancel")})

    def poll(self, job: Job) -> Found:
        told = self.wire.ask("GET", job.links["status"])
        state: State = FAL.get(text_of(told, "status", ""), "unknown")
        if state != "succeeded":
            return Found(state)
        if told.get("error"):
            return Found("failed", error=str(told["error"])[:300])
        result = self.wire.ask("GET", job.links["response"])
        if result.get("error") or result.get("detail"):
            return Found("failed", error=str(result.get("error") or result.get("detail"))[:300])
        return _made(_addresses(result))

    def cancel(self, job: Job) -> None:
        self.wire.tell("PUT", job.links["cancel"])


class Replicate(_Hosted):
    """`POST /models/MODEL/predictions`; the addresses of its results expire, so they are fetched at once."""

    def submit(self, work: Work) -> Job:
        told = self.wire.ask("POST", f"/models/{work.model}/predictions", {"input": _inputs(work)})
        return Job(text_of(told, "id"))

    def poll(self, job: Job) -> Found:
        told = self.wire.ask("GET", f"/predictions/{quote(job.request_id, safe='')}")
        state: State = REPLICATE.get(text_of(told, "status", ""), "unknown")
        return _made(_addresses(told.get("output"))) if state == "succeeded" else Found(state, error=str(told.get("error") or "")[:300])

    def cancel(self, job: Job) -> None:
        self.wire.tell("POST", f"/predictions/{quote(job.request_id, safe='')}/cancel")


class ComfyUI(_Hosted):
    """`/prompt` with an id of ours. What is in neither queue nor history is unknown, never done."""

    def __init__(self, base: str, key: str, graph: Mapping[str, Any]) -> None:
        """`graph`: a workflow in API form; `"$prompt"`, `"$width"`, `"$height"`, `"$seconds"`, `"$sound"`, `"$quality"`, `"$seed"` and `"$model"`
        stand for what is asked.
        """
        super().__init__(base, key)
        self._graph = graph

    def submit(self, work: Work) -> Job:
        job = self._job(work.id)
        asked: dict[str, Any] = {
            "$prompt": work.prompt, "$width": work.width, "$height": work.height, "$model": work.model, "$seconds": work.seconds,
            "$sound": work.sound, "$quality": work.quality, "$seed": int(job.request_id[:8], 16),
        }  # fmt: skip
        told = self.wire.ask("POST", "/prompt", {"prompt": _filled(self._graph, asked), "prompt_id": job.request_id})
        if told.get("prompt_id") != job.request_id:
            raise problem("invalid_response", "the server has given it another id", stage="reply", execution_started=None)
        return job

    def poll(self, job: Job) -> Found:
        entry = self.wire.ask("GET", f"/history/{job.request_id}").get(job.request_id)
        if is_object(entry):
            status = entry.get("status")
            told: dict[str, Any] = status if is_object(status) else {}
            if told.get("status_str") == "error":
                return Found("failed", error=str(told.get("messages", ""))[:300])
            if told.get("completed"):
                return _made(f"/view?{urlencode({k: str(f.get(k, '')) for k in ('filename', 'subfolder', 'type')})}" for f in _files(entry))
        queue = self.wire.ask("GET", "/queue")
        for name, state in (("queue_running", "running"), ("queue_pending", "queued")):
            if any(isinstance(item, list) and job.request_id in item for item in _list(queue.get(name))):
                return Found(cast("State", state))
        return Found("cancelled" if job.stopped else "unknown")  # it forgets what it takes out of its queue

    def cancel(self, job: Job) -> None:
        self.wire.tell("POST", "/queue", {"delete": [job.request_id]})
        self.wire.tell("POST", "/interrupt", {"prompt_id": job.request_id})

    def find(self, work_id: str) -> Job | None:
        job = self._job(work_id)
        return job if self.poll(job).state != "unknown" else None

    def _job(self, work_id: str) -> Job:
        h = hashlib.sha256(work_id.encode()).hexdigest()
        return Job(f"{h[:8]}-{h[8:12]}-4{h[13:16]}-8{h[17:20]}-{h[20:32]}")


#: By the word used in settings.
HOSTED: Final = {"openai": OpenAIImages, "fal": FalQueue, "replicate": Replicate}


def hosted(kind: str, base: str, key: str, graph: Mapping[str, Any] | None = None) -> Provider:
    """Raises ProblemError(validation) for a kind there is none of."""
    if kind == "comfyui" and graph is not None:
        return ComfyUI(base, key, graph)
    if kind in HOSTED:
        return HOSTED[kind](base, key)
    raise problem("validation", f"no such provider: {kind!r}; there are {', '.join((*HOSTED, 'comfyui'))}", stage="arguments")


# --- small parts -----------------------------------------------------------------------------------------------------


def _inputs(work: Work) -> dict[str, Any]:
    """The fields most models of fal and Replicate share."""
    given: dict[str, Any] = {"prompt": work.prompt}
    if work.width:
        given |= {"image_size": {"width": work.width, "height": work.height}, "width": work.width, "height": work.height}
        given["aspect_ratio"] = ratio(work.width, work.height)
    if work.seconds:
        given["duration"] = work.seconds
    if work.mode == "video":
        given["generate_audio"] = work.sound
    if work.quality:
        given["quality"] = work.quality
    for kind in MODES:
        links = [f"data:{r.mime};base64,{base64.b64encode(r.data).decode()}" for r in work.references if r.mime.startswith(kind)]
        if links:
            given |= {f"{kind}_url": links[0], f"{kind}_urls": links}
    return given


def _inline(entry: dict[str, Any]) -> Output:
    if "b64_json" not in entry:
        return Output(url=text_of(entry, "url"))
    try:
        return Output(data=base64.b64decode(str(entry["b64_json"]), validate=True))
    except (binascii.Error, ValueError) as error:
        raise problem("invalid_response", "the picture in the answer is no base64", stage="reply", execution_started=None) from error


def _made(addresses: Iterable[str]) -> Found:
    outputs = tuple(Output(url=url) for url in addresses)
    return Found("succeeded", outputs) if outputs else Found("failed", error="it ended without a result")


def _addresses(value: Any) -> list[str]:
    """Every address of a file in a result: a text, a list of them, or objects with a `url`."""
    if isinstance(value, str):
        return [value] if value.startswith(("http://", "https://")) else []
    if isinstance(value, list):
        return [url for part in cast("list[Any]", value) for url in _addresses(part)]
    if not is_object(value):
        return []
    if isinstance(value.get("url"), str):
        return _addresses(value["url"])
    return [url for name in ("images", "image", "video", "videos", "audio", "audio_file", "output") for url in _addresses(value.get(name))]


def _files(entry: dict[str, Any]) -> list[dict[str, Any]]:
    nodes = entry.get("outputs")
    made = [node for node in nodes.values() if is_object(node)] if is_object(nodes) else []
    return [file for node in made for name in ("images", "gifs", "video", "audio") for file in _objects(node.get(name)) if file.get("type") != "temp"]


def _filled(graph: Any, values: Mapping[str, Any]) -> Any:
    """The workflow with what is asked in its places."""
    if is_object(graph):
        return {name: _filled(part, values) for name, part in graph.items()}
    if isinstance(graph, list):
        return [_filled(part, values) for part in cast("list[Any]", graph)]
    return values.get(graph, graph) if isinstance(graph, str) else graph


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _objects(value: Any) -> list[dict[str, Any]]:
    return [part for part in _list(value) if is_object(part)]
