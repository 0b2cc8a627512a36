"""The shipped suite over both ways to the service: beside it, and through a socket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from polyloop.db import Database
from polyloop.documents.http import DocApp, HttpTransport
from polyloop.testing.conformance.documents import DocumentsConformance, MakeTransport
from polyloop.testing.documents import FaultTransport
from tests.documents.test_http import Server


@pytest.fixture(scope="module")
def server(db: Database) -> Iterator[Server]:
    made = Server(DocApp(db, lambda scope: scope["tenant"]))
    yield made
    made.http.shutdown()
    made.http.server_close()


class TestBeside(DocumentsConformance):
    @pytest.fixture
    def make_transport(self, db: Database) -> MakeTransport:
        return lambda tenant: FaultTransport(db, tenant)


class TestOverHttp(DocumentsConformance):
    @pytest.fixture
    def make_transport(self, server: Server) -> MakeTransport:
        return lambda tenant: HttpTransport(server.url, headers={"x-tenant": tenant}, timeout_s=10)
