"""The `polyloop` command from outside: a process per command, forked from one that has imported everything.

Each process is as new as any other (its own store, threads and signals); only the second of imports is spent once per test worker.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple


class Done(NamedTuple):
    """How a command ended: exit code (negative: the signal that killed it) and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> Any:
        """Its JSON, or the text."""
        try:
            return json.loads(self.out)
        except ValueError:
            return self.out + self.err


def command(folder: Path, *words: object) -> Done:
    """Run `polyloop WORDS` in a folder."""
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place) / "out", Path(place) / "err"
        asked = {"folder": str(folder), "words": [str(word) for word in words], "out": str(out), "err": str(err), "environment": dict(os.environ)}
        server = _server()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        return Done(int(server.stdout.readline()), out.read_text(), err.read_text())


@functools.cache
def _server() -> subprocess.Popen[str]:
    """It ends with its standard input, so with this process."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.outside"], cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def serve() -> None:
    from polyloop.cli.main import main

    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if not child:
            _become(asked)
            main()
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


def _become(asked: dict[str, Any]) -> None:
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["polyloop", *asked["words"]]
    for number, path in ((0, os.devnull), (1, asked["out"]), (2, asked["err"])):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), number)


if __name__ == "__main__":
    serve()
