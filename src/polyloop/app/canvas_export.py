"""A canvas given out in one of its forms, from an open store."""

from __future__ import annotations

from polyloop.db import Database
from polyloop.journal.carry import typed
from polyloop.views.canvas.forms import check_form, given_out, whole
from polyloop.words.catalog import Lang


async def exported(db: Database, tenant: str, owner: str, canvas_id: str, *, form: str, lang: Lang, node_id: str = "") -> bytes:
    """Read at one snapshot. Raises ProblemError: validation, not_found, type_mismatch, capability_unavailable, local_io."""
    check_form(form, node_id)
    with typed("canvas.export"):
        board = await db.read(whole, tenant, owner, canvas_id, form)
    return given_out(board, form, lang, node_id)
