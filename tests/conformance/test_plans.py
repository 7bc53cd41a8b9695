"""The runner of plans: its verdicts on right code, on wrong code, and on a refusal."""

import json

import plans
import pytest

from bench.plans import PLANS
from tileiras.sim.errors import SimulationError

pytest.importorskip("cuda.tile")

SMALL = "f16 64x64x64 ragged"


def test_kernels_and_random_loops_are_right_under_every_plan(capsys, tmp_path):
    figures = tmp_path / "figures"
    command = ["--match", SMALL, "--targets", "sm_90", "--random", "1", "--figures", str(figures)]
    assert plans.main(command) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("| plan | sm_90 |") and "0 failed" in printed
    lines = [json.loads(line) for line in figures.read_text().splitlines()]
    assert len(lines) == 2 * len(PLANS) and {line["status"] for line in lines} == {"equal"}
    result = {(line["plan"], name) for line in lines for name in line["features"]}
    assert {("boxes", "boxes"), ("agents", "agents"), ("plain", "cp.async"), ("plain", "wgmma")} <= result
    assert ("plain", "agents") not in result and ("agents", "boxes") not in result


@pytest.mark.slow
def test_random_nests_give_the_interpreters_results(capsys):
    assert plans.main(["--match", "none", "--nests", "2", "--targets", "sm_120", "--plans", "agents"]) == 0
    assert "| agents | 2 of 2 (" in capsys.readouterr().out


def test_code_that_was_judged_is_not_run_again(tmp_path, monkeypatch):
    figures = tmp_path / "figures"
    command = ["--match", SMALL, "--targets", "sm_90", "--plans", "plain", "--figures", str(figures)]
    assert plans.main(command) == 0
    with figures.open("a") as file:
        file.write('{"program": "a line that was interr')
    monkeypatch.setattr(plans, "_judge", lambda *_: pytest.fail("was run again"))
    assert plans.main(command) == 0


def test_wrong_code_is_a_failure(capsys, monkeypatch):
    def wrong(*_, **__):
        raise SimulationError("race on address 0x40")

    monkeypatch.setattr(plans, "emulate", wrong)
    assert plans.main(["--match", SMALL, "--targets", "sm_90", "--plans", "plain"]) == 1
    printed = capsys.readouterr().out
    assert "FAILED matmul f16 64x64x64 ragged 1x2 tiles [sm_90 plain] SimulationError" in printed
    assert "1 failed" in printed


def test_a_type_that_a_target_lacks_is_no_failure(capsys):
    assert plans.main(["--match", "f8e4m3fn 64x64x64", "--targets", "sm_80", "--plans", "plain"]) == 0
    assert "| plain | 0 of 0 () |" in capsys.readouterr().out


def test_an_unknown_plan_is_named(capsys):
    with pytest.raises(SystemExit):
        plans.main(["--plans", "fast"])
    assert "unknown plan fast: accepted are default, none, plain, boxes" in capsys.readouterr().err


def test_the_compute_agent_leaves_smem_to_the_load_agent():
    """The conversion's scratch area would take all memory beside the rings: it has rounds, with four warps."""
    (kernel,) = (each for each in plans.tiled() if each.name == "moe 128x128x64")
    program = plans.of_tiles(kernel)._replace(options={"num_warps": 4})
    (result,) = plans.outcomes(program, "sm_120", ["agents-boxes"], 1, {})
    assert result.status == "equal" and {"agents", "boxes"} <= set(result.features)
