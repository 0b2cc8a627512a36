"""The workspace under its conformance suite, by both ways of resolving paths."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from polyloop.files.resolve import FOLDER, by_kernel, by_walk, resolver_of
from polyloop.testing.conformance.workspace import MakeWorkspace, WorkspaceConformance
from polyloop.workspace import Workspace


class TestByWalk(WorkspaceConformance):
    @pytest.fixture
    def make_workspace(self) -> MakeWorkspace:
        return lambda folder: Workspace(folder, resolver=by_walk)


class TestByKernel(WorkspaceConformance):
    @pytest.fixture
    def make_workspace(self, tmp_path: Path) -> MakeWorkspace:
        fd = os.open(tmp_path, FOLDER)
        best = resolver_of(fd)
        os.close(fd)
        if best is not by_kernel:
            pytest.skip("needs openat2")
        return lambda folder: Workspace(folder, resolver=by_kernel)
