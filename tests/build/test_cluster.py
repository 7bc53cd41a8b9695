"""`executor=dask://HOST:PORT`: stages on the workers of a scheduler of dask.distributed."""

import json
import os
import socket

import pytest
from project import CHECKOUT, Project, axpy, module

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")

from tileiras.build.run import cluster as cluster_module  # noqa: E402
from tileiras.build.run.cluster import Cluster  # noqa: E402
from tileiras.build.scons.variables import BadVariable, construction_variables  # noqa: E402
from tileiras.codegen import toolkit  # noqa: E402

pytestmark = pytest.mark.slow

with open(os.path.join(CHECKOUT, "examples", "matmul_f32.mlir"), encoding="utf-8") as file:
    MATMUL = file.read()

CHECKING = """
import os
from tileiras.build import tool
from tileiras.build.scons.variables import construction_variables
env = Environment(tools=[tool], ENV=os.environ, **construction_variables(ARGUMENTS))
env.Default(env.TileCheck(env.TileTree("kernels")))
"""

KERNELS = {
    "one": module(axpy("one")),
    "two": module(axpy("first"), axpy("second", operation="mulf")),
    "three": module(axpy("three", operation="maxf")),
}


def project(folder, **keywords) -> Project:
    result = Project(folder, **keywords)
    for name, text in KERNELS.items():
        result.write(f"kernels/{name}.mlir", text)
    return result


def local_cluster(folder, monkeypatch, *, workers: int = 2, site: str = "") -> "distributed.LocalCluster":
    """Workers in a folder without files of the build; `site` is Python that each runs when it starts."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(site)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), CHECKOUT]))
    monkeypatch.chdir(folder)
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None,
        local_directory=str(folder / "scratch"),
    )  # fmt: skip


def executor(running) -> str:
    return "executor=" + running.scheduler_address.replace("tcp://", "dask://")


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        result = local_cluster(tmp_path_factory.mktemp("cluster") / "workers", monkeypatch)
        yield result
        result.close()


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A project built by one process, and its build."""
    tree = project(tmp_path_factory.mktemp("here"))
    return tree, tree.scons()


def test_a_cluster_gives_the_artifacts_of_one_process(tmp_path, running, here):
    alone, first = here
    tree = project(tmp_path)
    build = tree.scons(executor(running))
    assert (sorted(build.ran), build.errors) == (sorted(first.ran), "")
    assert tree.artifacts() == alone.artifacts()
    assert tree.scons(executor(running), "tile_full=1").stages == []
    # The results of the workers are in the store, with their inputs.
    tree.delete_build()
    again = tree.scons()
    assert again.stages == [] and len(again.cached) == len(build.ran)
    # The chain ends at a stage whose result is in the build directory already.
    tree.write("kernels/one.mlir", "// a comment\n" + KERNELS["one"])
    assert tree.scons(executor(running)).ran == ["read one.cuda_tile.mlir"]


@pytest.mark.skipif(toolkit.find_program("ptxas") is None, reason="needs ptxas")
def test_secondary_inputs_of_stages_travel_with_the_first(tmp_path, running):
    """The cubin stage reads NAME.json, which is built on the worker or is in the folder."""
    trees = []
    for name, words in (("here", []), ("there", [executor(running)])):
        tree = Project(tmp_path / name, store="off")
        tree.write("kernels/product.mlir", MATMUL)
        if words:
            tree.scons("emit=ptx", "emit-remarks=1")
        build = tree.scons("emit=cubin", "emit-remarks=1", *words)
        trees.append((tree.artifacts(), build.errors))
        tree.delete_build()
        tree.scons("emit=cubin", "emit-remarks=1", *words)
        assert tree.artifacts() == trees[-1][0]
    assert trees[0] == trees[1]
    (resources,) = [data for name, data in trees[0][0].items() if name.endswith(".resources.json")]
    (row,) = json.loads(resources)["kernels"].values()
    assert row["shared"] == row["dynamic_shared"] > 0


def test_errors_are_those_of_one_process(tmp_path, running):
    items = []
    for words in ([], [executor(running)]):
        tree = project(tmp_path / str(len(words)))
        tree.write("kernels/bad.mlir", "cuda_tile.module @k {\n  entry @bad( {\n}\n")
        tree.write("kernels/sine.mlir", KERNELS["one"].replace("addf %v, %v rounding<nearest_even>", "sin %v"))
        build = tree.scons("-k", "libdevice=nowhere.bc", *words, expect=2)
        items.append((sorted(build.errors.splitlines()), sorted(build.ran)))
    assert items[0] == items[1] and any("bad.mlir:2" in line for line in items[0][0])


DIE_ONCE = """\
import os
import tileiras.stages.tileas as stage
whole = stage.run
def run(source, options, context):
    try:
        os.close(os.open({path!r}, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return whole(source, options, context)
    os.kill(os.getpid(), 9)
stage.run = run
"""


def test_a_worker_that_is_lost_costs_time_only(tmp_path, monkeypatch, here):
    alone, first = here
    lost = tmp_path / "lost"
    with local_cluster(tmp_path / "workers", monkeypatch, site=DIE_ONCE.format(path=str(lost))) as dying:
        tree = project(tmp_path / "tree")
        monkeypatch.setenv("PYTHONPATH", CHECKOUT)
        build = tree.scons(executor(dying))
    assert lost.exists()
    assert (sorted(build.ran), build.errors) == (sorted(first.ran), "")
    assert tree.artifacts() == alone.artifacts()


def test_another_compiler_is_not_believed(tmp_path, running, here):
    alone, first = here
    tree = project(tmp_path)
    with open(os.path.join(tree.copy_compiler(), "tileiras", "stages", "llvm.py"), "a", encoding="utf-8") as file:
        file.write("\n# A remark.\n")
    build = tree.scons(executor(running), "-j2")
    (line,) = build.errors.splitlines()
    assert "has another compiler, or other tools, for stage 'llvm'; stages run here for this build" in line
    assert sorted(build.ran) == sorted(first.ran) and tree.artifacts() == alone.artifacts()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_a_scheduler_that_is_not_there_costs_one_warning(tmp_path, here):
    alone, first = here
    tree = project(tmp_path)
    build = tree.scons(f"executor=dask://127.0.0.1:{free_port()}", "-j2")
    (line,) = build.errors.splitlines()
    assert line.startswith("warning: executor dask://127.0.0.1:") and line.endswith("stages run here for this build")
    assert sorted(build.ran) == sorted(first.ran) and tree.artifacts() == alone.artifacts()


def test_a_cluster_without_workers_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(cluster_module, "ALONE_SECONDS", 0.3)
    items: list[str] = []
    with local_cluster(tmp_path / "workers", monkeypatch, workers=0) as empty:
        client = Cluster(executor(empty).removeprefix("executor="), items.append)
        assert client._ask(cluster_module.Work([], {})) is None
        assert client._ask(cluster_module.Work([], {})) is None
        client.close()
    assert len(items) == 1 and "it has no workers; stages run here for this build" in items[0]


@pytest.mark.parametrize("value", ["dask://host", "tcp://host:1", "dask://:8786", "dask://host:port", "dask://a:1/b"])
def test_an_unknown_executor_is_refused(value):
    with pytest.raises(BadVariable, match="accepted is dask://HOST:PORT"):
        construction_variables({"executor": value})


def test_verdicts_of_a_cluster_are_those_of_one_process(tmp_path, running):
    verdicts = []
    for name, words in (("here", ()), ("there", (executor(running),))):
        tree = Project(tmp_path / name)
        tree.write("SConstruct", CHECKING)
        tree.write("kernels/two.mlir", KERNELS["two"])
        build = tree.scons(*words)
        assert build.output.count("CHECK") == 2 and "run here" not in build.errors
        verdicts.append({path: data for path, data in tree.artifacts().items() if ".check" in path})
    assert len(verdicts[0]) == 4 and verdicts[0] == verdicts[1]
