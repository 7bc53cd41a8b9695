"""A build sends requests to a team's server in waves: one round trip for all kernels instead of one for each stage."""

import pytest
from delaying_server import DelayingServer
from project import Project, axpy, module

from tileiras.build import discover
from tileiras.build.store.remote import Remote

KERNELS = 12
STAGES = 5
FAR = 0.2
"""Seconds: far more than the delays of this machine's threads."""


@pytest.fixture
def far():
    server = DelayingServer(FAR)
    yield server
    server.close()


@pytest.fixture
def near():
    server = DelayingServer(0.0)
    yield server
    server.close()


def tree(folder, kernels: int = KERNELS) -> Project:
    project = Project(folder)
    for number in range(kernels):
        project.write(f"kernels/k{number}.mlir", module(axpy(f"k{number}")))
    return project


def writing(server: DelayingServer) -> dict[str, str]:
    return {"TILEIRAS_REMOTE_CACHE": server.url, "TILEIRAS_REMOTE_MODE": "read-write"}


def fill(server: DelayingServer, folder, kernels: int = KERNELS) -> Project:
    """Build all kernels on a machine that uploads them to the server, and then reset the counts of requests."""
    latency, server.latency = server.latency, 0.0
    result = tree(folder, kernels)
    result.scons("-j2", **writing(server))
    assert len(server.files) == kernels * STAGES
    server.latency = latency
    server.reset()
    return result


@pytest.mark.sampled(1)
@pytest.mark.parametrize("jobs", ["-j1", "-j2"])
@pytest.mark.parametrize("store", ["", "off"])
def test_a_machine_without_anything_waits_once_for_each_wave(far, tmp_path, jobs, store):
    writer = fill(far, tmp_path / "writer")
    reader = tree(tmp_path / "reader")
    reader.store = store or reader.store
    build = reader.scons(jobs, TILEIRAS_REMOTE_CACHE=far.url)
    assert (build.stages, build.errors, len(build.cached)) == ([], "", KERNELS * STAGES)
    assert reader.artifacts() == writer.artifacts()
    assert len(far.requests) == KERNELS * STAGES
    # A wave is one of the stages; its connections are opened one after another.
    assert STAGES <= far.round_trips <= STAGES + 2


@pytest.mark.sampled(1)
@pytest.mark.parametrize("jobs", ["-j1", "-j2"])
def test_misses_of_a_far_server_are_queried_once(far, tmp_path, jobs):
    machine = tree(tmp_path)
    build = machine.scons(jobs, TILEIRAS_REMOTE_CACHE=far.url)
    assert len(build.stages) == KERNELS * STAGES
    # After the first stage that ran, no request is sent: it would take longer than the stages.
    assert len(far.requests) == len(set(far.requests)) == KERNELS
    assert far.round_trips <= 2
    far.reset()
    machine.write("kernels/k3.mlir", module(axpy("k3", operation="mulf")))
    assert len(machine.scons(jobs, TILEIRAS_REMOTE_CACHE=far.url).stages) == STAGES
    assert (len(far.requests), far.round_trips) == (1, 1)


@pytest.mark.parametrize("jobs", ["-j1", "-j2"])
def test_a_near_server_is_queried_for_the_following_stages(near, tmp_path, jobs):
    fill(near, tmp_path / "writer", 2)
    reader = tree(tmp_path / "reader", 2)
    for number in range(2):
        reader.write(f"kernels/k{number}.mlir", "// A comment.\n" + module(axpy(f"k{number}")))
    build = reader.scons(jobs, TILEIRAS_REMOTE_CACHE=near.url)
    assert sorted(build.stages) == ["read", "read"] and len(build.cached) == 2 * (STAGES - 1)
    assert len(near.requests) == len(set(near.requests))


@pytest.mark.slow
def test_only_requested_rows_are_looked_up(far, tmp_path):
    fill(far, tmp_path / "writer")
    reader = tree(tmp_path / "reader")
    build = reader.scons("build/sm_90/O3/kernels/k5/k5.ptx", TILEIRAS_REMOTE_CACHE=far.url)
    assert build.stages == [] and len(far.requests) == STAGES
    far.reset()
    # No request is sent for artifacts that are in the store, nor by a dry run.
    assert reader.scons("build/sm_90/O3/kernels/k5/k5.ptx", TILEIRAS_REMOTE_CACHE=far.url).cached == []
    reader.scons("-n", TILEIRAS_REMOTE_CACHE=far.url)
    assert far.requests == []


@pytest.mark.slow
@pytest.mark.skipif(not discover.has_front_end(), reason="needs cuTile Python")
def test_sources_that_import_others_take_a_wave_more(far, tmp_path):
    def machine(folder) -> Project:
        project = Project(folder)
        project.write("kernels/sizes.py", "TILE = 128\n")
        for number in range(3):
            project.write(f"kernels/k{number}.py", f"""\
import cuda.tile as ct
from sizes import TILE

@ct.kernel
def k{number}(x):
    ct.store(x, (ct.bid(0),), ct.full((TILE,), {number}, ct.float32))

TILEIRAS_EXPORT = {{"k{number}": (k{number}, "f32[?]")}}
""")  # fmt: skip
        return project

    far.latency = 0.0
    writer = machine(tmp_path / "writer")
    writer.scons(**writing(far))
    far.latency = FAR
    far.reset()
    reader = machine(tmp_path / "reader")
    build = reader.scons(TILEIRAS_REMOTE_CACHE=far.url)
    assert build.stages == [] and reader.artifacts() == writer.artifacts()
    assert far.round_trips <= 2 + STAGES + 2


def test_many_requests_on_connections_that_the_server_closes(tmp_path):
    server = DelayingServer(0.0, closes_after=3)
    items: list[str] = []
    writer = Remote(server.url, items.append, writes=True)
    values = {f"key {number}": bytes([number]) * number for number in range(200)}
    for key, value in values.items():
        writer.put(key, value)
    writer.close()
    result = Remote(server.url, items.append).get_many([*values, "none"])
    server.close()
    assert result == values and items == []
