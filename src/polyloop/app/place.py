"""Whether a store and a tenant can be named so."""

from __future__ import annotations

from typing import Final

from polyloop.contract.problem import problem

#: Characters of a tenant's or run's name.
NAME_CHARS: Final = 200


#: Stores on a server. Documents can live there; runs cannot yet.
SERVERS: Final = ("postgresql://", "postgres://")


def check_place(store: str, tenant: str, *, servers: bool = False) -> None:
    """Raises ProblemError: validation for a tenant that is none, capability_unavailable for a kind of store there is not.

    `servers`: what is asked for can live on a server too.
    """
    if not tenant or len(tenant) > NAME_CHARS or not tenant.isprintable():
        raise problem("validation", f"a tenant is 1 to {NAME_CHARS} printable characters, not {tenant!r}", stage="arguments")
    if "://" in store and not (servers and store.startswith(SERVERS)):
        raise problem("capability_unavailable", f"no store of this kind in this build: {store.partition('://')[0]}://", stage="open")
