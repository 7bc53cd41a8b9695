"""A kernel is exported again if and only if an input that its modules read has changed."""

import os
import random
import shutil
import subprocess
import sys

import pytest
from delaying_server import DelayingServer
from project import CHECKOUT, Project, begin_with_imports

from tests.kernels.reading import KERNEL, THINGS, World

pytest.importorskip("cuda.tile", reason="cuTile Python is not installed")

from tileiras.build import library  # noqa: E402
from tileiras.build.ledger.history import History  # noqa: E402
from tileiras.build.run import produce  # noqa: E402
from tileiras.build.run.execute import Session  # noqa: E402
from tileiras.build.store import remote  # noqa: E402
from tileiras.build.store.local import OFF, ArtifactStore  # noqa: E402
from tileiras.build.watch.loop import Tree, Watch  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402
from tileiras.stages.units import Source  # noqa: E402

OPTIONS = CompileOptions({"gpu-name": "sm_90"})


@pytest.fixture
def exports(monkeypatch):
    """The sources that the stage `export` runs on, as they are run."""
    names = []
    original = produce.produce

    def noting(step, *arguments):
        if step.stage.name == "export":
            names.append(os.path.splitext(os.path.basename(step.source_path))[0])
        return original(step, *arguments)

    monkeypatch.setattr(produce, "produce", noting)
    return names


def enter(monkeypatch, world):
    """Change this process to the environment of one that was started in the world."""
    for name, value in world.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "path", [world.env["PYTHONPATH"], *(each for each in sys.path if "/lib" != each[-4:])])


def export(world, name):
    path = str(world.kernels / f"{name}.py")
    return library.exported(Source.read(path, f"{name}.py"), OPTIONS).source.data


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_the_library_reruns_stages_with_changed_inputs(tmp_path, monkeypatch, exports, seed):
    choice = random.Random(seed)
    world = World(tmp_path / "world")
    reads = {name: world.write_kernel(name, choice) for name in ("one", "two", "three")}
    begin_with_imports(str(tmp_path / "store"))
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", str(tmp_path / "store"))
    edited = set(reads)
    for thing in [*choice.sample(sorted(THINGS), len(THINGS)), None]:
        enter(monkeypatch, world)
        exports.clear()
        result = {name: export(world, name) for name in reads}
        assert set(exports) == edited, thing
        for name in edited:
            monkeypatch.setenv("TILEIRAS_CACHE_MODE", "refresh")
            assert export(world, name) == result[name]
            monkeypatch.delenv("TILEIRAS_CACHE_MODE")
        if thing is not None:
            world.edit(thing)
            edited = {name for name, things in reads.items() if thing in things}


def scons(world, store, **environment):
    begin_with_imports(store)
    done = subprocess.run(
        [sys.executable, "-m", "SCons", "-Q"], cwd=world.top / "app", capture_output=True, text=True, check=False,
        env={**world.environment(CHECKOUT), "TILEIRAS_CACHE_DIR": store, **environment},
    )  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("  EXPORT")]
    return {os.path.splitext(os.path.basename(words[1]))[0] for words in lines if words[-1] != "(cached)"}


SCONSTRUCT = """\
from tileiras.build import tool
env = Environment(tools=[tool])
env.TileTree("kernels", sm="sm_90", emit="bytecode")
"""


@pytest.mark.parametrize(
    "seed, service, edits",
    [(10, "off", 2), *(pytest.param(seed, word, 9, marks=pytest.mark.slow)
                       for seed, word in ((11, "off"), (12, "auto"), (13, "auto")))],
)  # fmt: skip
def test_scons_reruns_stages_with_changed_inputs(tmp_path, seed, service, edits):
    choice = random.Random(seed)
    world = World(tmp_path / "world")
    (world.top / "app" / "SConstruct").write_text(SCONSTRUCT)
    reads = {f"k{number}": world.write_kernel(f"k{number}", choice) for number in range(5)}
    environment = {"TILEIRAS_SERVER": service, "XDG_RUNTIME_DIR": str(tmp_path)}
    os.chmod(tmp_path, 0o700)
    edited = set(reads)
    try:
        for thing in [*choice.sample(sorted(THINGS), edits), None]:
            assert scons(world, "off", **environment) == edited, thing
            edited = set()
            if thing is not None:
                world.edit(thing)
                edited = {name for name, things in reads.items() if thing in things}
        assert scons(world, "off", **environment) == set()
    finally:
        subprocess.run([sys.executable, "-m", "tileiras.processes.service.command", "stop"], check=False,
                       capture_output=True,
                       env={**os.environ, **environment})  # fmt: skip


def test_a_watch_reruns_stages_with_changed_inputs(tmp_path, monkeypatch, exports):
    choice = random.Random(20)
    world = World(tmp_path / "world")
    reads = {f"k{number}": world.write_kernel(f"k{number}", choice) for number in range(4)}
    enter(monkeypatch, world)
    monkeypatch.chdir(world.top)
    session = Session(ArtifactStore(OFF, pytest.fail), history=History("build"))
    items = []
    watch = Watch([Tree(str(world.kernels), "", [(OPTIONS, "bytecode")], "build")], session, out=items.append,
                  error=pytest.fail)  # fmt: skip
    edited = set(reads)
    for thing in [*choice.sample(sorted(THINGS), len(THINGS)), None]:
        exports.clear()
        changed, gone = watch.scan()
        assert not gone and {os.path.splitext(kernel.name)[0] for kernel in changed} == edited, thing
        assert watch.build(changed)
        assert set(exports) == edited
        edited = set()
        if thing is not None:
            world.edit(thing)
            enter(monkeypatch, world)
            edited = {name for name, things in reads.items() if thing in things}


SEVERAL = pytest.mark.parametrize("edits", [2, pytest.param(len(THINGS), marks=pytest.mark.slow)])


def test_a_watch_checks_inputs_of_modules_after_a_failure(tmp_path, monkeypatch, exports):
    world = World(tmp_path / "world")
    (world.kernels / "k.py").write_text("import json, pathlib\nSUM = json.load(open(pathlib.Path(__file__).with_name("
                                        "'tiles.json')))['tile']\n" + KERNEL)  # fmt: skip
    monkeypatch.chdir(world.top)
    session = Session(ArtifactStore(OFF, pytest.fail), history=History("build"))
    items = []
    watch = Watch([Tree(str(world.kernels), "", [(OPTIONS, "bytecode")], "build")], session, out=items.append,
                  error=items.append)  # fmt: skip
    tiles = os.path.realpath(world.kernels / "tiles.json")
    watch.build(watch.scan()[0])
    watch.scan()
    for text, builds in (("{", False), ('{"tile": 5}', True), ('{"tile":', False), ('{"tile": 6}', True)):
        with open(tiles, "w") as file:
            file.write(text)
        (changed,), _ = watch.look({tiles})
        assert watch.build([changed]) is builds
        assert watch.look({tiles}) == ([], [])
    assert len(exports) == 5


@SEVERAL
def test_a_machine_fetches_from_a_server_by_equal_inputs(tmp_path, monkeypatch, exports, edits):
    choice = random.Random(30)
    server = DelayingServer(0.0)
    here, there = World(tmp_path / "here"), World(tmp_path / "deeper" / "there")
    reads = {f"k{number}": here.write_kernel(f"k{number}", choice) for number in range(4)}
    for name in reads:
        shutil.copy(here.kernels / f"{name}.py", there.kernels)
    monkeypatch.setenv("TILEIRAS_REMOTE_CACHE", server.url)
    monkeypatch.setenv("TILEIRAS_REMOTE_MODE", "read-write")
    monkeypatch.setenv("TILEIRAS_REMOTE_SECONDS", "600")  # a busy machine must not count as a slow server
    for name in ("CONNECT_SECONDS", "READ_SECONDS", "SLOW_SECONDS"):
        monkeypatch.setattr(remote, name, 600.0)

    def machine(world):
        """The exports of a machine with an empty store, and the kernels that it has to run."""
        store = str(tmp_path / f"store {len(list(tmp_path.iterdir()))}")
        begin_with_imports(store)
        monkeypatch.setenv("TILEIRAS_CACHE_DIR", store)
        enter(monkeypatch, world)
        monkeypatch.chdir(world.top)  # numpy.genfromtxt reads it
        exports.clear()
        result = {name: export(world, name) for name in reads}
        library.default_session().store.close()
        return result, set(exports)

    result, ran = machine(here)
    assert ran == set(reads) and machine(there) == (result, set())
    for thing in choice.sample(sorted(THINGS), edits):
        here.edit(thing)
        reading = {name for name, things in reads.items() if thing in things}
        result, ran = machine(here)
        assert ran == reading, thing
        assert machine(there)[1] == set(), thing
        there.edit(thing)
        assert machine(there) == (result, set()), thing


CLOCK = """\
import time, cuda.tile as ct

NOW = time.time()

@ct.kernel
def k(a, b):
    ct.store(b, index=(ct.bid(0),), tile=ct.load(a, index=(ct.bid(0),), shape=(64,)))

TILEIRAS_EXPORT = {"k": (k, "f32[?]", "f32[?]")}
"""


@pytest.fixture
def clock(tmp_path):
    """A project whose kernel reads the clock."""
    project = Project(tmp_path)
    project.write("kernels/k.py", CLOCK)
    return project


def test_incomparable_inputs_rerun_always_and_are_reported_once(clock):
    for _ in range(2):
        build = clock.scons("emit=bytecode")
        assert build.stages == ["export"]
        assert build.errors.count("kernels/k.py:3:7: warning: the clock") == build.errors.count("warning") == 1
    clock.write("kernels/k.py", CLOCK + "TILEIRAS_INPUTS = ['sizes.txt', '$TILE']\n")
    assert clock.scons("emit=bytecode").stages == ["export"]
    assert clock.scons("emit=bytecode").stages == []
    clock.write("kernels/sizes.txt", "1")
    assert clock.scons("emit=bytecode").stages == ["export"]
    build = clock.scons("emit=bytecode", TILE="2")
    assert build.stages == ["export"] and build.errors == ""
    assert clock.scons("emit=bytecode").cached == ["export"]


def test_why_names_the_inputs_read(clock):
    clock.write("kernels/k.py", CLOCK.replace("time.time()", "__import__('os').environ.get('TILE')"))
    clock.scons("emit=bytecode")
    clock.scons("emit=bytecode", TILE="2")
    done = subprocess.run(
        [sys.executable, "-m", "tileiras.cli.tileiras_cache", "why", "kernels/k.py"], cwd=clock.folder, check=True,
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": CHECKOUT},
    )  # fmt: skip
    assert "inputs: variable TILE: absent ->" in done.stdout
