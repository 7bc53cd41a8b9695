from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import KERNEL, Service


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if sys.platform == "linux":
        return
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="the service needs Linux"))


@pytest.fixture(scope="session")
def service(tmp_path_factory) -> Iterator[Service]:
    """A service for all tests that do not damage it."""
    result = Service(tmp_path_factory.mktemp("service"))
    result.start()
    yield result
    result.stop()


@pytest.fixture
def own_service(tmp_path_factory) -> Iterator[Service]:
    """A service for one test, not started yet."""
    result = Service(tmp_path_factory.mktemp("own"))
    yield result
    result.stop()


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with a kernel."""
    (tmp_path / "k.mlir").write_text(KERNEL)
    return tmp_path
