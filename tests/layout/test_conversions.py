"""Every conversion plan, simulated on element positions, must give the target layout."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileiras.layout import LinearLayout, blocked, convert, mma_layouts
from tileiras.layout.shared import MatrixAccess, plan_shared
from tileiras.support import gf2
from tileiras.targets import MMA_ATOMS


def wanted(layout, warps):
    return {
        (w, t): [layout.apply(register=r, lane=t, warp=w & (layout.warps - 1)) for r in range(layout.registers)]
        for w in range(warps)
        for t in range(32)
    }


def check(plan, src, dst):
    assert convert.simulate(plan, src, dst) == wanted(dst, max(src.warps, dst.warps))


@st.composite
def layouts(draw, bits, lane_bits=5, warp_bits=2, unit=False):
    """A random surjective layout of a one-dimensional tile: a random basis dealt to the inputs, with replication."""
    if unit:
        basis = draw(st.permutations([1 << i for i in range(bits)]))
    else:
        basis = []
        while len(basis) < bits:
            vector = draw(st.integers(1, (1 << bits) - 1))
            if gf2.rank([*basis, vector]) == len(basis) + 1:
                basis.append(vector)
            else:
                basis += gf2.complement(basis, bits)[:1]
    dealt = {"lane": [], "warp": [], "register": []}
    basis = list(basis)
    for name, count in (("lane", lane_bits), ("warp", warp_bits)):
        for _ in range(count):
            replicate = draw(st.integers(0, 3)) == 0 or not basis
            dealt[name].append(0 if replicate else basis.pop())
    dealt["register"] = basis + ([0] if draw(st.integers(0, 5)) == 0 else [])
    return LinearLayout(dealt, (1 << bits,))


@st.composite
def pairs(draw):
    bits = draw(st.integers(1, 8))
    unit = draw(st.booleans())
    return draw(layouts(bits, unit=unit)), draw(layouts(bits, unit=unit))


@settings(max_examples=40, deadline=None)
@given(pairs(), st.sampled_from([8, 16, 32, 64]))
def test_chosen_plan_gives_wanted_layout(pair, element_bits):
    src, dst = pair
    check(convert.plan_conversion(src, dst, element_bits), src, dst)


@settings(max_examples=30, deadline=None)
@given(pairs(), st.sampled_from([8, 16, 32, 64]))
def test_shared_plan_gives_wanted_layout(pair, element_bits):
    src, dst = pair
    check(plan_shared(src, dst, element_bits), src, dst)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_full_rank_pairs_inside_a_warp_have_a_shuffle_plan(data):
    registers = data.draw(st.integers(0, 4))
    bits = registers + 5
    permutations = st.permutations([1 << i for i in range(bits)])
    a, b = data.draw(permutations), data.draw(permutations)
    src = LinearLayout({"register": a[:registers], "lane": a[registers:]}, (1 << bits,))
    dst = LinearLayout({"register": b[:registers], "lane": b[registers:]}, (1 << bits,))
    sources = convert._find_sources(src, dst)
    plan = convert._shuffle(src, dst, sources)
    assert plan is not None
    check(plan, src, dst)


def test_mma_result_to_rows_of_four_takes_four_shuffles():
    src = LinearLayout.from_coordinates(
        {"register": [(0, 1), (8, 0)], "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]}, (16, 8)
    )
    dst = LinearLayout.from_coordinates(
        {"register": [(0, 1), (0, 2)], "lane": [(0, 4), (1, 0), (2, 0), (4, 0), (8, 0)]}, (16, 8)
    )
    plan = convert.plan_conversion(src, dst, 32)
    assert isinstance(plan, convert.WarpShuffle)
    assert plan.lane_map == (2, 4, 8, 16, 1)
    assert plan.shuffles(32) == 4 and len(plan.result_selects) == 1
    check(plan, src, dst)


def test_warp_transpose_of_full_registers_needs_31_butterflies():
    src = LinearLayout({"register": [1, 2, 4, 8, 16], "lane": [32, 64, 128, 256, 512]}, (32, 32))
    dst = LinearLayout({"register": [32, 64, 128, 256, 512], "lane": [1, 2, 4, 8, 16]}, (32, 32))
    plan = convert._shuffle(src, dst, convert._find_sources(src, dst))
    assert plan.identity_lane_map and plan.shuffles(32) == 31
    check(plan, src, dst)


def test_sub_word_elements_share_a_shuffle():
    src = LinearLayout.from_coordinates(
        {"register": [(0, 1), (0, 2), (8, 0), (0, 16)], "lane": [(0, 4), (0, 8), (1, 0), (2, 0), (4, 0)]}, (16, 32)
    )
    dst = LinearLayout.from_coordinates(
        {"register": [(0, 1), (8, 0), (0, 8), (0, 16)], "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]}, (16, 32)
    )
    plan = convert._shuffle(src, dst, convert._find_sources(src, dst))
    assert plan.shuffles(32) == 16
    assert plan.shuffles(8) in (4, 8)
    check(plan, src, dst)


def test_equal_up_to_register_order_moves_nothing():
    src = blocked((64, 64), (1, 4), (4, 8), (4, 1), (1, 0))
    dst = src.with_bases("register", src.bases("register")[::-1])
    assert convert.classify(src, dst) == "registers"
    assert convert.classify(src, src) == "none"


def test_replicated_source_needs_no_movement():
    """After a reduction all lanes of a row hold the result: any lane's slice can be read."""
    rows = blocked((64, 64), (1, 4), (4, 8), (4, 1), (1, 0)).slice(1)
    wanted_rows = LinearLayout(
        {**{d: rows.bases(d) for d in rows.dims}, "lane": (16, 32, 0, 1, 2), "register": ()}, (64,)
    )
    assert convert.classify(rows, wanted_rows) in ("shuffle", "registers")
    plan = convert.plan_conversion(rows, wanted_rows, 32)
    check(plan, rows, wanted_rows)
    assert plan.shuffles(32) == 0  # only selects: each lane already has the element in some register


def test_conflict_free_transpose_through_shared_memory():
    src = LinearLayout.from_coordinates(
        {
            "register": [(0, 1), (0, 2), (0, 4), (16, 0), (32, 0)],
            "lane": [(0, 8), (0, 16), (0, 32), (1, 0), (2, 0)],
            "warp": [(4, 0), (8, 0)],
        },
        (64, 64),
    )
    dst = LinearLayout.from_coordinates(
        {
            "register": [(1, 0), (2, 0), (4, 0), (0, 16), (0, 32)],
            "lane": [(8, 0), (16, 0), (32, 0), (0, 1), (0, 2)],
            "warp": [(0, 4), (0, 8)],
        },
        (64, 64),
    )
    plan = plan_shared(src, dst, 16)
    assert plan.store.degree == 1 and plan.load.degree == 1
    assert plan.bytes == 64 * 64 * 2
    check(plan, src, dst)
    assert measured_degree(plan, plan.store) == 1 and measured_degree(plan, plan.load) == 1


def test_matrix_fragments_are_loaded_by_rows():
    """A tile of halves in 16-byte rows to the A operand of m16n8k16, and to the B operand, which turns it around."""
    source = blocked((64, 32), (1, 8), (8, 4), (4, 1), (1, 0))
    a = LinearLayout.from_coordinates(
        {
            "register": [(0, 1), (8, 0), (0, 8), (0, 16)],
            "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)],
            "warp": [(16, 0), (32, 0)],
        },
        (64, 32),
    )
    b = LinearLayout.from_coordinates(
        {
            "register": [(1, 0), (8, 0), (16, 0), (32, 0), (0, 8), (0, 16)],
            "lane": [(2, 0), (4, 0), (0, 1), (0, 2), (0, 4)],
            "warp": [(0, 0), (0, 0)],
        },
        (64, 32),
    )
    for target, transposed, accesses in ((a, False, 2), (b, True, 8)):
        plan = plan_shared(source, target, 16)
        assert isinstance(plan.load, MatrixAccess)
        assert plan.load.form.transposed is transposed and len(plan.load.registers) == accesses
        assert plan.load.degree == 1 and plan.store.degree == 1 and plan.store.vector == 8
        check(plan, source, target)


def measured_degree(plan, access):
    """Worst number of distinct words on one bank within a wavefront, for warp 0."""
    lanes = 32 // max(1, access.vector * plan.element_bits // 32)
    worst = 0
    for start in range(0, 32, lanes):
        banks = {}
        for lane in range(start, start + lanes):
            byte = (gf2.apply(access.lane_map, lane) ^ access.offsets[0]) * plan.element_bits // 8
            for word in range(byte // 4, (byte + max(4, access.vector * plan.element_bits // 8)) // 4):
                banks.setdefault(word % 32, set()).add(word)
        worst = max(worst, max(len(words) for words in banks.values()))
    return worst


@settings(max_examples=30, deadline=None)
@given(st.data(), st.sampled_from([8, 16, 32, 64]))
def test_predicted_bank_conflicts_are_the_measured_ones(data, element_bits):
    bits = data.draw(st.integers(8, 12))
    src = data.draw(layouts(bits, unit=True))
    dst = data.draw(layouts(bits, unit=True))
    plan = plan_shared(src, dst, element_bits)
    if max(plan.store.vector, plan.load.vector) * element_bits < 32:
        return  # the formula holds once an access group fills a word
    for access in (plan.store, plan.load):
        if isinstance(access, MatrixAccess):
            continue
        assert measured_degree(plan, access) == access.degree


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([8, 16, 32]))
def test_stores_of_matrices_from_any_layout(data, element_bits):
    bits = data.draw(st.integers(7, 10))
    src, dst = data.draw(layouts(bits, unit=True)), data.draw(layouts(bits, unit=True))
    check(plan_shared(src, dst, element_bits, True), src, dst)


def test_fragments_of_halves_are_stored_as_matrices():
    c = mma_layouts(MMA_ATOMS["mma_m16n8k16_f32_f16_f16"], 64, 64, 16, (2, 2))[2]
    rows = blocked((64, 64), (1, 8), (4, 8), (4, 1), (1, 0))
    plan, without = plan_shared(c, rows, 16, True), plan_shared(c, rows, 16)
    check(plan, c, rows)
    assert isinstance(plan.store, MatrixAccess) and not isinstance(without.store, MatrixAccess)
    assert plan.access_cost() < without.access_cost() and plan.store.degree == plan.load.degree == 1


def test_large_tiles_are_converted_piece_by_piece():
    src = blocked((256, 256), (1, 4), (1, 32), (4, 1), (1, 0))
    dst = blocked((256, 256), (4, 1), (32, 1), (1, 4), (0, 1))
    rounds = convert.split_rounds(src, dst, 3)
    # Two tile bits are registers on both sides: the highest row and the highest column.
    assert len(rounds.parts) == 4 and plan_shared(rounds.source, rounds.target, 32).bytes == 256 * 256 * 4 // 4
    plan = convert.plan_conversion(rounds.source, rounds.target, 32)
    whole = {}
    for sources, source_conditions, targets, target_conditions in rounds.parts:
        assert not source_conditions and not target_conditions
        held = {(w, t): [src.apply(register=r, lane=t, warp=w) for r in sources] for w in range(4) for t in range(32)}
        for thread, values in plan.simulate(held, 4, 32).items():
            whole.setdefault(thread, {}).update(zip(targets, values))
    for (w, t), values in whole.items():
        assert all(values[r] == dst.apply(register=r, lane=t, warp=w) for r in range(dst.registers))
    assert convert.split_rounds(src, src.permute((1, 0)), 0) is None


def test_shapes_must_agree():
    with pytest.raises(ValueError, match="conversion between tiles"):
        convert.plan_conversion(LinearLayout({}, (1,)), LinearLayout({"register": [1]}, (2,)), 32)
