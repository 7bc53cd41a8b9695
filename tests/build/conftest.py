import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import monitoring  # noqa: E402


@pytest.fixture(autouse=True)
def no_service(monkeypatch):
    monkeypatch.setenv("TILEIRAS_SERVER", "off")


@pytest.fixture
def runtime(no_service, tmp_path_factory, monkeypatch):
    """A runtime directory for one test; its monitor is stopped at the end."""
    folder = tmp_path_factory.mktemp("run")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setenv("TILEIRAS_SERVER", "auto")
    yield folder
    monitoring.stop()
    assert os.listdir(folder / "tileiras") == []
