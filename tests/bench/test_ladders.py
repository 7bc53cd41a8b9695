"""Published ladders: halves by name, sources by digest, figures of the comparison."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pytest

from bench import figures, ladder_launches, ladder_validation
from bench.halves import calibrates, xxh64
from bench.ladder_validation import Rung
from bench.ladders import DIGESTS, LADDERS
from tileiras.sim import Memory
from tileiras.sim.estimate import uncertainty
from tileiras.sim.estimate.uncertainty import Needs
from tileiras.targets import rates


@pytest.mark.parametrize(
    "text, digest",
    # Of the reference implementation.
    [("", 0xEF46DB3751D8E999), ("a", 0xD24EC4F1A98C6E5B), ("abc", 0x44BC2CF5AD770999),
     ("Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1)],
)  # fmt: skip
def test_the_digest_of_a_name(text, digest):
    assert xxh64(text.encode()) == digest


def test_every_step_names_a_gpu_a_digest_and_its_arguments():
    assert len({ladder.name for ladder in LADDERS}) == len(LADDERS)
    for ladder in LADDERS:
        assert rates.gpu(ladder.gpu).name == ladder.gpu
        assert ladder.arguments in ladder_launches.ARGUMENTS
        assert all(f"{ladder.repository.folder}/{step.path}" in DIGESTS for step in ladder.steps)
        assert all(1 < ladder.microseconds(step) < 1e6 for step in ladder.steps)
    assert {calibrates(ladder.name) for ladder in LADDERS} == {True, False}


def test_a_source_with_another_digest_is_refused(tmp_path):
    ladder = LADDERS[0]
    step = ladder.steps[0]
    with pytest.raises(ladder_launches.NoSource, match="a checkout of pranjalssh/fast.cu"):
        ladder_launches.compiled(ladder, step, tmp_path)
    path = tmp_path / ladder.repository.folder / step.path
    path.parent.mkdir(parents=True)
    path.write_text("__global__ void matmulKernel3() {}\n")
    with pytest.raises(ladder_launches.NoSource, match="is not that of"):
        ladder_launches.compiled(ladder, step, tmp_path)


def test_maps_of_a_step_describe_its_boxes():
    ladder = next(each for each in LADDERS if each.arguments == "hopper_product")
    memory = Memory()
    for step in ladder.steps:
        launch = ladder_launches.hopper_product(step, memory)
        maps = [bytes(each) for each in launch if isinstance(each, bytes) or getattr(each, "nbytes", 0) == 128]
        boxes = [ladder_launches.tensor_map.decode(each).box for each in maps]
        assert (64, 128) in [box[:2] for box in boxes] and (64, step.tile[1]) in [box[:2] for box in boxes]


def rung(published: float, estimated: float | None, ladder: int = 0, low: float = 0.0, high: float = 1e9,
         doubt: str = "") -> Rung:  # fmt: skip
    result = LADDERS[ladder]
    step = result.steps[0]._replace(published=1.0)
    step = step._replace(published=result.microseconds(step) / published)
    return Rung(result, step, estimated, "L2", 0.0, low, high, doubt)


def test_uncertain_rows_and_rows_without_estimate_are_left_out():
    text = figures.lines([each.compared for each in (rung(100, 110), rung(100, 300, doubt="path"), rung(100, None))])[0]
    assert "without doubt 1 of 3" in text and "mean 10.0%" in text


def test_the_order_is_that_of_pairs_of_one_ladder():
    rows = [rung(100, 90), rung(150, 120), rung(210, 100), rung(10, 500, ladder=2)]
    right, pairs, tau = figures.order([each.compared for each in rows])
    assert (right, pairs) == (2, 3) and tau == pytest.approx(1 / 3)


def test_coverage_counts_published_times_inside_of_the_interval():
    rows = rung(100, 110, low=95, high=120), rung(100, 130, low=120, high=140)
    assert "cover 1 of 2" in figures.lines([each.compared for each in rows])[0]


def test_the_residual_is_the_least_that_holds_four_fifths():
    """Of nine ladders the eighth by distance: one may be outside of the interval, at any distance, and a ladder of many
    steps counts once."""
    time, needs = 100.0, Needs(0.0, 0.0, 0.0, 100.0, 0.0, 0.0)
    wide = uncertainty.interval(needs, rates.gpu("H100"), 0.2)[1] - 0.01
    one = rung(time, time)._replace(needs=needs).compared
    rows = [one._replace(task=f"{number}", published=each) for number, each in
            enumerate([*[time] * 7, wide, 5 * time])]  # fmt: skip
    assert figures.residual(rows) == 0.2
    assert figures.residual([*rows, *[rows[0]] * 90]) == 0.2
    # Of the steps of a ladder a fifth may be outside.
    assert figures.residual([*rows, *[rows[7]._replace(published=time)] * 4]) == 0.0
    assert figures.residual(rows[:-1]) == 0.2 and figures.residual(rows[:7]) == 0.0
    assert figures.residual(rows[-1:]) is None


def test_the_summary_has_the_residual_of_the_calibrating_half():
    calibrating = [number for number, ladder in enumerate(LADDERS) if calibrates(ladder.name)]
    needs = Needs(0.0, 0.0, 0.0, 100.0, 0.0, 0.0)
    rows = [rung(100, 100, number)._replace(needs=needs) for number in calibrating]
    assert any("from a residual of 0%" in line for line in ladder_validation.summary(rows))
