"""`python -m polyloop.cli.slow_audit PATHS PAUSE_S FILE DIR STORE TENANT LANG MODEL`: an audit on a slow disk, to be killed in the middle of a write.

The demonstration and the tests of recovery start it as a process of its own.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import cast

from polyloop.app.audit import Audit, Settings, checked_model, read_inputs
from polyloop.app.store import open_runs
from polyloop.testing.slow_disk import SlowDisk
from polyloop.words.catalog import Lang
from polyloop.workspace import Workspace


async def work(paths: str, pause_s: float, file: Path, folder: Path, store: str, tenant: str, lang: str, model: str) -> None:
    def slow(workspace: Workspace) -> Workspace:
        made = SlowDisk(workspace.folder, read_only=workspace.read_only, answer_bytes=workspace.answer_bytes)
        made.paths, made.pause_s = paths, pause_s
        return made

    read = read_inputs([file])
    settings = Settings(tuple(one for one, _ in read), tenant, store, checked_model(model), cast(Lang, lang))
    async with open_runs(store, tenant, dedicated=True) as runs, runs.holding():
        with Audit(folder, runs, slow) as audit:
            audit.begin(settings, [document for _, document in read])
            await audit.go()
            audit.land(await audit.report())


if __name__ == "__main__":
    paths, pause_s, file, folder, *place = sys.argv[1:]
    asyncio.run(work(paths, float(pause_s), Path(file), Path(folder), *place))
