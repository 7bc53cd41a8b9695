"""The PTX of the examples has not changed, and all ways of building give the same bytes."""

import os
import shutil

import digests
import pytest
from project import CHECKOUT, Project

from tileiras.build import discover

STAGED = [
    "saxpy.mlir", "relu_add_2d.mlir", "matmul_f32.mlir", "bytecode/softmax.tileirbc",
    *(["vector_add.py", "kernels/quantize.py"] if discover.has_front_end() else []),
]  # fmt: skip


def test_one_process_makes_the_bytes_that_are_known():
    tools, known = digests.read()
    if tools != digests.tools():
        pytest.skip(f"the digest is of {tools}, here is {digests.tools()}")
    if not discover.has_front_end():
        pytest.skip("the digest is of the examples in Python as well")
    whole = digests.whole(digests.compiled(digests.examples()))
    assert whole == known, "other bytes: python tests/build/digests.py --each tells where, without --each it takes them"


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    """`PATH ENTRY TARGET` -> digest, as this process makes the staged examples."""
    return digests.compiled(STAGED)


def built(folder, *words: str, **environment: str) -> dict[str, str]:
    """`PATH ENTRY TARGET` -> digest, of a tree of some examples that is built without a store."""
    tree = Project(folder, store="off")
    for name in STAGED:
        path = tree.path(os.path.join("kernels", name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copy(os.path.join(CHECKOUT, "examples", name), path)
    tree.scons(*words, **environment)
    result = {}
    for name in STAGED:
        stem = discover.artifact_stem(tree.path(f"kernels/{name}"))
        place = tree.path(os.path.join("build/sm_90/O3/kernels", os.path.dirname(name), stem))
        for artifact in os.listdir(place):
            if artifact.endswith(".ptx"):
                with open(os.path.join(place, artifact), "rb") as file:
                    result[f"{name} {artifact.removesuffix('.ptx')} sm_90"] = digests.digest(file.read())
    return result


@pytest.mark.parametrize("jobs", ["-j1", "-j2"])
def test_staged_nodes_and_worker_processes_make_them(tmp_path, expected, jobs):
    assert built(tmp_path / "a folder", jobs, PYTHONHASHSEED=str(len(jobs) + ord(jobs[2]))) == expected


# dask.distributed leaves variables for malloc in this process, with which `tileiras-server` finds another service.
@pytest.mark.slow
def test_a_cluster_makes_them(tmp_path, expected, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    monkeypatch.setenv("PYTHONPATH", CHECKOUT)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, local_directory=str(tmp_path),
    ) as running:  # fmt: skip
        executor = running.scheduler_address.replace("tcp://", "dask://")
        assert built(tmp_path / "tree", f"executor={executor}") == expected
