"""What an import, an export or the stopping of one means, found by reading only: the file, the document, the task to be kept.

Whatever can be refused without doing the work is refused here, before there is a task: a path that leads out, a file that is
too large or of no known format, a target that exists (S0.42, S0.44).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Final

from .. import formats
from ..contract.leaf import Prepared
from ..contract.problem import Problem, ProblemError, problem
from ..contract.snapshot import digest
from ..files import FileProblem
from ..files.folder import Folder
from ..formats import writable
from ..formats.limits import MAX_FILE_BYTES
from . import blobs, limits, tasks
from . import content as c
from . import requests as ask
from .leaves import TARGETS
from .memo import Memo
from .plan import Asked, Plan, check_container, document_of


@contextmanager
def telling(stage: str) -> Generator[None]:
    """What is wrong with a file, as the contract's problem."""
    try:
        yield
    except FileProblem as p:
        raise ProblemError(Problem(p.kind, p.message, stage=stage, execution_started=p.started, details=p.details)) from p


def folder_of(asked: Asked) -> Folder:
    if asked.folder is None:
        raise problem("capability_unavailable", "there is no folder for files here", stage="resolve")
    return asked.folder


def check_output(folder: Folder, output: str, *, overwrite: bool) -> bool:
    """Whether a file stands there that may be replaced. Raises ProblemError: conflict (one that may not), type_mismatch, permission_denied."""
    with telling("resolve"):
        folder.check(output, write=True)
        with folder.opened() as root:
            above = ["/".join(output.split("/")[:n]) for n in range(1, output.count("/") + 1)]
            if blocked := next((path for path in above if (part := root.stat(path)) and part.kind != "folder"), ""):
                raise FileProblem("type_mismatch", output, f"{blocked} is not a folder")
            there = root.stat(output)
    if there is not None and (there.kind != "file" or not overwrite):
        kind = "conflict" if there.kind == "file" else "type_mismatch"
        raise problem(kind, f"{output} exists already", stage="resolve", details={"path": output, "exists": there.kind})
    return there is not None


def _import(asked: Asked) -> Plan:
    args, container = asked.args, asked.args.get("containerId", ask.ROOT)
    check_container(asked, container)
    with telling("read"):
        data = folder_of(asked).read(args["file"], MAX_FILE_BYTES)
    path = PurePosixPath(args["file"])
    (blobs if args.get("asUpload") else formats).kind_of(path.name, data)
    sha256 = hashlib.sha256(data).hexdigest()
    title = (args.get("title") or (path.stem if path.stem.strip() else path.name))[: limits.TITLE_CHARS]
    work = tasks.Import(name=path.name, sha256=sha256, title=title, container=container, as_upload=args.get("asUpload", False))
    resolved = {"file": path.name, "sha256": sha256, "bytes": len(data), "title": title, "containerId": container}
    return _submitted(asked, work, Prepared(resolved=resolved, assets=(sha256,)), data)


def _export(asked: Asked) -> Plan:
    args, folder = asked.args, folder_of(asked)
    node = document_of(asked)
    overwrite, target = args.get("overwrite", False), TARGETS[args["format"]]
    formats.check_ending(args["output"], target)
    if target == "pdf":  # only there can a text be one that cannot be shown
        writable(c.document_of(asked.ask(ask.Content(node=node["target"]["nodeId"]))["blocks"], node["title"], target), target)
    there = check_output(folder, args["output"], overwrite=overwrite)
    work = tasks.Export(
        node=node["target"]["nodeId"], revision=node["revision"], title=node["title"], format=args["format"], folder=folder, output=args["output"],
        overwrite=overwrite,
    )  # fmt: skip
    resolved = {"revision": node["revision"], "output": args["output"], "replaces": there}
    # To write over a file is the person's own choice (S0.44): an agent has it confirmed.
    prepared = Prepared(target=node["target"], target_id=work.node, current=node["revision"], resolved=resolved, confirm=there and not asked.person)
    return _submitted(asked, work, prepared)


def _submitted(asked: Asked, work: tasks.Import | tasks.Export, prepared: Prepared, upload: bytes = b"") -> Plan:
    now = asked.call.now_ms
    body = tasks.text_of(tasks.Body(work=work, expires=now + limits.TASK_TTL_MS, user=asked.user))
    task_id = tasks.id_of(asked.tenant, asked.call.operation_id)
    request = ask.Submit(task=task_id, kind=tasks.kind_of(work), session=asked.session, due=now, body=body)
    return Plan(prepared=prepared, requests={"submit": request}, memo=Memo(facts={"submit": {"body": digest(body)}}), upload=upload)


def _cancel(asked: Asked) -> Plan:
    request = ask.Cancel(task=asked.args["taskId"])
    return Plan(
        prepared=Prepared(resolved={"taskId": request.task}), requests={"cancel": request}, memo=Memo(facts={"cancel": {"state": "CANCELLED"}})
    )


PLANS: Final[dict[str, Callable[[Asked], Plan]]] = {"import": _import, "export": _export, "export_submit": _export, "task_cancel": _cancel}
