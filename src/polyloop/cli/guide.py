"""`polyloop guide`: the policy texts that runs are given, for people and for whoever connects from outside."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from polyloop.dialogue.policy import Policy, policy

from .frame import Place, carry_out


def guide(
    place: Place,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="documents or canvas.")],
) -> None:
    """Print how the tools of a subject are used: the text that every run with these tools is given."""

    async def work() -> Policy:
        return policy(subject, place.lang)

    text = carry_out(place, work)
    if place.as_json:
        place.print_json({"id": text.id, "version": text.version, "lang": text.lang, "sha256": text.sha256, "text": text.text})
    else:
        sys.stdout.write(text.text)
