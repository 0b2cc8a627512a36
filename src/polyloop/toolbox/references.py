"""Finding a tool's function: by a reference in a request (`module:function`), and again from another process.

Theory of operation. A module beside the request file wins over one of the same name on sys.path, and is loaded under a
name of its own, made of its path, size and time: two requests may both have a `mytools.py`, and a changed file is loaded
anew. `FunctionRef` tells a worker how to find the very same function; what cannot be found again (closures, lambdas)
is refused when it is registered, not when it is first called.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ..contract.problem import ProblemError, problem

_FILE_PREFIX: Final = "polyloop_file_"


class FunctionRef(Struct, frozen=True):
    """Where a function is: a module by name, or "" and its file. `folder` is on sys.path too while it loads and runs."""

    module: str
    file: str
    qualname: str
    folder: str = ""


def load(reference: str, beside: str = "") -> tuple[Callable[..., Any], FunctionRef]:
    """The function `module:function` names, its module beside the folder `beside` or on sys.path.

    Raises ProblemError (validation): no such module or function, or the module fails when it is imported.
    """
    name, _, attribute = reference.partition(":")
    if not all(part.isidentifier() for part in (*name.split("."), *attribute.split("."))):
        raise _unknown(reference, "a reference is module:function")
    file = Path(beside, name + ".py") if beside else None
    try:
        module = _from_file(str(file), beside) if file and file.is_file() else _by_name(name, beside)
    except (Exception, SystemExit) as why:
        raise _unknown(reference, f"module {name} cannot be imported ({type(why).__name__}: {why})") from why
    function = _attribute(module, attribute)
    if not hasattr(function, "__code__"):
        raise _unknown(reference, f"module {name} has no function {attribute}")
    return function, replace(ref_of(function), folder=beside)


def ref_of(function: Callable[..., Any]) -> FunctionRef:
    """How another process finds this function. Raises ProblemError (validation) if it cannot be found again."""
    module, qualname = sys.modules.get(function.__module__), function.__qualname__
    if module is None or _attribute(module, qualname) is not function:
        raise _not_findable(qualname, "it cannot be found again by its name")
    file = getattr(module, "__file__", None) or ""
    spec = getattr(module, "__spec__", None)
    name = spec.name if spec is not None and not spec.name.startswith(_FILE_PREFIX) else ""
    if not name and not file:
        raise _not_findable(qualname, f"its module {module.__name__} is no file")
    return FunctionRef(name, str(Path(file).absolute()) if file else "", qualname)


def find(ref: FunctionRef) -> Callable[..., Any]:
    """The function, in this process. Raises ProblemError (validation), or what importing its module raises."""
    module = _named(ref) or _from_file(ref.file, ref.folder)
    function = _attribute(module, ref.qualname)
    if function is None:
        raise _unknown(f"{ref.module or ref.file}:{ref.qualname}", "there is no such function any more")
    return function


def _named(ref: FunctionRef) -> ModuleType | None:
    """The module by its name, if that leads to the same file here (a loader of the other process may have found it)."""
    try:
        module = _by_name(ref.module, ref.folder) if ref.module else None
    except ModuleNotFoundError:
        if not ref.file:
            raise
        return None
    same = module is not None and (not ref.file or str(Path(module.__file__ or "").absolute()) == ref.file)
    return module if same else None


def _by_name(name: str, folder: str) -> ModuleType:
    with _first_on_path(folder):
        return importlib.import_module(name)


def _from_file(file: str, folder: str) -> ModuleType:
    stat = Path(file).stat()
    name = _FILE_PREFIX + hashlib.sha256(f"{file}\n{stat.st_mtime_ns}\n{stat.st_size}".encode()).hexdigest()[:16]
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"{file} is no Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with _first_on_path(folder):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _first_on_path(folder: str) -> Generator[None]:
    """While a module of the folder loads."""
    if not folder:
        yield
        return
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # the module took it away itself
            sys.path.remove(folder)


def _attribute(module: ModuleType, qualname: str) -> Any:
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def _unknown(reference: str, why: str) -> ProblemError:
    return problem("validation", f"unknown tool {reference}: {why}", operation="run", stage="arguments", details={"tool": reference})


def _not_findable(qualname: str, why: str) -> ProblemError:
    text = f"tool {qualname}: {why}, and it runs in a process of its own: move it to the top of a module, or make it async"
    return problem("validation", text, details={"tool": qualname})
