"""A PostgreSQL cluster of our own for tests, on loopback, gone afterwards."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Where Debian keeps what is not on the PATH.
BIN = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), Path("/usr/bin"))
AS_POSTGRES = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")


def carried(*words: object) -> None:
    subprocess.run([*AS_POSTGRES, *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def cluster() -> Iterator[str]:
    """Its url."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    data = folder / "data"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        subprocess.run(["install", "-d", "-o", "postgres", "-g", "postgres", "-m", "700", str(data)], check=True)
        carried(BIN / "initdb", "-D", data, "-A", "trust", "-U", "bench", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={data} -c fsync=off"
        carried(BIN / "pg_ctl", "-D", data, "-w", "-o", options, "-l", data / "log", "start")
        yield f"postgresql://bench@127.0.0.1:{port}/postgres"
        carried(BIN / "pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def made(server: str, name: str) -> str:
    """The url of a new, empty database beside the first."""
    first, _, _ = server.rpartition("/")
    subprocess.run([str(BIN / "createdb"), "--maintenance-db", server, name], check=True)
    return f"{first}/{name}"
