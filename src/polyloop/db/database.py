"""The narrow SQL door: `write` and `read` take a function, and the function sees a `Tx`.

Theory of operation. All writes of a process go to one thread. What the tasks of an event loop ask for in one turn of the loop is
handed over together; the thread takes everything that is there, without waiting for more, runs each piece of work under its own
savepoint inside one transaction, commits once, wakes the waiters of each loop with a single call, and only then folds the log
into the file. So a failing piece fails alone, a lone writer pays one commit and nothing else, and a hundred share one.
A COMMIT that fails without proof of rollback makes all its waiters `CommitUnknown`. That connection is never used again; it is kept
open only until its successor has buried what the COMMIT may have left in the log, because closing the last connection would let
a recovery bring it back. While this is owed, reading first pays it: what a read then says is final.
A loop that lives for its runs alone may be `dedicated`: it carries out its own batches where it stands, and saves the two
thread switches of every commit. Whoever shares a loop with others must not: a slow disk would hold them all up.
Reads run on their own connections: `read` on a small pool of threads with one snapshot, `look` inline for a single cheap query.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, TypeVarTuple, cast

from .birth import locate, prepare, prepare_to_read
from .errors import Closed, CommitUnknown, DbError
from .schema import Schema
from .sqlite import SqliteSession
from .tx import Session, Tx

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

READERS = 2


class _Unit:
    """A queued piece of work and who waits for it: a future of `loop`, or a lock when there is no loop."""

    __slots__ = ("args", "error", "fn", "gate", "loop", "value")

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], loop: asyncio.AbstractEventLoop | None, gate: Any) -> None:
        self.fn, self.args, self.loop, self.gate = fn, args, loop, gate
        self.value: Any = None
        self.error: BaseException | None = None


class Database:
    """One open store. Safe to use from any thread and any number of event loops; not across a fork."""

    def __init__(self, connect: Callable[[], Session], session: Session) -> None:
        self._open = connect
        #: Transactions committed by this object.
        self.commits = 0
        self._queue: SimpleQueue[list[_Unit] | None] = SimpleQueue()
        self._gathered: dict[asyncio.AbstractEventLoop, list[_Unit]] = {}
        self._dedicated: asyncio.AbstractEventLoop | None = None
        #: Held while a batch is carried out: by the writer thread, or by the dedicated loop.
        self._writing = threading.Lock()
        self._session: Session | None = session
        self._failed: list[Session] = []
        self._ended = False
        self._idle: list[Session] = []
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="polyloop-db-read")
        self._thread = threading.Thread(target=self._work, name="polyloop-db-write", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls, where: str | Path, schemas: Sequence[Schema], *, to_read: bool = False) -> Database:
        """Open the store at a path or `sqlite:PATH`; make it (0600, parent folders too) if it is not there; migrate it.

        Also `postgresql://...`: a database that is there, and empty or ours. Raises Damaged (not a database, empty, foreign),
        NewerSchema (file untouched), DbError. `to_read`: nothing will be written, so a disk that is full or read-only will do.
        """
        if isinstance(where, str) and where.startswith(("postgresql://", "postgres://")):
            from .postgres import PostgresSession, prepare_postgres

            return cls(partial(PostgresSession, where), prepare_postgres(where, schemas))
        path = locate(where)
        if to_read:
            mode, session = prepare_to_read(path, schemas)
            return cls(partial(SqliteSession, path, mode), session)
        return cls(partial(SqliteSession, path), prepare(path, schemas))

    async def write(self, fn: Callable[[Tx, *Ts], T], *args: *Ts) -> T:
        """Run `fn(tx, *args)` on the writer thread; returns its value when the commit is durable.

        What `fn` raises undoes its own work only, and is raised here. Raises CommitUnknown, Closed, DbError.
        A caller that is cancelled does not stop it: it happens whole, or not at all.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        unit = _Unit(fn, args, loop, future)
        if loop in self._gathered:
            self._gathered[loop].append(unit)
        else:
            self._gathered[loop] = [unit]
            loop.call_soon(self._hand_over, loop)
        return await future

    def dedicate(self) -> None:
        """From now on the running loop commits its own writes itself, and waits for the disk while it does."""
        self._dedicated = asyncio.get_running_loop()

    def write_sync(self, fn: Callable[[Tx, *Ts], T], *args: *Ts) -> T:
        """`write` for a thread without an event loop: blocks until the commit is durable."""
        gate = threading.Lock()
        gate.acquire()
        unit = _Unit(fn, args, None, gate)
        self._submit([unit])
        gate.acquire()
        if unit.error is not None:
            raise unit.error
        return cast(T, unit.value)

    async def read(self, fn: Callable[[Tx, *Ts], T], *args: *Ts) -> T:
        """Run `fn(tx, *args)` on a reader thread; all its queries see one snapshot. Raises CommitUnknown, Closed, DbError."""
        if self._ended:
            raise Closed("the database is closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._snapshot, fn, *args)

    def read_sync(self, fn: Callable[[Tx, *Ts], T], *args: *Ts) -> T:
        """`read` for a thread without an event loop, in that thread."""
        return self._snapshot(fn, *args)

    def look(self, fn: Callable[[Tx, *Ts], T], *args: *Ts) -> T:
        """Run `fn(tx, *args)` here and now: for one cheap query, which in WAL mode waits for nobody. Raises as `read`."""
        session = self._reader()
        try:
            value = fn(session, *args)
        except DbError:
            session.abandon()
            raise
        except BaseException:
            self._idle.append(session)
            raise
        self._idle.append(session)
        return value

    def close(self) -> None:
        """Finish what is queued, fold the log into the file and let go of it. May be called twice."""
        self._queue.put(None)
        self._thread.join()
        self._pool.shutdown()
        with self._writing:
            while self._failed:
                self._failed.pop().abandon()
            for session in (*self._idle, *filter(None, [self._session])):
                with suppress(DbError):  # what is committed stands in the log: whoever opens the store next folds it in
                    session.close()
            self._idle, self._session = [], None

    # --- reading ---------------------------------------------------------------------------------------------------

    def _reader(self) -> Session:
        if self._failed:
            try:
                self.write_sync(_nothing)
            except DbError as error:
                raise CommitUnknown(f"the fate of an earlier commit cannot be told yet ({error})") from error
        if self._ended:
            raise Closed("the database is closed")
        try:
            return self._idle.pop()
        except IndexError:
            session = self._connect()
            session.read_only()
            return session

    def _snapshot(self, fn: Callable[[Tx, *Ts], T], *args: *Ts) -> T:
        return self.look(_in_snapshot, fn, args)

    # --- the writer thread -----------------------------------------------------------------------------------------

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        batch = self._gathered.pop(loop)
        if loop is self._dedicated:
            self._settle(batch, loop)
        else:
            self._submit(batch)

    def _submit(self, units: list[_Unit]) -> None:
        self._queue.put(units)
        if self._ended:
            self._drain()

    def _work(self) -> None:
        take = self._queue.get
        end = False
        while not end and (batch := take()) is not None:
            for _ in range(self._queue.qsize()):
                if (more := take()) is None:
                    end = True
                    break
                batch += more
            self._settle(batch)
        # What is queued from now on is refused here, or by whoever queued it and then saw the flag.
        self._ended = True
        self._drain()

    def _drain(self) -> None:
        try:
            while True:
                _refuse(self._queue.get_nowait() or [])
        except Empty:
            return

    def _settle(self, batch: list[_Unit], here: asyncio.AbstractEventLoop | None = None) -> None:
        """Carry out a batch and wake those who wait for it; `here` = the loop that does it itself."""
        with self._writing:
            if self._ended:
                _refuse(batch)
                return
            try:
                self._transact(batch)
            except BaseException as error:
                kind = type(error) if isinstance(error, DbError) else DbError
                for unit in batch:
                    if unit.error is None:
                        unit.error = kind(str(error))  # one each: a raised exception belongs to its raiser
                        unit.error.__cause__ = error
            _wake(batch, here)
            if self._session is not None and self._session.full:
                self._fold(self._session)

    def _transact(self, batch: list[_Unit]) -> None:
        session = self._writer()
        try:
            session.begin()
            self._run(session, batch)
        except BaseException:
            self._undo(session)
            raise
        if all(unit.error is not None for unit in batch):
            self._undo(session)
            return
        try:
            session.commit()
            self.commits += 1
        except CommitUnknown:
            self._session = None
            self._failed.append(session)
            raise

    def _run(self, session: Session, batch: list[_Unit]) -> None:
        """Each piece of work under its own savepoint; a lone one needs none, the transaction is its own."""
        alone = len(batch) == 1
        for unit in batch:
            if not alone:
                session.savepoint()
            try:
                unit.value = unit.fn(session, *unit.args)
            except BaseException as error:
                unit.error = error
                if not alone and not session.undo():
                    raise DbError(f"the transaction was lost to another's failure; nothing was written ({error})") from error
            else:
                if not alone:
                    session.release()

    def _undo(self, session: Session) -> None:
        if not session.rollback():
            self._drop(session)

    def _fold(self, session: Session) -> None:
        """What is committed is safe in the log, so a fault here concerns nobody: it is done again, on another connection."""
        try:
            session.fold()
        except DbError:
            self._drop(session)

    def _drop(self, session: Session) -> None:
        self._session = None
        session.abandon()

    def _writer(self) -> Session:
        """The writer's connection; after a failure a new one, which first settles what the old one left."""
        if self._session is None:
            session = self._connect()
            if self._failed:
                self._bury(session)
            while self._failed:
                self._failed.pop().abandon()
            self._session = session
        return self._session

    def _connect(self) -> Session:
        session = self._open()
        try:
            session.configure()
        except BaseException:
            session.abandon()
            raise
        return session

    def _bury(self, session: Session) -> None:
        try:
            session.bury()
        except DbError as error:
            session.abandon()
            raise DbError(f"an earlier commit cannot be settled yet; nothing was written ({error})") from error


def _nothing(_: Tx) -> None:
    """The writer settles an unknown commit before it runs anything: this is the least it can run."""


def _in_snapshot(tx: Tx, fn: Callable[..., T], args: tuple[Any, ...]) -> T:
    session = cast(Session, tx)
    session.begin_read()
    try:
        return fn(tx, *args)
    finally:
        session.rollback()


def _refuse(units: list[_Unit]) -> None:
    for unit in units:
        unit.error = Closed("the database is closed; nothing was written")
    _wake(units)


def _wake(units: list[_Unit], here: asyncio.AbstractEventLoop | None = None) -> None:
    loops: dict[asyncio.AbstractEventLoop | None, list[_Unit]] = {}
    for unit in units:
        loops.setdefault(unit.loop, []).append(unit)
    for loop, waiting in loops.items():
        if loop is None:
            for unit in waiting:
                unit.gate.release()
        elif loop is here:
            _deliver(waiting)
        else:
            with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(_deliver, waiting)


def _deliver(units: list[_Unit]) -> None:
    for unit in units:
        future: asyncio.Future[Any] = unit.gate
        if future.done():  # its waiter was cancelled
            continue
        if unit.error is None:
            future.set_result(unit.value)
        elif isinstance(unit.error, StopIteration):  # a future cannot carry it
            future.set_exception(RuntimeError(repr(unit.error)))
        else:
            future.set_exception(unit.error)
