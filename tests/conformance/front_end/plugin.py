"""pytest plugin: the front end's own test suite on a simulated device.

    pytest -p plugin --device-backend emulate --device-target sm_100 --device-targets sm_80,sm_90 ...

Tests are skipped if a launch exceeds the time limit or needs too much memory.  `--device-report FILE` writes the result
of every compiled kernel, `--device-outcomes FILE` the outcome of every test.
"""

from __future__ import annotations

import itertools
import json
import math
import resource
import time
from types import SimpleNamespace
from typing import Any

import pytest
from device import Device, TooLarge
from small_samples import BENCHMARKS as SMALL_BENCHMARKS
from torch_on_host import NoResults

MEMORY = 8 << 30
"""Bytes that tests may hold, launches included; some have arrays of more than 2^32 elements."""
_NO_MEMORY = "can't allocate memory"

STRENGTHS = {"functions": 0, "axes": 1, "pairs": 2}
"""Parameters of a test function that are combined in all ways."""
STARTED = time.monotonic()

DEVICE: Device | None = None
OUTCOMES: list[dict[str, str]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("device")
    group.addoption("--device-target", default="sm_100")
    group.addoption("--device-backend", default="interpret", choices=("interpret", "emulate", "both", "compile"))
    group.addoption("--device-targets", default="", help="compile every kernel for these as well")
    group.addoption("--device-limit", type=float, default=20.0, help="seconds per launch")
    group.addoption("--device-version", default="13.4", help="bytecode version")
    group.addoption("--device-report", default="")
    group.addoption("--device-outcomes", default="")
    group.addoption("--device-emulated", default="", help="emulate for these in the place of the target")
    group.addoption("--device-vendor", action="store_true", help="emulate the vendor's code in the place of ours")
    group.addoption("--device-one-target", action="store_true", help="a kernel's bytecode decides which of them")
    group.addoption("--device-times", default="", help="estimate launches in the place of executing them")
    group.addoption("--device-small", action="store_true", help="benchmarks at sizes that can be emulated, run once")
    group.addoption("--device-folder", default="", help="leave the bytecode of every kernel there")
    group.addoption("--device-every", default="1", help="one in N tests; N/K: beginning with test K")
    group.addoption("--device-cover", choices=tuple(STRENGTHS), help="as many tests as have all values of parameters")
    group.addoption("--device-without", default="", help="a file of the names of tests to leave out")
    group.addoption("--device-minutes", type=float, default=math.inf, help="begin no test later than that")


class _BenchmarkHooks:
    """The hooks of pytest-benchmark that the suite's conftest implements."""

    def pytest_benchmark_update_machine_info(self, config: Any, machine_info: Any) -> None: ...

    def pytest_benchmark_update_json(self, config: Any, benchmarks: Any, output_json: Any) -> None: ...


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(_BenchmarkHooks)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Run before the suite's conftest, which queries the device, is imported."""
    result = early_config.known_args_namespace
    targets = [name for name in result.device_targets.split(",") if name]
    arguments = (
        result.device_target, result.device_backend, targets, result.device_limit, result.device_version,
        result.device_folder, [name for name in result.device_emulated.split(",") if name], result.device_one_target,
        result.device_vendor,
    )  # fmt: skip
    if result.device_times:
        from timed_device import TimedDevice

        device: Device = TimedDevice(*arguments, times=result.device_times)
    else:
        device = Device(*arguments)
    device.install()
    if device.backend != "compile":
        # Arrays of benchmarks are large, but never written.
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.RLIM_INFINITY))
    globals()["DEVICE"] = device


def covering(items: list[pytest.Item], strength: int) -> list[pytest.Item]:
    """A subset of the tests with every combination of values of ``strength`` parameters of each test function."""
    functions: dict[str, list[tuple[pytest.Item, set[tuple]]]] = {}
    for item in items:
        call = getattr(item, "callspec", None)
        values = [(name, repr(value)) for name, value in call.params.items()] if call is not None else []
        combinations = set(itertools.combinations(values, min(strength, len(values))))
        functions.setdefault(item.nodeid.partition("[")[0], []).append((item, combinations))
    entry = set()
    for tests in functions.values():
        missing = set().union(*(combinations for _, combinations in tests))
        while missing:
            item, result = max(tests, key=lambda test: len(test[1] & missing))
            entry.add(item)
            missing -= result
    return [item for item in items if item in entry]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if strength := config.getoption("--device-cover"):
        items[:] = covering(items, STRENGTHS[strength])
    if path := config.getoption("--device-without"):
        with open(path, encoding="utf-8") as file:
            done = set(file.read().splitlines())
        items[:] = [item for item in items if item.nodeid not in done]
    every, _, first = config.getoption("--device-every").partition("/")
    items[:] = items[int(first or 0) :: int(every)]


class _Measured(Exception):
    """Raised after a benchmark has launched and compared, instead of the timed repetitions."""


def _measure(*_: Any, **__: Any) -> Any:
    raise _Measured


def _tuned_for_any_shape(gpu_entry: dict, name: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The first of the suite's configurations, which were tuned for other sizes."""
    result = {key: value for key, value in params.items() if key != "shape"}
    return next((entry for entry in gpu_entry.get(name, ()) if result.items() <= entry["params"].items()), None)


def pytest_collection(session: pytest.Session) -> None:
    if session.config.getoption("--device-small"):
        # The suite's own modules.
        import benchmark_tuning
        import util

        util.estimate_bench_iter = _measure
        benchmark_tuning._find_tuned_entry = _tuned_for_any_shape


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.config.getoption("--device-small"):
        for (file, name), shapes in SMALL_BENCHMARKS.items():
            if metafunc.definition.path.name == file and name in metafunc.fixturenames:
                metafunc.parametrize(name, shapes, ids=str, scope="function")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    if time.monotonic() - STARTED > 60 * item.config.getoption("--device-minutes"):
        item.session.shouldstop = "no time left"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    DEVICE.origin = item.nodeid
    DEVICE.launches = 0


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Any:
    outcome = yield
    error = outcome.excinfo[1] if outcome.excinfo is not None else None
    if isinstance(error, _Measured):
        outcome.force_result(True)
        return
    known = isinstance(error, TooLarge | NoResults) or isinstance(error, RuntimeError) and _NO_MEMORY in str(error)
    # In compile-only runs, statements after the first launch have no numbers to work on.
    if error is not None and (known or DEVICE.backend == "compile" and DEVICE.launches):
        outcome.force_exception(pytest.skip.Exception(f"{type(error).__name__}: {error}"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        result = ""
        if report.outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            result = crash.message if crash is not None else str(report.longrepr)
        elif report.outcome == "skipped" and isinstance(report.longrepr, tuple):
            result = report.longrepr[2]
        OUTCOMES.append({"test": report.nodeid, "when": report.when, "outcome": report.outcome, "said": result[:2000]})


def pytest_sessionfinish(session: pytest.Session) -> None:
    if path := session.config.getoption("--device-report"):
        DEVICE.write(path)
    if path := session.config.getoption("--device-outcomes"):
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(outcome) + "\n" for outcome in OUTCOMES)


class _Benchmark:
    """The part of pytest-benchmark that runs a benchmark once."""

    def __init__(self) -> None:
        self.extra_info: dict[str, Any] = {}
        self.group = self.name = ""
        self.stats = SimpleNamespace(stats=SimpleNamespace(mean=1.0))

    def __call__(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    def pedantic(self, function: Any, args: tuple = (), kwargs: dict | None = None, setup: Any = None, **_: Any) -> Any:
        return function(*args, **(kwargs or {}))


@pytest.fixture
def benchmark() -> _Benchmark:
    return _Benchmark()
