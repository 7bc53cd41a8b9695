"""A store in trouble costs time and never a build: the artifacts are those of a build without a store."""

import glob
import os
import random
import subprocess
import sys

import pytest
from mounts import mounted, needs_mounts
from project import Project, axpy, module

from tileiras.build.store import local as store_module
from tileiras.build.store.local import ArtifactStore, Record
from tileiras.build.store.maintenance import statistics

pytestmark = pytest.mark.slow

KERNELS = {name: module(axpy(name, operation=operation))
           for name, operation in (("a", "addf"), ("b", "mulf"), ("c", "maxf"))}  # fmt: skip


def project(folder, store=None) -> Project:
    result = Project(folder, store=store)
    for name, text in KERNELS.items():
        result.write(f"kernels/{name}.mlir", text)
    return result


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """The artifacts of a build without a store."""
    tree = project(tmp_path_factory.mktemp("clean"), "off")
    tree.scons()
    return tree.artifacts()


def warnings(build) -> list[str]:
    return [line for line in build.errors.splitlines() if line.startswith("warning: ")]


def rebuilt(tree: Project, *arguments: str, **environment: str):
    if os.path.isdir(tree.path("build")):
        tree.delete_build()
    return tree.scons(*arguments, **environment)


# ---- damage ----------------------------------------------------------------------------------------------------------


def cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def flip(data: bytearray, chance: random.Random) -> None:
    for _ in range(len(data) // 500 + 1):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def empty(data: bytearray, chance: random.Random) -> None:
    data.clear()


@pytest.mark.parametrize("damage", [cut, flip, empty])
def test_damage_to_every_file_of_a_store_costs_time_only(tmp_path, clean, damage):
    tree = project(tmp_path)
    tree.scons()
    chance = random.Random(damage.__name__)
    paths = [p for p in glob.glob(os.path.join(tree.store, "**"), recursive=True) if os.path.isfile(p)]
    assert len(paths) >= 5
    for path in paths:
        with open(path, "rb+") as file:
            data = bytearray(file.read())
            if data:
                damage(data, chance)
            file.seek(0)
            file.truncate()
            file.write(data)
    build = rebuilt(tree)
    assert tree.artifacts() == clean
    assert len(warnings(build)) <= 1
    # Damaged files have been rebuilt, or moved out of the way.
    assert rebuilt(tree).errors == "" and tree.artifacts() == clean


def test_another_format_is_another_folder(tmp_path, monkeypatch):
    older = ArtifactStore(str(tmp_path), pytest.fail)
    older.put_record("key", Record({".ptx": b"old"}, {}))
    older.close()
    monkeypatch.setattr(store_module, "FORMAT", store_module.FORMAT + 1)
    newer = ArtifactStore(str(tmp_path), pytest.fail)
    assert newer.get_record("key") is None
    newer.put_record("key", Record({".ptx": b"new"}, {}))
    newer.close()
    monkeypatch.undo()
    again = ArtifactStore(str(tmp_path), pytest.fail)
    assert again.get_record("key").artifacts == {".ptx": b"old"}
    again.close()


def test_a_record_without_the_fields_of_today_is_read(tmp_path):
    import json
    import struct

    head = json.dumps({"artifacts": [[".ptx", 1]], "diagnostics": {}, "dependencies": []}).encode()
    assert Record.from_bytes(struct.pack("<I", len(head)) + head + b"x").seconds == 0


# ---- disks -----------------------------------------------------------------------------------------------------------


@needs_mounts
@pytest.mark.parametrize("size", ["16k", "300k"])
def test_a_full_disk_is_done_without(tmp_path, clean, size):
    tree = project(tmp_path)
    os.mkdir(tree.store)
    code, errors = mounted(tree, f'mount -t tmpfs -o size={size} none "{tree.store}"')
    assert code == 0, errors
    assert tree.artifacts() == clean
    assert errors.count("warning: ") == 1 and "Traceback" not in errors


@needs_mounts
def test_a_read_only_store_is_read_or_skipped(tmp_path, clean):
    tree = project(tmp_path)
    tree.scons()
    tree.delete_build()
    mount = f'mount --bind "{tree.store}" "{tree.store}" && mount -o remount,bind,ro "{tree.store}"'
    code, errors = mounted(tree, mount)
    assert (code, errors.count("warning: ")) == (0, 1), errors
    assert tree.artifacts() == clean
    tree.delete_build()
    code, errors = mounted(tree, "export TILEIRAS_CACHE_MODE=read-only && " + mount)
    assert (code, errors) == (0, "")
    assert tree.artifacts() == clean
    entries = [open(path, "rb").read() for path in sorted(glob.glob(tree.path("build/.tileiras/steps/**/*.log"),
               recursive=True))]  # fmt: skip
    assert entries and all(b'"served from the store"' in entry for entry in entries)


# ---- company ---------------------------------------------------------------------------------------------------------


def together(trees: list[Project], *arguments: str, **environment: str) -> list[tuple[int, str]]:
    """Build several trees at once; exit codes and errors."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "SCons", *arguments],
            cwd=tree.folder,
            env={**os.environ, "PYTHONPATH": tree.compiler, "TILEIRAS_CACHE_DIR": tree.store, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for tree in trees
    ]
    return [(process.wait(), errors) for process in started for errors in [process.communicate()[1]]]


@pytest.mark.parametrize("limit", ["5G", "256K"])
def test_four_builds_share_a_store_that_is_new(tmp_path, clean, limit):
    trees = [project(tmp_path / str(n), str(tmp_path / "store")) for n in range(4)]
    assert together(trees, TILEIRAS_CACHE_SIZE=limit) == [(0, "")] * 4
    assert all(tree.artifacts() == clean for tree in trees)
    if limit == "5G":
        assert rebuilt(trees[0]).stages == []
    else:
        # An empty database has pages as well, so that a limit this small can only be kept approximately.
        assert statistics(trees[0].store)["bytes"] <= 8 * 100_000


def test_two_builds_of_one_tree_at_once(tmp_path, clean):
    tree = project(tmp_path)
    assert [code for code, _ in together([tree, tree])] == [0, 0]
    assert tree.artifacts() == clean
    assert tree.scons().stages == []
    tree.write("kernels/a.mlir", KERNELS["a"].replace("addf", "subf"))
    assert [code for code, _ in together([tree, tree])] == [0, 0]
    assert b"sub" in tree.read("build/sm_90/O3/kernels/a/a.ptx")
    assert tree.scons().stages == []
