"""Reports of build directories: artifacts present, damaged or missing, and stages that ran."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from reports import EXAMPLES, options

from tileiras.build import discover, plan
from tileiras.build.ledger.history import History
from tileiras.build.run.execute import Session
from tileiras.build.step import warn_on_stderr
from tileiras.build.store.local import OFF, ArtifactStore
from tileiras.report import collect
from tileiras.report.figures import figures
from tileiras.report.page import page
from tileiras.stages.units import Source


def build(folder: Path, source: Path, emit: str, **given) -> None:
    """Build a kernel as `scons` does."""
    values = options(**given)
    store = ArtifactStore(str(folder / "store"), warn_on_stderr, mode=OFF)
    session = Session(store, history=History(str(folder / "build")))
    stem = plan.stem(plan.folder(str(folder / "build"), values), str(source), source.name)
    entries = discover.entry_names(Source.read(source))
    for step in plan.plan(str(source), source.name, str(source), stem, values, emit, entries).steps:
        if session.staleness(step).digests is None:
            assert session.perform(step).error is None


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(EXAMPLES / "matmul_f32.mlir", folder / "k.mlir")
    build(folder, folder / "k.mlir", "cubin", lineinfo=True, **{"emit-remarks": True})
    return folder


@pytest.fixture(scope="module")
def missing_of_whole(built) -> set[str]:
    """The artifacts that the report of the undamaged build lists as missing."""
    return set(collect.of_build(str(built / "build")).kernels[0].missing)


def test_a_build_is_reported_as_its_source_is(built):
    (kernel,) = collect.of_build(str(built / "build")).kernels
    (of_source,) = collect.of_source(str(built / "k.mlir"), options()).kernels
    assert kernel.levels["tileas"] == of_source.levels["tileas"]._replace(places=kernel.levels["tileas"].places)
    assert {each.name: each.value for each in figures(kernel)} == {each.name: each.value for each in figures(of_source)}
    assert kernel.obstacles and len(kernel.obstacles) == len(of_source.obstacles)
    assert kernel.options == {"emit-remarks": True, "lineinfo": True}
    assert {stage.name: stage.outcome for stage in kernel.stages}["cubin"] == "ran"
    assert all(stage.seconds is not None for stage in kernel.stages if stage.outcome == "ran")


def test_cut_offs_are_distinguished_from_runs_with_reasons(built, tmp_path):
    shutil.copytree(built, tmp_path / "p")
    source = tmp_path / "p" / "k.mlir"
    source.write_text("// another line\n" + source.read_text())
    build(tmp_path / "p", source, "ptx")
    (kernel,) = collect.of_build(str(tmp_path / "p" / "build")).kernels
    stages = {stage.name: stage for stage in kernel.stages}
    assert stages["read"].outcome == "ran" and "the input's bytes" in stages["read"].why
    assert stages["tileaa"].outcome == "ran" and any("lineinfo" in why for why in stages["tileaa"].why)
    build(tmp_path / "p", source, "ptx")
    source.write_text("// and another\n" + source.read_text())
    build(tmp_path / "p", source, "ptx")
    (kernel,) = collect.of_build(str(tmp_path / "p" / "build")).kernels
    outcomes = {stage.name: stage.outcome for stage in kernel.stages}
    assert (outcomes["read"], outcomes["tileaa"], outcomes["ptx"]) == ("ran", "cut off", "cut off")


DAMAGED = [
    ("removed", ".cuda_tile.mlir"), ("removed", ".ll"), ("removed", ".json"), ("removed", ".cubin"),
    ("removed", ".ptx"), ("cut", ".tileas.mlir"), ("cut", ".cuda_tile.mlir"), ("cut", ".resources.json"),
    ("cut", ".cubin"), ("cut", ".tileas.remarks.json"), ("bytes", ".tileaa.loc"), ("bytes", ".ptx"),
    ("bytes", ".tileas.mlir"), ("bytes", ".json"),
]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("damage, suffix", DAMAGED)
def test_damaged_builds_open_and_list_missing_parts(built, missing_of_whole, tmp_path, damage, suffix):
    shutil.copytree(built / "build", tmp_path / "build")
    (ptx,) = (tmp_path / "build").rglob("k/*.ptx")
    path = ptx.with_suffix(suffix)
    if damage == "removed":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:100])
    else:
        path.write_bytes(b"\xff\xfe\x00" * 50)
    (kernel,) = collect.of_build(str(tmp_path / "build")).kernels
    assert set(kernel.missing) - missing_of_whole, kernel.missing
    assert "<main" in page(collect.Report("damaged", "0", (kernel,), ()))


def test_a_build_up_to_tileas_has_the_existing_artifacts(tmp_path):
    shutil.copy(EXAMPLES / "saxpy.mlir", tmp_path / "k.mlir")
    build(tmp_path, tmp_path / "k.mlir", "tileas")
    (kernel,) = collect.of_build(str(tmp_path / "build")).kernels
    assert set(kernel.levels) == {"source", "cuda_tile", "tileaa", "tileas"}
    assert kernel.layouts and kernel.resources is None
    assert any("there is no saxpy.ptx" in text for text in kernel.missing)
    assert any("emit-remarks=1" in text for text in kernel.missing)


def test_a_folder_of_intermediates_is_a_build_too(tmp_path):
    from tileiras.cli.tileiras import main

    arguments = [str(EXAMPLES / "saxpy.mlir"), "--gpu-name", "sm_90", "--save-temps", "-o", str(tmp_path / "s.cubin")]
    assert main(arguments) == 0
    (kernel,) = collect.of_build(str(tmp_path), entries=["saxpy"]).kernels
    assert {"cuda_tile", "tileas", "ptx", "sass"} <= set(kernel.levels)
    assert any("location files" in text for text in kernel.missing)


def test_only_some_kernels_of_a_large_build_are_shown(tmp_path):
    text = (EXAMPLES / "saxpy.mlir").read_text()
    for number in range(3):
        (tmp_path / f"k{number}.mlir").write_text(text)
        build(tmp_path, tmp_path / f"k{number}.mlir", "tileas")
    report = collect.of_build(str(tmp_path / "build"), most=2)
    assert [kernel.source for kernel in report.kernels] == ["k0.mlir", "k1.mlir"]
    assert "k2.mlir" in report.missing[0]
    assert os.path.basename(report.title) == "build"
