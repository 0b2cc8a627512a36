"""Documents of the service as inputs of an audit, and its report as one of them.

An input is named by its id or URL. Its text is taken as it stands when the audit begins; a document that has changed since is
another input. The report is one document beside the first of them: made once, under the audit's own key, and written over only at
the revision this audit wrote last, so that a person's changes to it are never lost (S0.3, S0.8).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec.structs import replace

from polyloop.audit.report import Input
from polyloop.contract.operation import shown
from polyloop.contract.problem import Problem, ProblemError, problem
from polyloop.contract.snapshot import digest
from polyloop.formats.blocks import Block, Document
from polyloop.formats.limits import MAX_CHARACTERS
from polyloop.formats.problems import unreadable
from polyloop.journal.carry import Caller

from .approvals import PERSON

if TYPE_CHECKING:
    from polyloop.documents.runtime import DocRuntime

_ID: Final = re.compile(r"n_[0-9a-f]{24}")
URL: Final = "doc://"


def names_document(word: str) -> bool:
    """Whether an input is a document of the service, not a file."""
    return word.startswith(URL) or _ID.fullmatch(word) is not None


async def read_document(documents: DocRuntime, word: str) -> tuple[Input, Document]:
    """One document as an input. Raises ProblemError: not_found, type_mismatch, validation for one that holds no text."""
    found = await _done(documents, "fetch", {"url" if word.startswith(URL) else "nodeId": word, "format": "blocks"})
    url, data = found["target"]["canonicalUrl"], found["data"]
    blocks = [{name: value for name, value in block.items() if name != "blockId"} for block in data["blocks"]]
    document = Document(tuple(replace(b, order=n) for n, b in enumerate(msgspec.convert(blocks, list[Block]))), title=data["title"], name=url)
    if not document.text.strip():
        raise unreadable(url, "empty", "it holds no text")
    if len(document.text) > MAX_CHARACTERS:
        raise unreadable(url, "too_many_characters", f"it has more than {MAX_CHARACTERS} characters")
    return Input(url, digest(blocks)), document


async def write_report(documents: DocRuntime, flow: str, report: Document, inputs: Sequence[str], last: dict[str, Any]) -> dict[str, Any]:
    """The report as a document: `{nodeId, documentUrl, revision, sha256}`. `last` = what this told the time before.

    What this audit wrote is asked of the journal, so that a run that was killed before it told so makes no second one; a report
    that was taken away since is made anew. Raises ProblemError: revision_conflict when somebody else has changed it since.
    """
    content = [msgspec.to_builtins(block.edited(span=None, order=-1)) for block in report.blocks]
    written = digest(content)
    last = await _last(documents, flow, last)
    gone = last["nodeId"] if last and not await _is_there(documents, last["nodeId"]) else ""
    if last and not gone and last["sha256"] == written:
        return last
    after = f"instead of {gone}" if gone else f"after {last.get('revision', 0)}"
    key = {"content": content, "format": "blocks", "operationKey": f"{flow} report {written[:16]} {after}"}
    if last and not gone:
        change = {"nodeId": last["nodeId"], "command": "overwrite", "expectedRevision": last["revision"], "allowBlockLoss": True}
        told = await _done(documents, "update", {**change, **key}, flow)
    else:
        beside = await _done(documents, "resolve", {"url": inputs[0]})
        place = beside["target"]["container"]["id"]
        told = await _done(documents, "create", {"title": report.title[:300], "containerId": place, **key}, flow)
    return _told(told["target"], told["data"]["revision"], written)


async def _last(documents: DocRuntime, flow: str, noted: dict[str, Any]) -> dict[str, Any]:
    """What this audit wrote last, whether it came to note it or not; {} = nothing."""
    done = [e for e in await documents.entries(_session(flow)) if e.receipt is not None and e.receipt.ok]
    if not done or done[-1].receipt is None:
        return noted
    revision = done[-1].receipt.data["revision"]
    found = _told(done[-1].target, revision, "")
    return noted if (noted.get("nodeId"), noted.get("revision")) == (found["nodeId"], revision) else found


async def _is_there(documents: DocRuntime, node: str) -> bool:
    try:
        return (await _done(documents, "inspect", {"nodeId": node}))["data"]["state"] == "live"
    except ProblemError as stop:
        if stop.problem.kind == "not_found":
            return False
        raise


def _told(target: dict[str, Any], revision: int, sha256: str) -> dict[str, Any]:
    return {"nodeId": target["nodeId"], "documentUrl": target["canonicalUrl"], "revision": revision, "sha256": sha256}


def _session(flow: str) -> str:
    return f"{flow} report"


async def _done(documents: DocRuntime, op: str, args: dict[str, Any], flow: str = "") -> dict[str, Any]:
    answer = await documents.call(op, args, Caller(approved_by=PERSON, person=True, session=_session(flow) if flow else ""))
    wire, code = shown(answer)
    if code:
        if isinstance(answer, Problem):
            raise ProblemError(answer)
        raise problem("task_failed", f"{op} was not done", operation="audit", stage=op, details=cast("dict[str, Any]", wire.get("error", wire)))
    return wire
