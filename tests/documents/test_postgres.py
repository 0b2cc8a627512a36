"""The same operations, faults and service rules over PostgreSQL, so that no habit of SQLite creeps in."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from polyloop.db import CommitUnknown, ConstraintFailed, Database, DbError, Tx
from polyloop.documents.store import SCHEMAS
from polyloop.testing.conformance.documents import DocumentsConformance, MakeTransport
from polyloop.testing.documents import FaultTransport
from tests.documents.office import Office
from tests.documents.test_faults import test_S0_9_S0_12_S0_15_S0_39_fault as test_fault  # noqa: F401  # run here too
from tests.documents.test_operations import *  # noqa: F403  # run here too

pytestmark = pytest.mark.needs("postgres")

#: Where Debian keeps what is not on the PATH.
BIN = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), Path("/usr/bin"))
AS_POSTGRES = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")


def carried(*words: object) -> None:
    subprocess.run([*AS_POSTGRES, *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A cluster of our own, gone afterwards."""
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


@pytest.fixture(scope="module")
def db(url: str) -> Iterator[Database]:
    opened = Database.open(url, SCHEMAS)
    yield opened
    opened.close()


class TestService(DocumentsConformance):
    @pytest.fixture
    def make_transport(self, db: Database) -> MakeTransport:
        return lambda tenant: FaultTransport(db, tenant)


def test_a_store_is_opened_again_and_a_foreign_one_refused(url: str, db: Database) -> None:
    office = Office(db)
    node_id = office.new()
    again = Database.open(url, SCHEMAS)
    assert Office(again, office.tenant).text(node_id) == "one\n"
    again.close()
    for bad in (url.replace("/postgres", "/nowhere"), "postgresql://127.0.0.1:1/x"):
        with pytest.raises(DbError):
            Database.open(bad, SCHEMAS)


def test_a_failing_piece_of_work_fails_alone(db: Database) -> None:
    insert = "insert into op_secret (tenant, secret) values (?, ?)"
    db.write_sync(lambda tx: tx.run(insert, "a", "100%"))
    with pytest.raises(ConstraintFailed):
        db.write_sync(lambda tx: tx.run(insert, "a", "2"))
    with pytest.raises(DbError, match="NUL"):
        db.write_sync(lambda tx: tx.run(insert, "b", "\0"))
    assert db.look(lambda tx: tx.rows("select secret from op_secret where tenant = ?", "a")) == [("100%",)]
    with pytest.raises(DbError, match="read-only"):
        db.look(lambda tx: tx.run(insert, "c", "3"))


def test_S0_9_a_commit_whose_server_went_away_is_unknown_and_the_store_goes_on(url: str, db: Database) -> None:
    office, other = Office(db), Database.open(url, SCHEMAS)
    node_id = office.new()

    def cut(tx: Tx) -> None:
        row = tx.row("select pg_backend_pid()")
        assert row
        tx.run("insert into op_secret (tenant, secret) values ('cut', 'x')")
        other.look(lambda mine: mine.rows("select pg_terminate_backend(?::int, 5000)", row[0]))

    with pytest.raises(CommitUnknown):
        db.write_sync(cut)
    other.close()
    assert office.text(node_id) == "one\n"
    assert db.look(lambda tx: tx.rows("select 1 from op_secret where tenant = 'cut'")) == []
    office.do("update", {"nodeId": node_id, "command": "append", "content": "two\n"})


def test_many_threads_append_to_one_document(db: Database) -> None:
    office = Office(db)
    node_id = office.new("D", "")
    with ThreadPoolExecutor(8) as pool:
        args = [{"nodeId": node_id, "command": "append", "content": f"line {n % 40}", "operationKey": f"k{n % 40}"} for n in range(80)]
        list(pool.map(lambda a: Office(db, office.tenant).do("update", a), args))
    lines = office.text(node_id, format="text").splitlines()
    assert sorted(lines) == sorted(f"line {n}" for n in range(40))
