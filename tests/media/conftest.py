"""What tests of media start from, beside a room."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from polyloop.cli.main import app


@pytest.fixture
def cli(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("POLYLOOP_STORE", "POLYLOOP_TENANT", "POLYLOOP_HOME"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str, given: object = None):
        result = CliRunner().invoke(app, [*words, "--json"], input=None if given is None else json.dumps(given))
        return json.loads(result.stdout) if result.stdout else result, result.exit_code

    return run


@pytest.fixture
def play():
    """A provider played from lists, which needs the libraries of media."""
    from polyloop.testing import media_provider

    return media_provider
