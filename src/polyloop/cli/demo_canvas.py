"""`polyloop demo canvas`: a storyboard, a picture, a clip and a sound, made offline; a person's yes before anything is paid.

Nothing is staged: the same calls as anybody's, in a session of their own, and the files lie in the folder afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from polyloop.app.approvals import PERSON
from polyloop.app.documents import canvases_of, open_database
from polyloop.app.media import media_of, media_worker, save_file
from polyloop.canvas.runtime import CanvasRuntime
from polyloop.contract.operation import shown
from polyloop.contract.problem import problem
from polyloop.contract.spend import Grant, micro
from polyloop.files.threads import in_thread
from polyloop.journal.carry import Caller
from polyloop.media.runtime import MediaRuntime
from polyloop.words.catalog import Lang, say

SESSION: Final = "demo"
#: What is made of each shot: mode, model, and what the wish says beside them.
WISHES: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("image", "studio-image", {"size": "1024x576"}), ("video", "studio-video", {"size": "640x360", "durationSeconds": 2}),
    ("audio", "studio-audio", {"durationSeconds": 3}),
)  # fmt: skip
_ENDINGS: Final = {"image": "png", "video": "mp4", "audio": "wav"}
_WAIT_S: Final = 120.0


def new_folder(base: Path) -> Path:
    """A folder that is not there yet: earlier demonstrations stay."""
    return next(folder for n in itertools.count(1) if not (folder := base / f"canvas-{n}").exists())


async def story(store: str, folder: Path, tenant: str, lang: Lang, tell: Callable[..., None]) -> dict[str, Any]:
    """Play it and tell it, in a store ("" = one in the folder). Returns the facts. Raises ProblemError when it does not go as it should."""
    store = store or str(folder / "demo.db")
    with open_database(store, tenant) as db:
        canvases, media = canvases_of(db, tenant), media_of(db, tenant)
        caller = Caller(session=SESSION)
        canvas = (await _done(canvases, "canvas_new", {"title": say("canvasdemo.title", lang)}, caller))["data"]["canvasId"]
        caller = Caller(session=SESSION, within=canvas)
        shots = [say(f"canvasdemo.shot{n}", lang) for n in (1, 2, 3)]
        tell("board", canvas=canvas, shots=await _storyboard(canvases, caller, shots, lang))
        tickets: list[str] = []
        for (mode, model, more), prompt in zip(WISHES, shots, strict=True):
            listed = await _done(media, "model_list", {"mode": mode, "referenceNodeIds": []}, caller)
            wish: dict[str, Any] = {
                "mode": mode, "prompt": prompt, "nodeId": f"{mode}-1", "title": prompt, "referenceNodeIds": [], "logicalModelId": model, **more,
            }  # fmt: skip
            tell("models", mode=say(f"mode.{mode}", lang), count=len(listed["models"]))
            tickets.append(await _allowed(media, wish, caller, tell))
        worker = media_worker(db, tenant)
        made: list[dict[str, Any]] = []
        for (mode, _, _), task_id in zip(WISHES, tickets, strict=True):
            await in_thread(lambda task_id=task_id: worker.finish(task_id, _WAIT_S), lambda: None)
            ticket = await _done(media, "task_get", {"taskId": task_id}, caller)
            file = folder / f"{mode}.{_ENDINGS[mode]}"
            landed = await save_file(db, tenant, str(file), f"{mode}-1", "", caller)
            tell("made", mode=say(f"mode.{mode}", lang), file=file, bytes=landed["bytes"], credits=ticket["billing"]["credits"])
            made.append({"mode": mode, "ticket": ticket, "file": landed})
    tell("end", count=len(made), dir=folder)
    return {"schema": "polyloop.demo.canvas.v1", "canvasId": canvas, "store": store, "made": made, "dir": str(folder)}


async def _done(runtime: CanvasRuntime | MediaRuntime, tool: str, arguments: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """A call that must succeed. Raises task_failed with what it answered."""
    answer, code = shown(await runtime.call(tool, arguments, caller))
    if code:
        raise problem("task_failed", f"{tool} did not go as it should", operation="demo", details={"answer": answer})
    return answer


async def _storyboard(canvases: CanvasRuntime, caller: Caller, shots: list[str], lang: Lang) -> int:
    state = await _done(canvases, "canvas_get_state", {}, caller)
    await _done(canvases, "canvas_list_node_types", {}, caller)
    rows = [{"durationSeconds": 3, "plotDescription": shot} for shot in shots]
    made = {"snapshotHash": state["snapshotHash"], "nodeId": "board", "title": say("canvasdemo.title", lang), "rows": rows}
    await _done(canvases, "canvas_create_storyboard", made, caller)
    return len(rows)


async def _allowed(media: MediaRuntime, wish: dict[str, Any], caller: Caller, tell: Callable[..., None]) -> str:
    """Asked without authority it waits; the first is approved as a plan, for the rest the person gives a grant. The task's id."""
    answer, code = shown(await media.call("generate_media", wish, caller))
    if code == 5:  # noqa: PLR2004  # waits for approval
        details = answer["error"]["details"]
        if wish["mode"] == "image":
            await media.decide(details["planId"], "approved", by=PERSON)
            tell("approved", credits=details["plan"]["resolved"]["credits"])
        else:
            granted = await media.grant("session", SESSION, Grant(id="", credits_micro=micro(5), modes=("video", "audio")))
            tell("granted", credits=granted.credits_micro // micro(1))
        answer, code = shown(await media.call("generate_media", wish, caller))
    if "taskId" not in answer:
        raise problem("task_failed", "nothing was begun", operation="demo", details={"answer": answer})
    return str(answer["taskId"])
