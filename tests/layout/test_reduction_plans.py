"""A reduction plan, run on sets of element positions, combines exactly the elements of each row, each once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileiras.layout import LinearLayout, blocked
from tileiras.layout.reduce import mixes_axes, plan_reduction
from tileiras.layout.shared import plan_shared


def simulate(layout, plan):
    threads = {(w, t): None for w in range(layout.warps) for t in range(32)}
    state = {}
    for w, t in threads:
        held = [[layout.apply(register=r, lane=t, warp=w)] for r in range(layout.registers)]
        state[w, t] = [[e for r in group for e in held[r]] for group in plan.register_groups]
    for bit in plan.lane_bits:
        state = {(w, t): [a + b for a, b in zip(v, state[w, t ^ (1 << bit)])] for (w, t), v in state.items()}
    if plan.shared is None:
        return state
    stage = plan.shared
    shared = plan_shared(stage.source, stage.target, 32)
    got = shared.simulate(state, layout.warps, 32)
    results = plan.result.registers
    return {
        thread: [[e for g in range(stage.groups) for e in values[r + g * results]] for r in range(results)]
        for thread, values in got.items()
    }


def check(layout, axis):
    plan = plan_reduction(layout, axis)
    rest = [n for a, n in enumerate(layout.shape) if a != axis]
    for (w, t), values in simulate(layout, plan).items():
        for r, elements in enumerate(values):
            where = list(plan.result.coordinates(plan.result.apply(register=r, lane=t, warp=w)))
            wanted = [layout.flatten([*where[:axis], i, *where[axis:]]) for i in range(layout.shape[axis])]
            assert sorted(elements) == sorted(wanted)
    assert plan.result.shape == tuple(rest)
    return plan


def test_rows_of_an_mma_result_reduce_in_four_lanes():
    layout = LinearLayout.from_coordinates(
        {
            "register": [(0, 1), (8, 0), (0, 8), (0, 16), (0, 32)],
            "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)],
            "warp": [(16, 0), (32, 0)],
        },
        (64, 64),
    )
    plan = check(layout, 1)
    assert plan.lane_bits == (0, 1) and plan.shared is None
    assert [len(g) for g in plan.register_groups] == [16, 16]
    assert plan.result.bases("register") == (8,) and plan.result.bases("lane") == (0, 0, 1, 2, 4)


def test_registers_combine_in_coordinate_order():
    layout = LinearLayout({"register": [4, 1, 2], "lane": [0] * 5}, (8,))
    (group,) = plan_reduction(layout, 0).register_groups
    assert [layout.apply(register=r) for r in group] == list(range(8))


def test_whole_tile_in_one_dimension_crosses_warps():
    plan = check(blocked((1024,), (4,), (32,), (4,), (0,)), 0)
    assert plan.shared is not None and plan.shared.groups == 4
    assert plan.result.shape == ()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_blocked_layouts(data):
    logs = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    rank = len(logs)

    def split(total):
        parts = [0] * rank
        for _ in range(total):
            parts[data.draw(st.integers(0, rank - 1))] += 1
        return [1 << p for p in parts]

    layout = blocked(
        [1 << n for n in logs],
        split(data.draw(st.integers(0, 2))),
        split(5),
        split(data.draw(st.integers(0, 2))),
        data.draw(st.permutations(range(rank))),
    )
    check(layout, data.draw(st.integers(0, rank - 1)))


def test_mixed_bases_are_refused():
    layout = LinearLayout({"register": [1, 2], "lane": [5, 8, 0, 0, 0], "warp": []}, (4, 4))
    assert mixes_axes(layout, 1)
    with pytest.raises(ValueError, match="mixes"):
        plan_reduction(layout, 1)
