"""What all calls of one process and tenant share: connections, breakers, seats, calls in flight, cache and ledger.

Made once, closed once; nothing here is a module's. The store is opened when the first call needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from polyloop.clock import SystemClock
from polyloop.contract.problem import problem
from polyloop.db import Database
from polyloop.ids import salt
from polyloop.kernel.seams import Clock, Model, ModelRequest, Reply

from .accounts import Accounts
from .breaker import Breaker
from .cache import Cache
from .faults import Fault, judged
from .ledger import Ledger
from .settings import Settings, SourceSettings
from .stream import Display
from .wire import Wire

#: Where a key is looked for when gateway.toml names no variable: only for the providers' own hosts.
KEY_BY_HOST: Final = {"api.openai.com": "OPENAI_API_KEY", "api.anthropic.com": "ANTHROPIC_API_KEY"}
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class Source(Protocol):
    """One place replies come from. `metered` = its calls cost; `cacheable` = the same asking may be answered by an earlier reply."""

    name: str
    metered: bool
    cacheable: bool

    def classify(self, error: Exception) -> Fault | None:
        """The fault behind an exception; None = not known to it, and then it is shown as it is."""
        ...

    async def ask(self, request: ModelRequest, wire: Wire) -> Reply:
        """One attempt. Raises what it likes, as long as `classify` knows it."""
        ...


class Inside:
    """A source inside this process (script, program): free, and not cached, because its replies go by their number."""

    metered, cacheable = False, False

    def __init__(self, name: str, model: Model) -> None:
        self.name, self._model = name, model

    def classify(self, error: Exception) -> Fault | None:
        return judged(error)

    async def ask(self, request: ModelRequest, wire: Wire) -> Reply:
        return await self._model.call(request)


#: Makes a source that costs: (whole name, settings, the key for a URL).
Maker = Callable[[str, SourceSettings, Callable[[str], str]], Source]


def _jitter() -> float:
    return int(salt()[:8], 16) / 0xFFFFFFFF


class Office:
    """`open_db` None = nothing is kept and nothing counted; `display` shows replies as they come, and nothing is decided by it.

    Raises ProblemError(validation) for caps that nobody could keep.
    """

    def __init__(
        self,
        tenant: str = "local",
        settings: Settings | None = None,
        open_db: Callable[[], Database] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        jitter: Callable[[], float] = _jitter,
        display: Display | None = None,
    ) -> None:
        self.tenant, self.settings = tenant, settings or Settings()
        caps = self.settings.caps
        if open_db is None and (caps.tenant is not None or caps.session is not None or caps.tenants):
            raise problem("validation", "caps need a store to count in", operation="gateway", stage="open")
        self.clock: Clock = clock or SystemClock()
        self.sleep, self.jitter = sleep, jitter
        self.wire = Wire(display=display)
        self.flights: dict[str, asyncio.Future[Reply]] = {}
        self._environ = environ or {}
        self._open_db = open_db
        self._shelf: tuple[Database, Cache, Ledger] | None = None
        self._breakers: dict[str, Breaker] = {}
        self._seats: dict[str, asyncio.Semaphore] = {}

    def breaker(self, name: str) -> Breaker:
        return self._breakers.setdefault(name, Breaker(self.settings.breaker))

    def seats(self, name: str) -> asyncio.Semaphore:
        if name not in self._seats:
            self._seats[name] = asyncio.Semaphore(self.settings.of(name).concurrency)
        return self._seats[name]

    def shelf(self) -> tuple[Database, Cache, Ledger] | None:
        """Store, cache and ledger; None = there is no store. Raises DbError when it cannot be opened."""
        if self._shelf is None and self._open_db is not None:
            db = self._open_db()
            self._shelf = db, Cache(db), Ledger(db, Accounts(self.settings.caps))
        return self._shelf

    def key(self, name: str, url: str) -> str:
        """The key for a source, never sent in clear over a network, and never to a host it was not named for.

        Raises ProblemError(validation) for one no header can hold: the transport would say it aloud in its error, and that is logged.
        """
        parts = urlsplit(url)
        variable = self.settings.of(name).key_env or KEY_BY_HOST.get(parts.hostname or "", "")
        safe = parts.scheme == "https" or parts.hostname in LOOPBACK
        key = self._environ.get(variable, "") if variable and safe else ""
        if not all("!" <= char <= "~" for char in key):
            raise problem(
                "validation", f"the key in {variable} has a character that no key has (a blank? a line break?)", operation="gateway", stage="open"
            )
        return key

    async def aclose(self) -> None:
        await self.wire.aclose()
        shelf, self._shelf = self._shelf, None
        if shelf is not None:
            await asyncio.to_thread(shelf[0].close)
