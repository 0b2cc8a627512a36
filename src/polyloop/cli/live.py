"""Progress of a run on stderr, when a person is looking: one line per step, from the run's own events."""

from __future__ import annotations

import sys
from typing import Any, cast

from polyloop.kernel.seams import Event, Sink

from .cells import fit, pad
from .frame import Place


def progress(place: Place) -> tuple[Sink, ...]:
    """A sink that shows steps on a terminal; none when nobody looks."""
    if place.as_json or not sys.stderr.isatty():
        return ()
    return (_show,)


def _show(event: Event) -> None:
    body = cast("dict[str, Any]", event.body)
    if event.type == "step":
        c = body["counters"]
        sys.stderr.write(f"  {c['iterations']:>4}  {c['valid_steps']:>4}  {pad(fit(body['tool'] or '-', 24), 24)} {body['outcome']}\n")
    elif event.type in ("waiting", "resumed"):
        sys.stderr.write(f"  {event.type}\n")
