from __future__ import annotations

from collections.abc import Iterator

import pytest

from polyloop.db import Database
from polyloop.documents.store import SCHEMAS
from tests.documents.office import Office


@pytest.fixture(scope="session")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """One store for all tests of a worker; each test has a tenant of its own."""
    opened = Database.open(tmp_path_factory.mktemp("documents") / "store.db", SCHEMAS)
    yield opened
    opened.close()


@pytest.fixture
def office(db: Database) -> Office:
    return Office(db)
