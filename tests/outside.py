"""Python programs from outside: a process each, forked from one that has imported everything.

Each process is as new as any other (its own folder, environment, streams, threads and signals); only the second of imports is spent once per
test worker. A process that must be an interpreter from its first instruction on (traced, limited, found by its environment in /proc) is started
with `subprocess`.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
POLYLOOP = ("-m", "polyloop.cli.main")
#: More than a request is: words, folder and environment.
MOST = 1 << 20
#: What commands load when they first need it.
WARM = (
    "polyloop.app.api", "polyloop.documents.worker", "polyloop.canvas.runtime", "polyloop.formats.markdown_in", "polyloop.formats.html_in",
    "polyloop.formats.html_out", "jsonschema_rs", "httpx2", "http.server", "idna", "mimetypes",
)  # fmt: skip


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


def command(folder: Path, *words: object, env: Mapping[str, str] | None = None, stdin: str = "") -> Done:
    """Run `polyloop WORDS` in a folder."""
    done = run(*POLYLOOP, *words, cwd=folder, env=env, capture_output=True, text=True, input=stdin)
    return Done(done.returncode, done.stdout, done.stderr)


def run(*words: object, input: Any = None, timeout: float | None = None, **kept: Any) -> subprocess.CompletedProcess[Any]:  # noqa: A002
    """`subprocess.run` of this Python with these words: `-c CODE`, `-m MODULE` or a file, then arguments."""
    if kept.pop("capture_output", False):
        kept |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    check = kept.pop("check", False)
    kept.setdefault("stdin", subprocess.DEVNULL if input is None else subprocess.PIPE)
    with start(*words, **kept) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    if check and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words, out, err)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def start(*words: object, **kept: Any) -> subprocess.Popen[Any]:
    """`subprocess.Popen` of this Python with these words."""
    return _Forked([str(word) for word in words], **kept)


class _Forked(subprocess.Popen[Any]):
    """A process of the server's: it is started and waited for over sockets, and is in all else what `subprocess` makes of it."""

    def _execute_child(self, args: list[str], *given: Any) -> None:
        (_, _, _, _, cwd, env, _, _, _, *pipes) = given
        stdin, _, _, stdout, _, stderr, *rest = pipes
        asked = {"words": args, "cwd": os.fspath(cwd or Path.cwd()), "env": dict(os.environ if env is None else env), "session": rest[5]}
        self.told, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ends = [own if end < 0 else end for own, end in enumerate((stdin, stdout, stderr))]
        with theirs, _ASKING:
            socket.send_fds(_server(), [json.dumps(asked).encode()], [*ends, theirs.fileno()])
            self.pid = json.loads(self.told.recv(64))
        self._child_created = True
        self._close_pipe_fds(*pipes[:6])

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """(pid, status), or (0, 0) while it runs and `wait_flags` says not to wait."""
        self.told.setblocking(not wait_flags)
        try:
            status = int(self.told.recv(64) or signal.SIGKILL)
        except BlockingIOError:
            return 0, 0
        self.told.close()
        return self.pid, status

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._child_created:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)
        return self.returncode


_ASKING = threading.Lock()


@functools.cache
def _server() -> socket.socket:
    """It ends with its socket, so with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST)
    with theirs:
        serving = subprocess.Popen([sys.executable, "-m", "tests.outside", str(theirs.fileno())], cwd=ROOT, pass_fds=[theirs.fileno()])
    atexit.register(lambda: (ours.close(), serving.wait()))
    return ours


def serve(number: int) -> None:
    import typer.main
    from typer.testing import CliRunner

    import polyloop.cli.main

    for module in WARM:
        importlib.import_module(module)
    typer.main.get_command = functools.cache(typer.main.get_command)  # the same tree of commands for all of them
    assert CliRunner().invoke(polyloop.cli.main.app, ["runs", "--limit", "none"]).exit_code == 2  # loads what reading words needs
    gc.collect()
    gc.freeze()
    asking = socket.socket(fileno=number)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the keepers tell all there is
    while True:
        message, ends, _, _ = socket.recv_fds(asking, MOST, 4)
        if not message:
            return
        if not os.fork():
            asking.close()
            _keep(json.loads(message), ends)
            return
        for end in ends:
            os.close(end)


def _keep(asked: dict[str, Any], ends: list[int]) -> None:
    """Start it, say its pid, wait, say its status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if not child:
        _become(asked, ends)
        return
    with socket.socket(fileno=ends.pop()) as told:
        for end in ends:
            os.close(end)
        try:
            told.send(str(child).encode())
            os.setsid()  # what is sent to the group of the tests is not for it
            told.send(str(os.waitpid(child, 0)[1]).encode())
        finally:
            os._exit(0)


def _become(asked: dict[str, Any], ends: list[int]) -> None:
    os.close(ends.pop())
    for number, end in enumerate(ends):
        os.dup2(end, number)
        os.close(end)
    if asked["session"]:
        os.setsid()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    _interpret(*asked["words"])


def _interpret(first: str, *words: str) -> None:
    """What `python FIRST WORDS` does."""
    if (first, *words[:1]) == POLYLOOP:
        sys.path[0], sys.argv = str(Path.cwd()), ["polyloop", *words[1:]]
        sys.modules["polyloop.cli.main"].main()
    elif first == "-m":
        sys.path[0], sys.argv = str(Path.cwd()), [*words]
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.path[0], sys.argv = "", ["-c", *words[1:]]
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(compile(words[0], "<string>", "exec"), main.__dict__)
    else:
        sys.path[0], sys.argv = str(Path(first).parent), [first, *words]
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    serve(int(sys.argv[1]))
