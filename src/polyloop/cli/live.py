"""Progress of a run on stderr, when a person is looking: one line per step, from the run's own events."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

from polyloop.db.tasks import Task
from polyloop.documents.tasks import stage_of
from polyloop.kernel.seams import Event, Sink
from polyloop.words.catalog import say

from .cells import fit, pad
from .frame import Place


def progress(place: Place) -> tuple[Sink, ...]:
    """A sink that shows steps on a terminal; none when nobody looks."""
    if place.as_json or not sys.stderr.isatty():
        return ()
    return (_show,)


def task_progress(place: Place) -> Callable[[Task], object] | None:
    """Shows how far an import or export has come, one line a stage, on a terminal; None when nobody looks."""
    if place.as_json or not sys.stderr.isatty():
        return None
    shown: list[tuple[str, str]] = []

    def show(task: Task) -> None:
        stage = (task.id, stage_of(task))
        if stage not in shown:
            shown.append(stage)
            sys.stderr.write(f"  {task.kind.removeprefix('doc.')}  {say('doc.task.' + stage[1], place.lang)}\n")

    return show


def _show(event: Event) -> None:
    body = cast("dict[str, Any]", event.body)
    if event.type == "step":
        c = body["counters"]
        sys.stderr.write(f"  {c['iterations']:>4}  {c['valid_steps']:>4}  {pad(fit(body['tool'] or '-', 24), 24)} {body['outcome']}\n")
    elif event.type in ("waiting", "resumed"):
        sys.stderr.write(f"  {event.type}\n")
