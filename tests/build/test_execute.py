"""Steps of a build without SCons: keys, the store, and diagnostics that are stored for later runs."""

import pytest
import warning_stage

from tileiras import pipeline
from tileiras.build.run.execute import Session
from tileiras.build.step import Step, render
from tileiras.build.store.local import ArtifactStore
from tileiras.options import CompileOptions

SOURCE = "// the kernel\nentry\n  a constant here\n"
INPUT = "module {\n  nv_tileaa.func @k() {\n    %0 = arith.constant 7 : i32\n    nv_tileaa.return\n  }\n}\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    row = pipeline.stage("tileas")
    replaced = row._replace(module="warning_stage")
    monkeypatch.setattr(pipeline, "STAGES", tuple(replaced if r is row else r for r in pipeline.STAGES))
    monkeypatch.chdir(tmp_path)
    warning_stage.RUNS.clear()

    def step(line: int, source: str, **options) -> Step:
        (tmp_path / "k.src").write_text(source)
        (tmp_path / "in.mlir").write_text(INPUT)
        (tmp_path / "in.tileaa.loc").write_text("tileiras-loc 2 1\n-\n1\n2\n-\n")
        (tmp_path / "in.cuda_tile.loc").write_text(f"tileiras-loc 2 1\n-\nf0:{line - 1}:1\nf0:{line}:3\n")
        return Step(
            replaced, "in.mlir", "out/k", [".tileas.mlir", ".tileas.loc"], "k.src", "k.src",
            CompileOptions({"gpu-name": "sm_90", **options}), "k", ["in.tileaa.loc", "in.cuda_tile.loc"],
        )  # fmt: skip

    return step


EXPECTED = """\
k.src:{line}:3: warning: a constant
  a constant here
  ^
k.src:{above}:1: note: in this kernel
entry
^"""


def test_a_hit_repeats_diagnostics_at_the_present_line(place, tmp_path):
    store = ArtifactStore(str(tmp_path / "store"), pytest.fail)
    step = place(3, SOURCE)
    first = Session(store).perform(step)
    assert (first.cached, first.error) == (False, None)
    assert render(first.diagnostics, step) == EXPECTED.format(line=3, above=2)
    moved = place(5, "\n\n" + SOURCE)
    second = Session(store).perform(moved)
    assert second.cached and warning_stage.RUNS == ["sm_90"]
    assert render(second.diagnostics, moved) == EXPECTED.format(line=5, above=4)
    store.close()


def test_line_information_makes_locations_part_of_the_key(place, tmp_path, monkeypatch):
    with_lines = pipeline.STAGES[3]._replace(options=(*pipeline.STAGES[3].options, "lineinfo"))
    monkeypatch.setattr(pipeline, "STAGES", (*pipeline.STAGES[:3], with_lines, *pipeline.STAGES[4:]))
    store = ArtifactStore(str(tmp_path / "store"), pytest.fail)
    session = Session(store)

    def ran(step: Step) -> bool:
        step.stage = with_lines
        return not session.perform(step).cached

    assert [ran(place(3, SOURCE)), ran(place(5, SOURCE)), ran(place(3, SOURCE))] == [True, False, False]
    assert [ran(place(3, SOURCE, lineinfo=True)), ran(place(5, SOURCE, lineinfo=True))] == [True, True]
    store.close()


def test_an_option_the_stage_does_not_read_is_no_part_of_its_key(place, tmp_path):
    store = ArtifactStore(str(tmp_path / "store"), pytest.fail)
    session = Session(store)
    assert not session.perform(place(3, SOURCE)).cached
    assert session.perform(place(3, SOURCE, **{"ptx-version": "8.8"})).cached
    assert not session.perform(place(3, SOURCE, **{"num-warps": 2})).cached
    store.close()


def test_the_output_is_numbered_by_the_operations_of_the_input(place, tmp_path):
    store = ArtifactStore("off", pytest.fail)
    assert Session(store).perform(place(3, SOURCE)).error is None
    assert (tmp_path / "out" / "k.tileas.loc").read_text() == "tileiras-loc 2 1\n0\n1\n2\n3\n"


def test_an_input_that_is_gone_is_an_error_and_leaves_nothing(place, tmp_path):
    step = place(3, SOURCE)
    session = Session(ArtifactStore("off", pytest.fail))
    assert session.perform(step).error is None
    (tmp_path / "in.mlir").unlink()
    outcome = session.perform(step)
    assert "unable to read 'in.mlir': No such file or directory" in str(outcome.error)
    assert list((tmp_path / "out").iterdir()) == []
