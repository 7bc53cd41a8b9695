"""The command lines of these tests are run in two ways: by this process, and by the compile service."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))

import both_ways  # noqa: E402
from one_kernel import F32  # noqa: E402
from serving import CHECKOUT, Service  # noqa: E402

from tests.processes import until  # noqa: E402
from tileiras.cli import tileiras_run  # noqa: E402

MODULES = (
    "test_driver_options", "test_outputs", "test_pass_options", "test_random_invocations", "test_sanitize",
    "test_tile_launch", "test_tileiras_opt", "test_usage_errors",
)  # fmt: skip
"""Files whose tests run both ways, besides those that are marked `in_process`."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "in_process: changes the compiler in this process, or runs no command")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    in_process = metafunc.definition.get_closest_marker("in_process") is not None
    if metafunc.module.__name__ in MODULES and not in_process and sys.platform == "linux":
        metafunc.parametrize("way", ["off", "auto"], indirect=True)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """`one_kernel.F32` in `k.mlir`, in a working directory of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.mlir").write_text(F32)
    return "k.mlir"


@pytest.fixture(scope="session")
def service_of_commands(tmp_path_factory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("commands"))
    service.start()
    yield service
    service.stop()


@pytest.fixture(autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The value of TILEIRAS_SERVER; with `auto`, the test fails unless the service answers every command."""
    result = getattr(request, "param", "off")
    monkeypatch.setenv("TILEIRAS_SERVER", result)
    if result == "off":
        yield result
        return
    service: Service = request.getfixturevalue("service_of_commands")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(service.runtime))
    monkeypatch.setenv("PYTHONPATH", CHECKOUT)
    replacements = {tileiras_run.main: both_ways.not_served(tileiras_run.main)}
    monkeypatch.setattr(tileiras_run, "main", replacements[tileiras_run.main])
    for program, name in both_ways.REPLACED.items():
        module = importlib.import_module(name)
        replacements[module.main] = both_ways.served(service, program)
        monkeypatch.setattr(module, "main", replacements[module.main])
    for name, value in list(vars(request.module).items()):
        if callable(value) and value in replacements:
            monkeypatch.setattr(request.module, name, replacements[value])
    both_ways.begin()
    before = service.facts()["requests"]
    yield result
    assert both_ways.started or both_ways.others, "runs no command: mark it in_process"
    # The service may count a request of its child only after the child has answered.
    until(lambda: service.facts()["requests"] == before + both_ways.started, "some were not answered by the service")
