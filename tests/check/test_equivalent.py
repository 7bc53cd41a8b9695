"""Proofs that a planted fault is not one, on small PTX texts: each with a text for which there is no proof."""

from __future__ import annotations

import pytest

import tileiras
from tests.check import equivalent
from tests.check.equivalent import place_of
from tests.check.faults import Fault, faults
from tests.check.specimens import EXAMPLES
from tests.check.undefined import NOTHING, Undefined
from tileiras.check.facts import Facts, Parameter, facts
from tileiras.ir import IntegerType
from tileiras.stages.units import entries_of

pytest.importorskip("z3")
from tests.check.solved import solved  # noqa: E402

# A block goes over tiles of 64 elements of an array, whose number is a parameter.
TILES = """
.visible .entry k(
	.param .u64 k_param_0,
	.param .u32 k_param_1
)
.reqntid 64
{
	ld.param.b64 	%rd1, [k_param_0];
	ld.param.b32 	%r1, [k_param_1];
	mov.u32 	%r2, %ctaid.x;
	mov.u32 	%r3, %nctaid.x;
	mov.u32 	%r4, %tid.x;
	shr.u32 	%r5, %r1, 6;
	and.b32 	%r6, %r1, 63;
	setp.ne.b32 	%p1, %r6, 0;
	selp.b32 	%r7, 1, 0, %p1;
	add.s32 	%r8, %r5, %r7;
	setp.ge.u32 	%p2, %r2, %r8;
	@%p2 bra 	$L__BB0_2;
$L__BB0_1:
	shl.b32 	%r9, %r2, 6;
	or.b32 	%r10, %r9, %r4;
	setp.lt.u32 	%p3, %r10, BOUND;
	mul.wide.u32 	%rd2, %r10, 4;
	add.s64 	%rd3, %rd1, %rd2;
	@%p3 st.global.b32 	[%rd3], %r4;
	add.s32 	%r2, %r2, %r3;
	setp.lt.s32 	%p4, %r2, %r8;
	@%p4 bra 	$L__BB0_1;
$L__BB0_2:
	ret;

}
"""
# All lanes of a warp have its sum.
SUM = """
.visible .entry k(
	.param .u64 k_param_0
)
.reqntid 64
{
	ld.param.b64 	%rd1, [k_param_0];
	mov.u32 	%r1, %tid.x;
	and.b32 	%r2, %r1, 31;
	setp.eq.b32 	%p1, %r2, 0;
	mul.wide.u32 	%rd2, %r1, 4;
	add.s64 	%rd3, %rd1, %rd2;
	ld.global.b32 	%r3, [%rd3];
	shfl.sync.bfly.b32 	%r4, %r3, 16, 31, -1;
	add.rn.f32 	%r5, %r3, %r4;
	shfl.sync.bfly.b32 	%r6, %r5, 8, 31, -1;
	add.rn.f32 	%r7, %r5, %r6;
	shfl.sync.bfly.b32 	%r8, %r7, 4, 31, -1;
	add.rn.f32 	%r9, %r7, %r8;
	shfl.sync.bfly.b32 	%r10, %r9, 2, 31, -1;
	add.rn.f32 	%r11, %r9, %r10;
	shfl.sync.bfly.b32 	%r12, %r11, 1, 31, -1;
	add.rn.f32 	%r13, %r11, %r12;
	shr.u32 	%r14, %r1, 5;
	shl.b32 	%r15, %r14, 2;
	@%p1 st.shared.b32 	[%r15], VALUE;
	ret;

}
"""


# A loop counts from a number to a parameter, and reads an element of an array in each trip.
COUNTED = """
.visible .entry k(
	.param .u64 k_param_0,
	.param .u32 k_param_1
)
.reqntid 64
{
	ld.param.b64 	%rd1, [k_param_0];
	ld.param.b32 	%r1, [k_param_1];
	ld.global.b32 	%r5, [%rd1];
	mov.b64 	%rd5, {%r5, %r1};
	mov.b64 	{_, %r6}, %rd5;
	setp.lt.s32 	%p1, %r1, 1;
	@%p1 bra 	$L__BB0_3;
	mov.b32 	%r2, FIRST;
$L__BB0_1:
	mul.wide.s32 	%rd2, %r2, 4;
	add.s64 	%rd3, %rd1, %rd2;
	ld.global.b32 	%r3, [%rd3];
	STEP;
	setp.eq.b32 	%p2, %r2, %r6;
	@%p2 bra 	$L__BB0_3;
	bra.uni 	$L__BB0_1;
$L__BB0_3:
	mul.wide.s32 	%rd4, %r5, 4;
	add.s64 	%rd6, %rd1, %rd4;
	st.global.b32 	[%rd6], %r1;
	ret;

}
"""


def proof(ptx: str, kind: str, line: str, numbers: frozenset[int] = frozenset()) -> str:
    known = Facts([Parameter(0, "pointer", None), Parameter(1, "size", IntegerType(32), low=0)], [], [])
    (fault,) = [each for each in faults(ptx, kind) if line in each.line]
    assert isinstance(fault, Fault)
    return solved(fault, ptx, place_of(fault, ptx), known, NOTHING._replace(numbers=numbers))


@pytest.mark.parametrize(("first", "step", "is_same"), [
    ("0", "add.s32 	%r2, %r2, 1", True),
    ("1", "add.s32 	%r2, %r2, 1", False),  # it may begin at its end, and then counts through all numbers
    ("0", "add.s32 	%r2, %r2, %r3", False),
])  # fmt: skip
def test_signs_of_the_counters_of_loops(first, step, is_same):
    ptx = COUNTED.replace("FIRST", first).replace("STEP", step)
    assert bool(proof(ptx, "type", "%rd2")) == is_same


@pytest.mark.parametrize("numbers", [frozenset(), frozenset({0})])
def test_signs_of_the_numbers_of_tiles(numbers):
    """A tile with a negative number is entirely outside of its view."""
    assert bool(proof(COUNTED, "type", "%rd4", numbers)) == bool(numbers)


@pytest.mark.parametrize("bound, is_dead", [("%r1", True), ("%r3", False)])
def test_a_further_trip_whose_stores_are_masked(bound, is_dead):
    assert bool(proof(TILES.replace("BOUND", bound), "trip count", "%p4")) == is_dead


@pytest.mark.parametrize("value, is_same", [("%r13", True), ("%r11", False)])
def test_another_lane_stores_the_same(value, is_same):
    assert bool(proof(SUM.replace("VALUE", value), "predicate", "st.shared")) == is_same


# Threads of the last two of four warps read the same elements as those of the first two, which store them.
TWINS = """
.visible .entry k(
	.param .u64 k_param_0,
	.param .u32 k_param_1
)
.reqntid 128
{
	ld.param.b64 	%rd1, [k_param_0];
	ld.param.b32 	%r9, [k_param_1];
	mov.u32 	%r1, %tid.x;
	and.b32 	%r2, %r1, 64;
	setp.eq.b32 	%p1, %r2, 0;
	and.b32 	%r3, %r1, PLACE;
	mov.b32 	%r5, 0;
	mov.b32 	%r6, 0;
$L__BB0_1:
	add.s32 	%r7, %r3, %r5;
	mul.wide.u32 	%rd2, %r7, 4;
	add.s64 	%rd3, %rd1, %rd2;
	setp.lt.u32 	%p2, %r7, %r9;
	@%p2 ld.global.b32 	%r6, [%rd3];
	shfl.sync.bfly.b32 	%r8, %r6, 16, 31, -1;
	add.s32 	%r5, %r5, 1;
	setp.lt.u32 	%p3, %r5, LAST;
	@%p3 bra 	$L__BB0_1;
	shl.b32 	%r4, %r3, 2;
	@%p1 st.shared.b32 	[%r4], %r8;
	ret;

}
"""


@pytest.mark.parametrize(("place", "last", "read_only", "is_same"), [
    ("63", "%r9", {0}, True), ("127", "%r9", {0}, False), ("63", "%r1", {0}, False), ("63", "%r9", set(), False),
])  # fmt: skip
def test_another_warp_stores_the_same(place, last, read_only, is_same):
    """Not where the place, the trips of the loop or other tile blocks' stores make a difference."""
    ptx = TWINS.replace("PLACE", place).replace("LAST", last)
    known = Facts([Parameter(0, "pointer", None), Parameter(1, "size", IntegerType(32))], [], [])
    (fault,) = (each for each in faults(ptx, "predicate") if "st.shared" in each.line)
    undefined = NOTHING._replace(read_only=frozenset(read_only))
    assert bool(solved(fault, ptx, place_of(fault, ptx), known, undefined)) == is_same


def test_signs_of_numbers_without_a_sign():
    ptx = TILES.replace("BOUND", "%r1")
    assert proof(ptx.replace("shr.u32 	%r5", "shr.s32 	%r5"), "type", "%r5, %r1")
    assert not proof(ptx.replace("setp.lt.u32 	%p3, %r10", "setp.lt.u32 	%p3, %r1"), "mask bound", "%p3")


@pytest.mark.parametrize(("from_type", "is_same"), [("u32", True), ("s32", False)])
def test_signs_of_products_of_powers(from_type, is_same):
    """The sign of another number decides where the product of a power and a number has none."""
    ptx = TILES.replace("BOUND", "%r1").replace("	add.s32 	%r2, %r2, %r3;", f"""	ex2.approx.f32 	%r20, %r10;
	cvt.rn.f32.{from_type} 	%r21, %r10;
	mul.rn.f32 	%r22, %r20, %r21;
	xor.b32 	%r23, %r10, %r22;
	setp.lt.s32 	%p5, %r23, 0;
	@%p5 st.global.b32 	[%rd3], %r4;
	add.s32 	%r2, %r2, %r3;""")
    assert bool(proof(ptx, "swizzle", "%r23")) == is_same


@pytest.mark.parametrize(("number", "is_same"), [("%r2", True), ("%r3", False)])
def test_signs_of_numbers_of_other_lanes(number, is_same):
    ptx = SUM.replace("	shr.u32 	%r14", f"	shfl.sync.bfly.b32 	%r16, {number}, 1, 31, -1;\n"
                      "	setp.lt.s32 	%p2, %r16, %r2;\n	shr.u32 	%r14").replace("VALUE", "%r13")  # fmt: skip
    (fault,) = [each for each in faults(ptx, "type") if "%p2" in each.line]
    assert bool(equivalent.by_rule(fault, ptx, Facts([], [], []))) == is_same


@pytest.mark.parametrize(("opcode", "is_same"), [("xor", True), ("sub", False)])
def test_signs_of_magnitudes(opcode, is_same):
    """A number and the mask of its sign: their exclusive or has no sign; where it becomes a float, its type is all."""
    ptx = TILES.replace("	ret;", f"""	ld.global.b64 	%rd20, [%rd1];
	shr.s64 	%rd21, %rd20, 63;
	{opcode}.{"b" if opcode == "xor" else "s"}64 	%rd22, %rd20, %rd21;
	cvt.rn.f64.s64 	%rd23, %rd22;
	ret;""")
    assert bool(proof(ptx, "type", "%rd23")) == is_same


@pytest.mark.parametrize(("bits", "is_same"), [("8", True), ("16", False)])
def test_extensions_of_bytes_that_a_store_drops(bits, is_same):
    """The byte is zero where the load is masked."""
    ptx = TILES.replace("	ret;", f"""	mov.b16 	%rs1, 0;
	@%p1 ld.global.b8 	%rs1, [%rd1];
	cvt.u32.u16 	%r20, %rs1;
	and.b32 	%r21, %r20, {(1 << int(bits)) - 1};
	st.global.b32 	[%rd3], %r21;
	ret;""")
    assert bool(proof(ptx, "type", "ld.global.b8")) == is_same


@pytest.mark.parametrize(("elements", "is_same"), [(64, True), (32, False)])
def test_a_tile_block_whose_tile_begins_at_the_end(elements, is_same):
    """A tile of 64 elements is outside of its view then; a tile of 32 begins earlier."""
    ptx = TILES.replace("BOUND", "%r1").replace("	ret;", """	mov.u32 	%r20, %ctaid.x;
	mul.lo.s32 	%r21, %r20, 64;
	setp.lt.u32 	%p5, %r21, %r1;
	@%p5 st.global.b32 	[%rd3], %r4;
	ret;""")
    (fault,) = [each for each in faults(ptx, "mask bound") if "%p5" in each.line]
    undefined = NOTHING._replace(spans=frozenset({(0, 1, elements)}))
    known = Facts([Parameter(0, "pointer", None), Parameter(1, "size", IntegerType(32), low=0)], [], [])
    assert bool(solved(fault, ptx, place_of(fault, ptx), known, undefined)) == is_same


@pytest.mark.parametrize(("selector", "is_same"), [("0x3340U", True), ("0x7610U", False)])
def test_bytes_that_a_permutation_drops(selector, is_same):
    ptx = TILES.replace("	ret;", f"""	ld.global.b8 	%rs1, [%rd1];
	cvt.u32.u16 	%r20, %rs1;
	prmt.b32 	%r21, %r4, %r20, {selector};
	st.global.b32 	[%rd3], %r21;
	ret;""")
    assert bool(proof(ptx, "type", "cvt.u32.u16")) == is_same


@pytest.mark.parametrize(("read_only", "is_same"), [({0}, True), (set(), False)])
def test_a_barrier_past_a_load_of_an_array_that_is_only_read(read_only, is_same):
    load, update = "	ld.global.b32 	%r20, [%rd1];\n", "	atom.global.add.u32 	%r21, [%rd9], 1;\n"
    ptx = TILES.replace("	ret;", f"	bar.sync 	0;\n{load}{update}	ret;")
    every = [each for each in faults(ptx, "order moved") if "moved past ld.global" in each.changed]
    known = NOTHING._replace(read_only=frozenset(read_only))
    assert [bool(equivalent.by_rule(each, ptx, Facts([], [], []), known)) for each in every] == [is_same]


@pytest.mark.parametrize(("behind", "is_same"), [
    ("", True), ("	st.global.b32 	[%rd1], %r4;\n", False), ("	st.shared.b32 	[%r4], %r20;\n", False),
])  # fmt: skip
def test_an_update_that_orders_no_other_access(behind, is_same):
    """Another write, or a use of the old value, may tell its order."""
    update = "	atom.acq_rel.gpu.global.add.u32 	%r20, [%rd1], 1;\n"
    ptx = TILES.replace("	@%p3 st.global.b32 	[%rd3], %r4;\n", "").replace("	ret;", f"{update}{behind}	ret;")
    weaker = update.strip().replace("acq_rel", "acquire").rstrip(";")
    fault = Fault(ptx.replace("atom.acq_rel", "atom.acquire"), "order weakened", update.strip(), weaker)
    assert bool(equivalent.by_rule(fault, ptx, Facts([], [], []))) == is_same


@pytest.mark.parametrize(("before", "behind", "is_same"), [
    ("fence.proxy.async.shared::cta;\n	bar.sync 	0;", "", True),
    ("fence.proxy.async.global;\n	bar.sync 	0;", "", False), ("bar.sync 	0;", "", False),
    ("@%p3 fence.proxy.async.shared::cta;\n	bar.sync 	0;", "", False),
    ("fence.proxy.async.shared::cta;\n	bar.sync 	0;", "	barrier.cluster.arrive.relaxed;\n", False),
])  # fmt: skip
def test_initialised_barriers_behind_another_fence(before, behind, is_same):
    ptx = TILES.replace("	@%p2 bra 	$L__BB0_2;\n", f"""	setp.ne.s32 	%p9, %r4, 0;
	@%p9 bra 	$L__BB0_3;
	mbarrier.init.shared.b64 	[%r20], 1;
	fence.mbarrier_init.release.cluster;
$L__BB0_3:
	{before}
	@%p9 bra 	$L__BB0_1;
	tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r20];
{behind}""")
    every = [each for each in faults(ptx, "order deleted") if each.line.startswith("fence.mbarrier_init")]
    assert [bool(equivalent.by_rule(each, ptx, Facts([], [], []))) for each in every] == [is_same]


@pytest.mark.parametrize(("copy", "is_same"), [
    ("global.shared::cta.tile.bulk_group [%rd21, {%r4, %r4}], [%r4]", True),
    ("shared::cta.global.tile.mbarrier::complete_tx::bytes [%r4], [%rd21, {%r4, %r4}], [%r4]", False),
])  # fmt: skip
def test_the_fill_mode_of_a_map_that_only_stores_use(copy, is_same):
    ptx = TILES.replace("	ret;", f"""	cvt.u32.u64 	%r20, %rd20;
	add.s32 	%r21, %r20, 128;
	tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%r21], 0;
	tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd22], [%r21], 128;
	cvta.global.u64 	%rd21, %rd22;
	cp.async.bulk.tensor.2d.{copy};
	ret;""")
    (fault,) = faults(ptx, "map field")
    assert bool(equivalent.by_rule(fault, ptx, Facts([], [], []))) == is_same


@pytest.mark.parametrize(("threads", "is_same"), [(32, True), (64, False), (320, False)])
def test_the_barrier_of_a_block_of_one_warp(threads, is_same):
    ptx = TILES.replace(".reqntid 64", f".reqntid {threads}").replace("	ret;", "	bar.sync 	0;\n	ret;")
    (fault,) = faults(ptx, "order weakened")
    assert fault.changed == "bar.warp.sync -1" and bool(equivalent.proof(fault, ptx, Facts([], [], []))) == is_same


@pytest.mark.parametrize(("last", "is_same"), [(1, True), (2, False)])
def test_versions_of_loads_of_a_whole_tile(last, is_same):
    """Where 128 elements are there, no load of a pair is masked; one that a further element masks is another one."""
    ptx = TILES.replace("BOUND", "%r1").replace("	ret;", f"""	shl.b32 	%r20, %r4, 1;
	mul.wide.u32 	%rd20, %r20, 4;
	add.s64 	%rd21, %rd1, %rd20;
	setp.lt.u32 	%p5, %r1, 128;
	@%p5 bra 	$L__BB0_3;
	ld.global.v2.b32 	{{%r21, %r22}}, [%rd21];
	bra.uni 	$L__BB0_4;
$L__BB0_3:
	sub.s32 	%r23, %r1, %r20;
	setp.gt.s32 	%p6, %r23, 0;
	mov.b32 	%r21, 0;
	@%p6 ld.global.b32 	%r21, [%rd21];
	setp.gt.s32 	%p7, %r23, {last};
	mov.b32 	%r22, 0;
	@%p7 ld.global.b32 	%r22, [%rd21+4];
$L__BB0_4:
	st.global.v2.b32 	[%rd21], {{%r21, %r22}};
	ret;""")
    assert bool(proof(ptx, "mask bound", "%p5")) == is_same


@pytest.mark.parametrize(("bound", "is_same"), [(32, True), (33, False)])
def test_a_barrier_among_accesses_of_one_warp(bound, is_same):
    ptx = TILES.replace("BOUND", "%r1").replace("	ret;", f"""	setp.lt.u32 	%p5, %r4, {bound};
	bar.sync 	0;
	@%p5 st.global.b32 	[%rd1], %r4;
	bar.sync 	0;
	@%p5 ld.global.b32 	%r20, [%rd1];
	ret;""")
    *_, last = [each for each in faults(ptx, "order weakened") if each.changed == "bar.warp.sync -1"]
    place = ptx.rindex("bar.sync")
    assert place_of(last, ptx) == place and bool(solved(last, ptx, place, Facts([], [], []))) == is_same


@pytest.mark.parametrize(("address", "is_same"), [("smem", True), ("%rd1", False)])
def test_signs_of_addresses_of_shared_memory(address, is_same):
    word = f"""	mov.b64 	%rd20, {address};
	cvt.u32.u64 	%r20, %rd20;
	add.s32 	%r21, %r20, 66560;
	shr.u32 	%r22, %r21, 4;
	ret;"""
    ptx = ".extern .shared .align 16 .b8 smem[];" + TILES.replace("BOUND", "%r1").replace("	ret;", word)
    (fault,) = [each for each in faults(ptx, "type") if "%r22" in each.line]
    assert bool(equivalent.by_rule(fault, ptx, Facts([], [], []))) == is_same


@pytest.mark.parametrize(("number", "is_same"), [("%cluster_ctarank", True), ("%clock", False)])
def test_signs_of_ranks_in_a_cluster(number, is_same):
    ptx = TILES.replace("	ret;", f"	mov.u32 	%r20, {number};\n	mul.wide.s32 	%rd20, %r20, 2;\n	ret;")
    (fault,) = [each for each in faults(ptx, "type") if "%rd20" in each.line]
    assert bool(equivalent.by_rule(fault, ptx, Facts([], [], []))) == is_same


@pytest.mark.parametrize(("offset", "is_same"), [(16, True), (20, False)])
def test_the_lane_of_allocated_columns(offset, is_same):
    """Half of an address of tensor memory is read; another word of shared memory has both halves."""
    alloc = f"""	mov.b64 	%rd20, smem;
	cvt.u32.u64 	%r20, %rd20;
	add.s32 	%r21, %r20, {offset};
	tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r21], 64;
	ld.shared.b32 	%r22, [smem+16];
	ret;"""
    ptx = TILES.replace("BOUND", "%r1").replace("	ret;", alloc)
    (fault,) = [each for each in faults(ptx, "type") if "ld.shared" in each.line]
    assert bool(equivalent.by_rule(fault, ptx, Facts([], [], []))) == is_same


@pytest.mark.parametrize(("pending", "is_same"), [(0, [True, False]), (1, [False, False])])
def test_copies_that_the_next_group_takes(pending, is_same):
    """Only the first of two groups has another one before the wait."""
    copies = "	cp.async.ca.shared.global 	[%r9], [%rd1], 4;\n	cp.async.commit_group;\n" * 2
    wait = f"	cp.async.wait_group 	{pending};\n"
    ptx = TILES.replace("BOUND", "%r1").replace("	ret;", f"{copies}{wait}	ret;")
    every = [each for each in faults(ptx, "order deleted") if "commit_group" in each.line]
    assert [bool(equivalent.proof(each, ptx, Facts([], [], []))) for each in every] == is_same


@pytest.mark.parametrize(("between", "is_same"), [("", True), ("	fence.proxy.async;\n", False)])
def test_a_barrier_past_a_group_of_copies(between, is_same):
    """The group orders nothing; a fence that the barrier passes as well does."""
    copy = "	cp.async.ca.shared.global 	[%r9], [%rd1], 4;\n"
    group = f"{copy}	bar.sync 	0;\n{between}	cp.async.commit_group;\n	ret;"
    ptx = TILES.replace("BOUND", "%r1").replace("	ret;", group)
    every = [each for each in faults(ptx, "order moved") if "bar.sync" in each.line and "commit" in each.changed]
    assert [bool(equivalent.by_rule(each, ptx, Facts([], [], []))) for each in every] == [is_same]


@pytest.mark.parametrize("name", ["kernels/moe_matmul.py", "kernels/matmul_grouped.py"])
def test_numbers_that_choose_a_tile_and_nothing_else(name):
    """Those of experts, but not those of tokens, nor the columns of a table."""
    (entry,) = entries_of(tileiras.parse(EXAMPLES / name))
    assert Undefined.of(entry, facts(entry)).numbers == ({15} if "moe" in name else set())
