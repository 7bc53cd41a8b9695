"""Sweeps: all combinations, with the same verdicts in parallel as in sequence, and builds that use the winner."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest
from reports import EXAMPLES, options

import tileiras
from tileiras.build import plan, tuned
from tileiras.cli import tileiras_sweep
from tileiras.diagnostics import CompileError
from tileiras.report import sweep

LAUNCH = ["--grid", "4", "f32[4096]=arange", "f32[4096]=ones", "f32=2", "i32=4096"]


def arguments():
    return [np.arange(4096, dtype=np.float32), np.ones(4096, np.float32), np.float32(2), 4096]


@pytest.mark.parametrize(
    "name, text, values",
    [
        ("num-warps", "4,8", [4, 8]),
        ("num-warps", "1..8", [1, 2, 4, 8]),
        ("unspecialized-pipeline-num-stages", "2..5", [2, 3, 4, 5]),
        ("pipeline-strategy", "none,unspecialize,none", ["none", "unspecialize"]),
        ("ftz", "true,false", [True, False]),
    ],
)
def test_values_are_lists_and_ranges(name, text, values):
    assert tileiras_sweep.values_of(name, text) == values


def test_candidates_are_all_combinations():
    result = tileiras_sweep.build_parser().parse_args(["k.mlir", "--num-warps", "4,8", "--stages", "2..3"])
    candidates = tileiras_sweep.candidates(result)
    assert len(candidates) == 4 and {"num_warps": 8, "unspecialized_pipeline_num_stages": 3} in candidates


def test_parallel_and_serial_builds_give_the_same():
    """Also where two arguments are parts of one array, which the kernel writes."""
    both = np.arange(8192, dtype=np.float32)
    args = [both[:4096], both[4096:], np.float32(2), 4096]
    rows = [{"num_warps": 1}, {"num_warps": 4}, {"num_warps": 64}]
    source = str(EXAMPLES / "saxpy.mlir")
    items: list[dict] = []
    alone = tileiras.tune(source, 4, args, rows, "A100")
    beside = tileiras.tune(source, 4, args, rows, "A100", jobs=2, progress=items.append)
    assert [each.options for each in beside.candidates] == [each.options for each in alone.candidates]
    assert [each.microseconds for each in beside.candidates] == [each.microseconds for each in alone.candidates]
    assert [each.why for each in beside.candidates] == [each.why for each in alone.candidates]
    assert sorted(each["num_warps"] for each in items) == [1, 4, 64]
    assert (both == np.arange(8192)).all()


def test_arrays_that_share_memory_do_so_in_another_process():
    import pickle

    from tileiras.report.tuning import Judge, _packed, _unpacked

    base = np.arange(64, dtype=np.int32).reshape(8, 8)
    args = [base[::-1], base[:, 2:5], base, 3]
    judge = Judge((), "k", {}, args, args, [], "A100")
    result = _unpacked(pickle.loads(pickle.dumps(_packed(judge)))).args
    assert all((one == other).all() for one, other in zip(result[:3], args[:3]))
    result[2][0, 2] = -1
    assert result[0][-1, 2] == -1 and result[1][0, 0] == -1 and base[0, 2] == 2


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    shutil.copy(EXAMPLES / "saxpy.mlir", folder / "saxpy.mlir")
    return folder


def test_the_command_ranks_plots_and_writes_the_winner(project, capsys, monkeypatch):
    monkeypatch.chdir(project)
    monkeypatch.setenv("COLUMNS", "90")
    files = ["--json", "s.json", "--plot", "s.svg", "--write"]
    assert tileiras_sweep.main(["saxpy.mlir", "--num-warps", "1,8", "--gpu", "A100", "-j", "1", *files, *LAUNCH]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.split("\n"))) <= 90
    data = json.loads((project / "s.json").read_text())
    times = {row["options"]["num_warps"]: row["microseconds"] for row in data["candidates"]}
    artifact = tileiras.compile("saxpy.mlir", gpu_name="sm_80", num_warps=8)
    again = tileiras.sim.estimate(artifact, "saxpy", 4, arguments(), "A100").microseconds
    assert times[8] == again and data["best"] == {"num_warps": min(times, key=times.get)}
    assert f"{again:.4g} us" in printed
    svg = (project / "s.svg").read_text()
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', svg)]
    assert widths[1] / widths[0] == pytest.approx(max(times.values()) / min(times.values()), rel=1e-3)
    written = json.loads((project / "saxpy.tune.json").read_text())
    assert written["options"] == {"sm_80": {"num-warps": data["best"]["num_warps"]}}
    assert written["found"]["sm_80"]["gpu"] == "A100"


def test_a_sweep_without_a_candidate_left_says_why_of_each(project, capsys, monkeypatch):
    monkeypatch.chdir(project)
    monkeypatch.setattr("tileiras.report.tuning._difference", lambda *_: "its results differ")
    assert tileiras_sweep.main(["saxpy.mlir", "--num-warps", "4", "--gpu", "A100", "-j", "1", *LAUNCH]) == 5
    err = capsys.readouterr().err
    assert "no candidate" in err and "num_warps=4: its results differ" in err


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["--num-warps", "3"], 2, "num-warps"),
        (["--stages", "5..2"], 1, "is no range"),
        (["--stages", "50..60"], 1, "no value"),
        (["--gpu", "NONE"], 2, "unknown GPU"),
        (["--json", "saxpy.mlir"], 1, "one file"),
        (["--grid", "0"], 1, "positive"),
        (["--entry", "other"], 1, "other"),
    ],
)
def test_mistakes_have_their_codes(project, capsys, monkeypatch, words, code, said):
    monkeypatch.chdir(project)
    assert tileiras_sweep.main(["saxpy.mlir", *LAUNCH, *words]) == code
    assert said in capsys.readouterr().err


def test_notebooks_show_results_as_tables():
    artifact = tileiras.compile(str(EXAMPLES / "saxpy.mlir"), gpu_name="sm_80")
    assert "<th>kernel</th>" in artifact._repr_html_() and "<td>saxpy</td>" in artifact._repr_html_()
    tuning = tileiras.tune(str(EXAMPLES / "saxpy.mlir"), 4, arguments(), [{"num_warps": 4}], "A100")
    assert f"{tuning.estimate.microseconds:.4g} us" in tuning.estimate._repr_html_()
    shown = sweep.Sweep("<k>", "<b>saxpy</b>", "A100", "sm_80", "4", tuning)._repr_html_()
    assert "num-warps=4" in shown and "&lt;b&gt;saxpy" in shown and "<b>" not in shown


# ---- constants -------------------------------------------------------------------------------------------------------

PRODUCT = ["--gpu", "H200", "array:f16[128,128]=random(1)", "array:f16[128,128]=random(2)", "array:f16[128,128]=zeros"]


def test_constants_are_swept_with_a_grid_that_follows(tmp_path, capsys, monkeypatch):
    """A candidate whose grid omits a part of the product is wrong; a refused one has the front end's diagnostic."""
    shutil.copy(EXAMPLES / "matmul_f16.py", tmp_path / "matmul.py")
    monkeypatch.chdir(tmp_path)
    words = ["matmul.py", "--const", "TM=64,128,100", "--const", "TN=64", "--const", "TK=32", "-j", "1", *PRODUCT]
    grid = ["--grid", "cdiv(C_size0,TM),cdiv(C_size1, TN)"]
    assert tileiras_sweep.main([*words, *grid, "--json", "s.json", "--write"]) == 0
    printed = capsys.readouterr().out
    data = json.loads((tmp_path / "s.json").read_text())
    rows = {row["constants"]["TM"]: row for row in data["candidates"]}
    assert "power of two" in rows[100]["why"] and rows[100]["microseconds"] is None
    assert rows[64]["microseconds"] != rows[128]["microseconds"] and not rows[64]["why"] + rows[128]["why"]
    assert f"TM={data['constants']['TM']}, TN=64, TK=32" in printed and "TILEIRAS_EXPORT" in printed
    written = json.loads((tmp_path / "matmul.tune.json").read_text())
    assert written["found"]["sm_90"]["constants"] == data["constants"]
    # The estimated kernel is the one that the file compiles to with those constants.
    text = (tmp_path / "matmul.py").read_text()
    (tmp_path / "other.py").write_text(text.replace("128, 128, 64)", "64, 64, 32)"))
    arrays = [np.random.default_rng(seed).random((128, 128)).astype(np.float16) for seed in (1, 2, 3)]
    args = [part for array in arrays for part in (array, 128, 128, 128, 1)]
    artifact = tileiras.compile("other.py", gpu_name="sm_90")
    again = tileiras.sim.estimate(artifact, "matmul_f16", (2, 2), args, "H200").microseconds
    assert rows[64]["microseconds"] == pytest.approx(again, rel=1e-6)


def test_a_grid_that_does_not_follow_is_a_wrong_result(tmp_path, capsys, monkeypatch):
    shutil.copy(EXAMPLES / "matmul_f16.py", tmp_path / "matmul.py")
    monkeypatch.chdir(tmp_path)
    words = ["matmul.py", "--const", "TM=32,128", "--const", "TN=128", "--const", "TK=64", "-j", "1", "--grid", "1,1"]
    assert tileiras_sweep.main([*words, "--json", "s.json", *PRODUCT]) == 0
    data = json.loads((tmp_path / "s.json").read_text())
    assert data["constants"]["TM"] == 128
    assert "differ" in next(row["why"] for row in data["candidates"] if row["constants"]["TM"] == 32)


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["--const", "TX=1"], 2, "matmul.py:24:5: error: 'matmul_f16' has no constant 'TX'; its constants are: TM, TN"),
        (["--const", "TM=0.5"], 2, "constant 'TM' of 'matmul_f16' is of type int"),
        (["--const", "TM=many"], 1, "'many' is neither a number"),
        (["--const", "TM"], 1, "--const takes NAME=VALUES"),
        (["--const", "TM=1", "--const", "TM=2"], 1, "given twice"),
        (["--grid", "cdiv(128,TX)"], 1, "--grid:1:10: 'TX' is not known; known are A_size0"),
        (["--grid", "128//(TM-TM),1"], 1, "--grid:1:1: division by zero where TM=128"),
        (["--grid", "TM.real"], 1, "--grid:1:1: expected integers, names"),
        (["--grid", "1,__import__('os')"], 1, "--grid:1:3: expected integers"),
        (["--grid", "1,cdiv(1,"], 1, "--grid:1:"),
        (["--grid", "9**9"], 1, "--grid:1:1: expected integers"),
        (["--grid", "64-TM"], 1, "--grid:1:1: a grid has one to three positive sizes, this is -64 where TM=128"),
    ],
)
def test_mistakes_in_constants_and_grids_are_located(tmp_path, capsys, monkeypatch, words, code, said):
    shutil.copy(EXAMPLES / "matmul_f16.py", tmp_path / "matmul.py")
    monkeypatch.chdir(tmp_path)
    assert tileiras_sweep.main(["matmul.py", *PRODUCT, *words]) == code
    assert said in capsys.readouterr().err


def test_only_cutile_python_has_constants(project, capsys, monkeypatch):
    monkeypatch.chdir(project)
    assert tileiras_sweep.main(["saxpy.mlir", "--const", "N=1", *LAUNCH]) == 2
    assert "constants are those of a kernel of a cuTile Python file" in capsys.readouterr().err


# ---- KERNEL.tune.json ------------------------------------------------------------------------------------------------


def test_builds_take_options_of_the_file_instead_of_defaults(tmp_path):
    source = tmp_path / "k.mlir"
    shutil.copy(EXAMPLES / "saxpy.mlir", source)
    (tmp_path / "k.tune.json").write_text(json.dumps({"format": 1, "options": {"sm_90": {"num-warps": 8}}}))

    def warps(**given):
        result = plan.plan(str(source), "k.mlir", str(source), "build/k", options(**given), "ptx", ["saxpy"])
        return {step.options["num-warps"] for step in result.steps}

    assert warps() == {8}
    assert warps(**{"num-warps": 2}) == {2}
    assert warps(**{"gpu-name": "sm_80"}) == {None}
    # The same object each time: builds recognize options by identity.
    assert tuned.tuned(options(), str(source)) is tuned.tuned(options(), str(source))


@pytest.mark.parametrize(
    "text, said",
    [
        ("{", "not a file of tuned options"), ("[]", "not a file of tuned options"),
        ('{"format": 7, "options": {}}', "format 7"), ('{"format": 1, "options": {"sm_90": 3}}', "not a file of tuned"),
        ('{"format": 1, "options": {"sm_90": {"warps": 3}}}', "unknown option 'warps'"),
        ('{"format": 1, "options": {"sm_90": {"num-warps": 3}}}', "num-warps"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_a_located_error(tmp_path, text, said):
    (tmp_path / "k.tune.json").write_text(text)
    with pytest.raises(CompileError) as caught:
        tuned.tuned(options(), str(tmp_path / "k.mlir"))
    assert caught.value.code == 2
    assert said in caught.value.render() and "k.tune.json:1:1" in caught.value.render()
