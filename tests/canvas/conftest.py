from __future__ import annotations

from collections.abc import Iterator

import pytest

from polyloop.canvas.store import SCHEMAS
from polyloop.db import Database
from tests.canvas.easel import Easel


@pytest.fixture(scope="session")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """One store for all tests of a worker; each test has a tenant of its own."""
    opened = Database.open(tmp_path_factory.mktemp("canvas") / "store.db", SCHEMAS)
    yield opened
    opened.close()


@pytest.fixture
def easel(db: Database) -> Easel:
    return Easel(db).ready()
