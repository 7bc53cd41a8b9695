"""Coverage by decision: pairs that count, pairs that cannot occur, and draws that prefer missing pairs."""

from __future__ import annotations

import random

from tests.generator import covered, ledger, seek
from tests.generator.covered import Pair
from tests.generator.decisions import ROWS, Watch, label
from tests.generator.forms import FORMS
from tests.generator.judge import Verdict, draw, judge
from tests.generator.options import Weights
from tests.kernels.batches import product
from tests.kernels.views import trip_counts
from tileiras.schedule.strategy import Loads, Strategy
from tileiras.stages.tileas import DECISIONS


def verdict(number: int, decisions: tuple[str, ...], target: str = "sm_90", maps: str = "host", **given) -> Verdict:
    right = Verdict(number, "softmax", f"{target} ()", "right", "", 0.1, "rows", maps, "auto", decisions)
    return right._replace(**given)


def test_rows_that_change_a_module_are_seen():
    """With schedules a product has a ring, without them none; the rows are those that ran, in their order."""
    number = next(number for number in range(200) if draw(number, ("split K",)).build.options == {})
    case = draw(number, ("split K",))
    with_ring = judge(case._replace(build=case.build._replace(gpu_name="sm_80", hints=()))).decisions
    options = {"pipeline_strategy": "none"}
    serial = judge(case._replace(build=case.build._replace(gpu_name="sm_80", hints=(), options=options))).decisions
    assert "tileas-unspecialized-pipeline" in with_ring and "tileas-unspecialized-pipeline" not in serial
    for rows in (with_ring, serial):
        assert "convert-tileaa-to-tileas" in rows and "tileas-plan-cta" not in rows
        assert sorted(rows, key=ROWS.index) == list(rows)


def test_rows_of_one_pass_differ_by_options():
    """The first row has the default of its option, which a pipeline does not spell."""
    watch = Watch()
    registers, shared = (row for row in DECISIONS if row.name == "tileas-lower-occupancy")
    for row in (registers, shared):
        watch.spelled = row.pass_class(**row.options).spelled()
        assert ROWS[watch._row(row.name)] == label(row)
        watch._at = DECISIONS.index(row) + 1


def test_every_row_has_a_label_of_its_own():
    assert len(set(ROWS)) == len(ROWS)


def test_pairs_are_counted_and_impossible_ones_have_a_reason():
    counts = covered.counted([verdict(0, ("tileas-slicing",)), verdict(1, ("tileas-slicing",), "sm_80", "none")])
    assert counts.count(Pair("tileas-slicing", "target", "sm_80")) == 1
    assert counts.count(Pair("tileas-slicing", "strategy", "auto")) == 2
    missing = counts.missing()
    assert Pair("tileas-slicing", "target", "sm_100") in missing
    assert Pair("tileas-slicing", "target", "sm_90") not in missing
    assert Pair("tileas-pair-dots", "target", "sm_80") not in missing
    assert "tcgen05" in covered.reason(Pair("tileas-pair-dots", "target", "sm_80"))
    assert not covered.reason(Pair("tileas-pair-dots", "target", "sm_100"))
    assert covered.contradicted(counts) == []
    wrong = covered.counted([verdict(0, ("tileas-pair-dots",), "sm_80")])
    assert covered.contradicted(wrong) == [Pair("tileas-pair-dots", "target", "sm_80")]


def test_only_one_strategy_leaves_agents_to_a_rule():
    """Those that take alternate tiles: no operation of the language requests them."""
    for loads in Loads:
        strategy = Strategy(loads)
        name = strategy.options()["pipeline_strategy"]
        assert strategy.is_by_rule != bool(covered.reason(Pair("tileas-ping-pong", "strategy", name)))


def test_batches_are_sliced_where_the_reasons_allow_it():
    kernel = product((2, 64, 64, 32))
    for target in covered.AXES["target"]:
        is_sliced = trip_counts(kernel.after("tileas-slice-batches", target)) == [2, 3]
        assert is_sliced != bool(covered.reason(Pair("tileas-slice-batches", "target", target)))


def test_the_committed_counts_contradict_no_reason():
    assert covered.contradicted(covered.read()) == []


def test_draws_favour_missing_pairs():
    """Only kernels of one family have loads that sink, and not on sm_120."""
    row, without = "tileas-sink-loads", tuple(each for each in ROWS if each != "tileas-sink-loads")
    every = [
        verdict(0, ROWS if family == "rows" and target != "sm_120" else without, target, maps, strategy=strategy,
                family=family)
        for target in covered.AXES["target"] for maps in covered.AXES["maps"] for strategy in covered.AXES["strategy"]
        for family in FORMS
    ]  # fmt: skip
    counts = covered.counted(every)
    assert counts.missing() == [Pair(row, "target", "sm_120")]
    weights = covered.weights(counts)
    assert weights.targets == {"sm_120": covered.STRONGEST} and not weights.maps and not weights.strategies
    assert weights.forms["rows"] == covered.STRONGEST > 3 * weights.forms["product"]
    result = [draw(number, weights=weights) for number in range(200)]
    plain = [draw(number, weights=Weights()) for number in range(200)]
    for is_wanted in (lambda case: case.build.gpu_name == "sm_120", lambda case: case.family == "rows"):
        assert sum(map(is_wanted, result)) > 1.5 * sum(map(is_wanted, plain))


def test_cases_for_a_missing_pair_are_sought():
    """Only products split along K have had a ring, and none on sm_80: a case of theirs is judged."""
    row = "tileas-unspecialized-pipeline"
    every = [
        verdict(0, ROWS if family == "split K" and target != "sm_80" else tuple(each for each in ROWS if each != row),
                target, maps, strategy=strategy, family=family)
        for target in covered.AXES["target"] for maps in covered.AXES["maps"] for strategy in covered.AXES["strategy"]
        for family in ("split K", "rows")
    ]  # fmt: skip
    counts = covered.counted(every)
    assert seek.families(counts, row) == ("split K",) and counts.missing() == [Pair(row, "target", "sm_80")]
    (result,) = seek.seek(counts, 60, seed=0)
    assert result.pairs == (Pair(row, "target", "sm_80"),) and "--targets sm_80" in result.command
    assert result.verdict.status == "right" and row in result.verdict.decisions


def test_a_pair_is_sought_where_its_row_can_be():
    """Alternate agents: on the target with `wgmma`, under the strategy that leaves them to a rule."""
    pair = Pair("tileas-ping-pong", "maps", "host")
    cases = [seek._drawn(seek._Kernel(number, ("persistent",)), pair) for number in range(20)]
    builds = {(case.build.gpu_name, case.build.maps, case.build.strategy) for case in cases if case is not None}
    assert builds == {("sm_90", "host", "auto")}


def test_products_in_one_step_copy_operands_at_once():
    """Each has a number of warps under which a thread lacks registers for an operand; most tiles are at that bound."""
    cases = [draw(number, ("one step",)) for number in range(20)]
    assert all(case.build.options["num_warps"] in case.kernel.warps for case in cases)
    plain = [case for case in cases if not case.build.hints and "opt_level" not in case.build.options]
    rows = {pair.decision for case in plain for pair in seek._pairs(case)}
    assert "tileas-smem-operands outside-loops" in rows


def test_counts_are_added_and_kept(tmp_path):
    first = covered.counted([verdict(0, ("cse",))])
    second = covered.counted([verdict(1, ("cse", "dce")), verdict(2, (), status="internal")])
    covered.write(covered.added(first, second), tmp_path / "counts.json")
    counts = covered.read(tmp_path / "counts.json")
    assert counts.target["sm_90"] == {"cases": 2, "cse": 2, "dce": 1}


def test_a_run_is_a_line_of_the_ledger(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("| a |\n|---|\n\n<!-- end of ledger -->\nBehind it.\n")
    verdicts = [verdict(5, ("cse",)), verdict(7, (), status="wrong"), verdict(6, ("cse",), "sm_80")]
    random.Random(1).shuffle(verdicts)
    ledger.append(verdicts, "0123abcd+", page)
    ledger.append(verdicts, "0123abcd+", page)
    lines = page.read_text().splitlines()
    assert lines[2] == lines[3] and lines[-1] == "Behind it."
    assert lines[2] == "| 0123abcd+ | 5 to 7 | 3 | sm_80, sm_90 | 2 | 0 | 1 | 0 | 0 | 0 | 0 | 0 |"
