"""Estimates of two compilers' code for one launch: the jobs, the check of the results, the table."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import tileiras  # noqa: E402
from bench import against, code, estimates, libraries, ranking  # noqa: E402
from bench.estimates import GPUS, Job, Timed  # noqa: E402
from bench.further_sizes import FURTHER  # noqa: E402
from bench.kept_rows import KeptRows, rows_file  # noqa: E402
from bench.ranking import Ranked, Taken  # noqa: E402
from tests.machine_code import needs_tools
from tileiras.targets import rates  # noqa: E402

pytestmark = needs_tools

ROW = code.Measured("saxpy.mlir", "saxpy", None, (2,), (("f32", (2048,)),) * 2,
                    (b"\0\0\0\x40", (2048).to_bytes(4, "little")), views=False)  # fmt: skip


def changed(job: Job) -> Job:
    """The same launch of a kernel that adds the other operand."""
    text = Path("examples/saxpy.mlir").read_text()
    source = text.replace("fma %a_tile, %xs, %ys", "fma %a_tile, %ys, %xs")
    assert source != text
    return job._replace(bytecode=tileiras.compile(source, gpu_name="sm_90", emit="bytecode").data)


def test_a_launch_is_estimated_and_its_results_compared():
    gpu = rates.gpu(GPUS["sm_90"])
    job = code.job_of_example(ROW, "sm_90")
    assert job.name == "saxpy 2048" and len(job.parameters) == 4
    image = estimates.ours(job, gpu)
    result = estimates.timed(image, job, gpu)
    assert result.estimate.entry == "saxpy" and result.microseconds > 0 and result.refusal == ""
    other = tileiras.compile(job.bytecode, gpu_name="sm_90", emit="cubin", entry="saxpy", num_warps=1)
    assert estimates.difference(image, other, job, gpu) == ""
    assert "parameter 1 differs by " in estimates.difference(image, estimates.ours(changed(job), gpu), job, gpu)


def test_nans_of_both_sides_are_equal():
    gpu = rates.gpu(GPUS["sm_90"])
    job = code.job_of_example(ROW, "sm_90")
    job.parameters[0][::2] = np.nan
    image = estimates.ours(job, gpu)
    assert estimates.difference(image, image, job, gpu) == ""
    # The other operand times itself has numbers in other places.
    assert "parameter 1 differs" in estimates.difference(image, estimates.ours(changed(job), gpu), job, gpu)


def test_an_image_without_an_estimate_is_a_row_without_a_time():
    gpu = rates.gpu("H200")
    job = code.job_of_example(ROW, "sm_90")
    result = estimates.timed(tileiras.compile(job.bytecode, gpu_name="sm_90", emit="cubin").data, job, gpu)
    assert result.microseconds is None and "does not have its PTX" in result.refusal


def row(gpu: str, ours: float, theirs: float, dots: bool = False, wrong: str = "") -> Ranked:
    result = [Taken(time, "DRAM", "", {"DRAM": 0.9}, {"global memory": 0.5}, "8 warps") for time in (ours, theirs)]
    return Ranked("kernel", gpu, dots, {"plain": result[0]}, result[1], wrong)


def test_means_are_geometric_and_by_kind():
    rows = [row("A100", 10, 20), row("A100", 40, 10, dots=True), row("H200", 30, 10, wrong="parameter 0 differs")]
    first, second = ranking.means(rows)
    assert first == (
        f"A100, plain: ours takes of the reference's time all {math.sqrt(2):.2f} (2), with dots 4.00 (1), "
        "streaming 0.50 (1)"
    )
    assert second == "H200, plain: ours takes of the reference's time all 3.00 (1), streaming 3.00 (1)"
    assert ranking.failures(rows) == ["results: kernel on H200: parameter 0 differs"]


def test_a_row_of_the_table_and_one_without_an_estimate():
    assert ranking.line(row("A100", 10, 20), True) == "| kernel | A100 | 10.0 | DRAM | 20.0 | DRAM | 0.50 |  |  |  |  |"
    missing = Ranked("kernel", "H200", True, {"plain": Taken(None, refusal="refused")}, None)
    assert missing.ratio("plain") is None
    assert ranking.line(missing, True).startswith("| kernel | H200 | - | refused | - |  | - |")
    assert ranking.failures([missing]) == ["no estimate: kernel on H200, plain: refused"]
    assert ranking.means([missing]) == ranking.worst([missing]) == []


def test_published_times_of_libraries_are_divisors():
    """750 TFLOP/s of 1.1e12 FLOP; rows with other numerics are marked and in no mean."""
    gpu, work = "H200", 2.0 * 8192**3
    divisor = libraries.divisor("matmul_bf16 8192x8192", gpu, work)
    assert divisor.library == "cuBLAS on H100" and divisor.microseconds == pytest.approx(work / 795e6)
    assert libraries.divisor("matmul_bf16 8192x8192", "L4", work) is None
    assert libraries.divisor("softmax 65536x1024", gpu, 0.0) is None
    causal, whole = (f"attention f16 1x32x8192x8192x128{kind}, 128x128" for kind in (" causal", ""))
    assert libraries.divisor(causal, gpu, work).microseconds > libraries.divisor(whole, gpu, work).microseconds
    like = row(gpu, 2 * divisor.microseconds, 10)._replace(library=divisor)
    other = row(gpu, 100, 10)._replace(name="f8", library=libraries.divisor("matmul_f8e4m3fn 8192x8192", gpu, work))
    assert ranking.library_means([like, other, row("A100", 1, 2)])[0] == "H200, plain: ours takes of the time of " \
        "libraries 2.00 (1)"
    assert "not in the mean: f8, DeepGEMM" in ranking.library_means([like, other])[1]
    assert ranking.line(other, True).endswith("(other numerics) |  |")
    assert "| cuBLAS on H100 |" in ranking.line(like, True)
    assert ranking.head(["plain"], True).split("\n")[1].count("---") == ranking.line(like, True).count(" |")


def test_the_worst_rows_list_waits_under_the_best_plan():
    slow, fast = Taken(30.0, "latency"), Taken(20.0, "L2", "", {"L2": 0.8}, {"barrier": 0.25}, "8 warps")
    two = Ranked("product", "H200", True, {"plain": slow, "boxes": fast}, Taken(10.0, "tensor"))
    first, ours, theirs, second, *_ = ranking.worst([row("H200", 15, 10), two])
    assert first == "2.00 product on H200" and second == "1.50 kernel on H200"
    assert ours == "  boxes: 20.0 us, L2; units L2 80%; waits barrier 25%; 8 warps" and "10.0 us" in theirs
    (line,) = ranking.best_plans([two])
    assert line == "H200, boxes: takes 0.67 of the time of plain where it is other code (1 of 1), faster in 1"


def test_a_plan_is_faster_only_for_all_values_of_the_parameters():
    """Which of the two takes longer depends on the rate of L2."""
    needs = [2.0, 0.0, 0.0, 0.0, 7.8, 0.0]
    near = Taken(9.8, "L2", needs=needs), Taken(10.0, "L2", needs=[10.0, *[0.0] * 5])
    far = Taken(5.0, "L2", needs=[1.0, 0.0, 0.0, 0.0, 4.0, 0.0])
    rows = [Ranked("k", "H200", False, {"plain": near[1], "boxes": other}, None) for other in (near[0], far)]
    (line,) = ranking.best_plans(rows)
    assert line.endswith("(2 of 2), faster in 1")


def test_gpus_use_tuned_configurations_and_one_cta_elsewhere():
    assert dict(code.configurations("B200"))["persistent_matmul"]["num_ctas"] == 2
    assert dict(code.configurations("H200"))["matmul"]["num_ctas"] == 2
    assert dict(code.configurations("A100"))["matmul"]["num_ctas"] == 1
    assert "batch_matmul" not in dict(code.configurations("A100"))  # no products of f8
    names = [task.name for task in code.tasks(["H200"], True)]
    assert len(names) == len(set(names)) and len(names) > 60
    assert len(list(code.tasks(["H200"], False))) == len(code.MEASURED)


class TestKeptRows:
    """An estimate of known code is read and not made."""

    def settings(self, path: Path, **plans: dict) -> code.Settings:
        return code.Settings(plans or {"plain": {}}, False, False, KeptRows(path))

    def task(self) -> code.Task:
        return code.Task("saxpy", "H200", lambda: code.job_of_example(ROW, "sm_90"))

    def test_a_second_run_estimates_nothing(self, tmp_path, monkeypatch):
        first = code.compare(self.task(), self.settings(tmp_path / "rows"))
        assert first.ours["plain"].microseconds > 0 and first.theirs is None and not first.dots
        monkeypatch.setattr(estimates, "timed", lambda *_: pytest.fail("was estimated again"))
        assert code.compare(self.task(), self.settings(tmp_path / "rows")) == first

    def test_other_code_and_another_model_are_estimated(self, tmp_path, monkeypatch):
        code.compare(self.task(), self.settings(tmp_path / "rows"))
        items = []
        monkeypatch.setattr(estimates, "timed", lambda *_: items.append(1) or Timed(None, "not made", 0.0))
        rows = code.compare(self.task(), self.settings(tmp_path / "rows", plain={}, few={"num_warps": 1}))
        assert items == [1] and rows.ours["few"].refusal == "not made" and rows.ours["plain"].microseconds > 0
        monkeypatch.setattr(code, "model_version", lambda: "another")
        code.compare(self.task(), self.settings(tmp_path / "rows"))
        assert items == [1, 1]

    def test_lines_that_were_cut_off_are_left_out(self, tmp_path):
        path = tmp_path / "rows"
        KeptRows(path).put("one", {"a": 1})
        with path.open("a") as file:
            file.write('{"key": "two", "val')
        kept_rows = KeptRows(path)
        assert kept_rows.get("one") == {"a": 1} and kept_rows.get("two") is None
        kept_rows.put("three", "")
        assert KeptRows(path).get("three") == "" and KeptRows(path).get("one") == {"a": 1}

    def test_rows_of_an_empty_name_are_in_no_file(self):
        KeptRows(rows_file("")).put("one", 1)
        assert KeptRows(rows_file("")).get("one") is None


def test_a_run_prints_rows_means_and_data(tmp_path, capsys):
    data = tmp_path / "rows.json"
    command = ["--gpus", "RTX PRO 6000", "--only", "saxpy", "--rows", "", "--json", str(data), "--unchecked"]
    assert code.main([*command, "--plans", "plain,none"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("| kernel | GPU | plain us | bound | none us | bound |")
    assert printed[2].startswith("| saxpy 16777216 | RTX PRO 6000 | ")
    (result,) = json.loads(data.read_text())
    assert set(result["ours"]) == {"plain", "none"} and result["ours"]["plain"]["microseconds"] > 10


def needing(microseconds: float, l2: float, refusal: str = "") -> Taken:
    """A time that L2 and latencies share."""
    needs = [l2, 0.0, 0.0, 0.0, microseconds - l2, 0.0]
    return Taken(None, refusal=refusal) if refusal else Taken(microseconds, "L2", needs=needs)


@pytest.mark.parametrize(("old", "new", "word"), [
    (needing(10, 10), needing(10, 10), ""), (needing(10, 10), needing(11, 11), "1.10 to 1.10 times"),
    (needing(11, 11), needing(10, 10), ""), (needing(10, 10), needing(10.05, 10.05), ""),
    # Which of the two takes longer depends on the rate of L2.
    (needing(10, 10), needing(10.2, 2), ""), (needing(10, 10), needing(0, 0, "no path"), "no path"),
    (needing(0, 0, "no path"), needing(10, 10), ""),
])  # fmt: skip
def test_a_row_is_worse_only_for_all_values_of_the_parameters(old, new, word):
    result = Ranked("kernel", "H200", False, {"plain": new}, None, "", {"plain": old})
    lines = ranking.worsened([result])
    assert len(lines) == bool(word) and all(word in line for line in lines)


def test_the_compiler_of_a_commit_runs_in_its_own_process(tmp_path):
    package = tmp_path / "tileiras"
    package.mkdir()
    package.joinpath("__init__.py").write_text("""
from types import SimpleNamespace as made
def compile(source, gpu_name, emit, entry, **options):
    if gpu_name == "sm_80":
        raise ValueError("old compilers say this\\nand more")
    return made(text=f"{source!r} {emit} {entry} {options}", kernels=[made(metadata={"gpu": gpu_name})])
""")
    job = Job("name", b"bytes", "k", (1,), [])
    result = against.compiled(tmp_path, job, rates.gpu("H200"), {"num_warps": 2})
    assert result == ("b'bytes' ptx k {'num_warps': 2}", {"gpu": "sm_90"})
    with pytest.raises(tileiras.CompileError, match="old compilers say this$"):
        against.compiled(tmp_path, job, rates.gpu("A100"), {})


def test_an_unknown_commit_is_an_error(capsys):
    assert code.main(["--gpus", "H200", "--only", "nothing", "--rows", "", "--against", "no-such-commit"]) == 2
    assert "--against=no-such-commit" in capsys.readouterr().err


def test_an_unknown_gpu_and_an_unknown_plan_are_named(capsys):
    assert code.main(["--gpus", "X9"]) == 2
    assert "X9" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        code.main(["--plans", "fast"])
    assert "unknown plan fast" in capsys.readouterr().err


def test_the_launches_of_the_benchmarks_are_as_their_names_say():
    gpu = rates.gpu("A100")
    assert len(FURTHER) > 20
    for name in ("fused MoE down", "silu and mul", "layer norm weights bf16", "attention decode grouped"):
        launch = FURTHER[name](gpu)
        assert all(extent > 0 for extent in launch.grid) and launch.flops >= 0 and launch.parameters()
    routed = FURTHER["fused MoE up"](gpu)
    places, owners = routed.values[4:6]
    assert len(places) == 128 * len(owners) and set(owners.tolist()) == set(range(16))
    assert sorted(place for place in places.tolist() if place < 440) == list(range(440))
