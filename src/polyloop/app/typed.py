"""Exceptions of kernel and store as the one typed error people and programs see."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from polyloop.contract.problem import problem
from polyloop.kernel import records as r
from polyloop.kernel import run as kernel
from polyloop.kernel import seams as k
from polyloop.kernel.objects import Json
from polyloop.kernel.snapshot import BadRequest


@contextmanager
def typed(operation: str) -> Generator[None]:
    """Raises ProblemError for what is raised inside."""
    try:
        yield
    except BadRequest as e:
        raise problem("validation", str(e), operation=operation, stage="arguments", details={"field": e.path, "issue": e.message}) from e
    except kernel.RunExists as e:
        raise problem("conflict", str(e), operation=operation, stage="precondition", details={"fields": e.fields}) from e
    except kernel.ParameterDrift as e:
        raise problem("parameter_drift", str(e), operation=operation, stage="precondition", details={"fields": e.fields}) from e
    except kernel.NoSuchRun as e:
        raise problem("not_found", f"there is no run {e}", operation=operation, stage="resolve") from e
    except k.OwnedElsewhere as e:
        details: dict[str, Json] = {"holder": e.holder, "until": e.until}
        raise problem("owned_elsewhere", str(e), operation=operation, stage="precondition", details=details) from e
    except (k.CorruptStore, r.UnknownKind) as e:
        raise problem("corrupt_store", str(e), operation=operation, stage="read", details={"seq": getattr(e, "seq", -1)}) from e
    except k.NewerSchema as e:
        raise problem("capability_unavailable", str(e), operation=operation, stage="open") from e
    except k.StoreError as e:
        raise problem("local_io", f"the store failed: {e}", operation=operation, stage="store", execution_started=None) from e
