"""Kernels with known answers, and invariants of every estimate."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from micro_kernels import (
    OUT,
    STORE,
    chained_tcgen05,
    chained_wgmma,
    copy_kernel,
    estimate,
    fma_chain,
    independent_fma,
    kernel,
    loop,
    per_iteration,
    ring,
    shared_loads,
)

from tests.machine_code import needs_tools
from tileiras.sim.errors import SimulationError
from tileiras.sim.estimate.images import load
from tileiras.sim.estimate.model import Model
from tileiras.sim.estimate.units import L1_AND_SHARED
from tileiras.targets.rates import gpu, names

pytestmark = needs_tools
OVERHEAD = 30
"""Cycles an iteration that the end of a loop may take: a comparison, a branch, and its latency."""


def test_a_chain_of_dependent_fmas_takes_four_cycles_each():
    result = estimate(fma_chain(64), [OUT])
    assert 4 * 64 <= per_iteration(result) <= 4 * 64 + OVERHEAD
    assert result.bound == "latency"
    assert next(iter(result.by_reason())) == "fixed latency"


@pytest.mark.parametrize("warps", [8, 16, 32])
def test_independent_work_is_bound_by_issue(warps):
    """64 FMAs, and about four instructions of the loop, by the warps of a sub-core."""
    result = estimate(independent_fma(32 * warps), [OUT])
    assert 64 * warps / 4 <= per_iteration(result) <= 70 * warps / 4
    assert result.bound == "issue" and result.utilization["issue"] > 0.9


@pytest.mark.parametrize("warps", [1, 2])
def test_ctas_with_few_warps_share_the_sub_cores(warps):
    """As many CTAs as fill the sub-cores with a warp each take no longer than one of them; twice as many do."""
    sms, text = gpu("H200").sms, independent_fma(32 * warps, trips=200)
    one, filled, twice = (
        estimate(text, [OUT], grid=sms * count).cycles for count in (1, 4 // warps, 8 // warps)
    )  # fmt: skip
    assert filled < 1.1 * one and twice > 1.5 * one


def test_half_as_many_lanes_take_twice_as_long():
    """An A100 has 64 FMA lanes, an H200 128."""
    fast, slow = (per_iteration(estimate(independent_fma(512).replace("sm_90a", "sm_80"), [OUT], on=name))
                  for name in ("H200", "A100"))  # fmt: skip
    assert slow / fast == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("stride, wavefronts", [(8, 2), (16, 4), (128, 32)])
def test_bank_conflicts_take_the_port(stride, wavefronts):
    result = estimate(shared_loads(stride), [OUT])
    assert per_iteration(result) == pytest.approx(8 * 8 * wavefronts, rel=0.05)  # 8 warps, 8 loads
    assert result.bound == "shared memory"
    line = next(number for number, text in enumerate(shared_loads(stride).splitlines(), 1) if "ld.volatile" in text)
    assert next(iter(result.by_ptx_line())).line >= line


@pytest.mark.parametrize("name, target", [("H200", "sm_90a"), ("A100", "sm_80"), ("T4", "sm_75")])
def test_a_copy_runs_at_the_rate_of_dram(name, target):
    size = 1 << 26
    source, to = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    result = estimate(copy_kernel(target), [source, to], size // 16384, on=name)
    chosen = gpu(name)
    assert result.cycles == pytest.approx(2 * size / chosen.dram_bytes_per_cycle, rel=0.1)
    assert result.bound == "DRAM" and result.utilization["DRAM"] > 0.9
    assert result.microseconds == pytest.approx(result.cycles / chosen.sustained_mhz + chosen.launch_microseconds)


@pytest.mark.parametrize("columns", [64, 128, 256])
def test_chained_wgmma_takes_half_its_columns_in_cycles(columns):
    result = estimate(chained_wgmma(columns), [OUT])
    assert 4 * columns / 2 <= per_iteration(result) <= 4 * columns / 2 + OVERHEAD
    assert result.bound == "tensor"


@pytest.mark.parametrize("rows, columns, cycles", [(128, 256, 128), (128, 128, 64), (64, 256, 64)])
def test_chained_tcgen05(rows, columns, cycles):
    """Work by rate; and 12 cycles of latency, 52 for a commit and a wait, and the loop, which begins anew for each."""
    result = estimate(chained_tcgen05(rows, columns), [OUT], on="B200")
    assert 16 * cycles <= per_iteration(result) <= 16 * cycles + 12 + 52 + 3 * OVERHEAD
    assert result.bound in ("tensor", "shared memory")  # operands of the smaller ones take all of the port
    assert next(iter(result.by_reason())) == "mbarrier"


def test_a_chip_full_of_products_is_bound_by_power():
    """B200 keeps up 63 % of the peak on all of its SMs, and the peak on one."""
    ptx, trips, each, product = chained_tcgen05(128, 256), 60, 16, 128
    one, all_ = (estimate(ptx, [OUT], grid=ctas, on="B200") for ctas in (1, gpu("B200").sms))
    assert one.bound != "power" and one.cycles < trips * each * product * 1.3
    assert all_.bound == "power" and all_.cycles == pytest.approx(trips * each * product / 0.63, rel=0.01)


def test_tensor_cores_that_wait_for_operands_need_less_power():
    """Dots of 64 rows and columns take 42 cycles or more for 16 cycles of operations."""
    one, all_ = (estimate(chained_tcgen05(64, 64), [OUT], grid=ctas, on="B200") for ctas in (1, gpu("B200").sms))
    assert all_.bound != "power" and all_.cycles == pytest.approx(one.cycles, rel=0.02)


def test_a_chip_full_of_products_in_registers_reaches_their_rate():
    """`mma.sync` takes a fourth of the peak of a B200; the power limit allows more than that."""
    trips, each, warps = 300, 16, 4
    product = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f{0},%f{1},%f{2},%f{3}}}, " \
              "{{%r40,%r41,%r42,%r43}}, {{%r44,%r45}}, {{%f{0},%f{1},%f{2},%f{3}}};"  # fmt: skip
    words = "\n".join(f"mov.u32 %r{register}, %r1;" for register in range(40, 46))
    zeros = "\n".join(f"mov.f32 %f{register}, 0f00000000;" for register in range(4 * each))
    products = "\n".join(product.format(*range(4 * at, 4 * at + 4)) for at in range(each))
    sums = "\n".join(f"add.f32 %f0, %f0, %f{register};" for register in range(1, 4 * each))
    ptx = kernel(f"{words}\n{zeros}\n{loop(products, trips)}{sums}\n{STORE}", 32 * warps, "sm_100a")
    one, all_ = (estimate(ptx, [OUT], grid=ctas, on="B200") for ctas in (1, gpu("B200").sms))
    busy = 2 * 16 * 8 * 16 * trips * each * warps / gpu("B200").mma_sync["f16"]
    assert busy <= all_.cycles == pytest.approx(one.cycles, rel=0.05)
    assert all_.cycles < busy * 1.3 and all_.bound == "tensor"


@pytest.mark.parametrize("work, slow", [(16, 128), (128, 16)])
def test_a_ring_runs_at_the_pace_of_its_slower_end(work, slow):
    result = estimate(ring(work, slow), [OUT])
    assert 4 * max(work, slow) <= per_iteration(result) <= 4 * max(work, slow) + 2 * OVERHEAD
    assert result.steady.period == 4  # two stages, two parities
    # The path of a steady iteration is that end's own work.
    slowest = max(result.steady.critical_path, key=lambda link: link.cycles)
    assert slowest.who == ("warp 1" if slow > work else "warp 0") and slowest.what == "runs"
    assert sum(link.cycles for link in result.steady.critical_path) == pytest.approx(4 * result.steady.cycles, rel=0.02)


# ---- extrapolation -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [fma_chain, functools.partial(chained_wgmma, 64)])
def test_an_extrapolated_loop_takes_the_time_of_the_whole_one(make, monkeypatch):
    result = estimate(make(trips=100), [OUT])
    assert result.steady is not None and result.steady.simulated < 100
    monkeypatch.setattr("tileiras.sim.estimate.steady_state.LEAST_ITERATIONS", 1 << 30)
    whole = estimate(make(trips=100), [OUT])
    assert whole.steady is None
    assert result.cycles == pytest.approx(whole.cycles, rel=0.005)
    for unit, share in whole.utilization.items():
        assert result.utilization[unit] == pytest.approx(share, abs=0.01)


def test_ctas_of_a_last_wave_have_more_of_the_memories():
    size = 16384 * 4096
    chosen = gpu("H200")
    model = Model(
        load(copy_kernel(), "k", chosen), (4096,), chosen, [np.zeros(size, np.uint8), np.zeros(size, np.uint8)]
    )
    model.prepare()
    few, all_of_them = (model.run(model.recording.clusters[0], 8, 8, active).cycles for active in (4, 132))
    assert few < all_of_them


@pytest.mark.parametrize("waves", [0, 1])
def test_sms_with_fewer_ctas_leave_memory_to_others(waves):
    """Six CTAs on one SM and five on the others move their bytes faster than six on each, alone as in a last wave."""
    sms = gpu("RTX PRO 6000").sms
    times = []
    for last in (6 * sms, 5 * sms + 1):
        ctas = 6 * sms * waves + last
        arrays = [np.zeros(ctas << 14, np.uint8) for _ in range(2)]
        result = estimate(copy_kernel("sm_120"), arrays, ctas, on=gpu("RTX PRO 6000"))
        assert result.occupancy.ctas == 6
        times.append(result.cycles / ctas)
    assert times[1] <= 1.05 * times[0]


def test_skipped_parts_are_reported():
    result = estimate(fma_chain(16, trips=100), [OUT])
    note = result.notes[0]
    assert "of 100 iterations" in note and f"{result.steady.simulated} were simulated" in note


def test_a_loop_whose_iterations_differ_is_simulated_whole():
    """Triangular: iteration i goes through an inner loop i times."""
    inner = loop("fma.rn.f32 %f0, %f0, %f1, %f1;", 0, "INNER").replace("%r100", "%r101").replace("%p15", "%p14")
    inner = inner.replace("setp.lt.u32 %p14, %r101, 0;", "setp.le.u32 %p14, %r101, %r100;")
    result = estimate(kernel("mov.f32 %f0, 0f3F800000;\nmov.f32 %f1, 0f3F000000;\n" + loop(inner, 40)
                            + "mad.wide.u32 %q30, %r1, 4, %a0;\nst.global.f32 [%q30], %f0;"), [OUT])  # fmt: skip
    work = sum(range(1, 41))
    assert 4 * work < result.cycles


# ---- properties --------------------------------------------------------------------------------------------------

KERNELS = {
    "chain": lambda: (fma_chain(16), [OUT], 1),
    "independent": lambda: (independent_fma(256), [OUT], 1),
    "shared": lambda: (shared_loads(16), [OUT], 1),
    "copy": lambda: (copy_kernel(), [np.zeros(1 << 22, np.uint8), np.zeros(1 << 22, np.uint8)], 256),
    "wgmma": lambda: (chained_wgmma(128), [OUT], 1),
    "ring": lambda: (ring(16, 64), [OUT], 1),
}


@pytest.mark.parametrize("name", KERNELS)
def test_stalls_and_issues_are_all_the_time_of_the_warps(name):
    ptx, args, grid = KERNELS[name]()
    chosen = gpu("H200")
    model = Model(load(ptx, "k", chosen), (grid,), chosen, args)
    model.prepare()
    (outcome,) = model.simulate([[model.recording.clusters[0]] * 2], 2)
    spent = sum(warp.ended - warp.start for warp in outcome.warps)
    assert sum(outcome.issued.values()) + sum(outcome.stalls.values()) == pytest.approx(spent)
    result = model.estimate()
    assert result.issued + sum(stall.share for stall in result.stalls) == pytest.approx(1)
    assert sum(result.bounds.values()) == pytest.approx(1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", KERNELS)
def test_more_latency_is_never_faster(name):
    ptx, args, grid = KERNELS[name]()
    before = estimate(ptx, args, grid).cycles
    chosen = gpu("H200")
    for key in ("shared", "l1", "l2", "dram", "mbarrier", "barrier", "branch", "mufu"):
        slower = chosen._replace(latency={**chosen.latency, key: 2 * chosen.latency[key]})
        assert estimate(ptx, args, grid, slower).cycles >= before


@pytest.mark.parametrize("name", KERNELS)
def test_a_wider_unit_is_never_slower(name):
    ptx, args, grid = KERNELS[name]()
    before = estimate(ptx, args, grid).cycles
    chosen = gpu("H200")
    wider = [
        chosen._replace(lanes={**chosen.lanes, "fma": 256, "alu": 128, "lsu": 64}),
        chosen._replace(tensor={key: 2 * rate for key, rate in chosen.tensor.items()}),
        chosen._replace(bytes_per_cycle={key: 2 * rate for key, rate in chosen.bytes_per_cycle.items()}),
        chosen._replace(dram_bytes_per_second=2 * chosen.dram_bytes_per_second),
        chosen._replace(l2_bytes_per_cycle=2 * chosen.l2_bytes_per_cycle),
    ]
    assert all(estimate(ptx, args, grid, each).cycles <= before * 1.001 for each in wider)


def test_arguments_keep_their_contents():
    out = np.full(1 << 12, 7, np.float32)
    estimate(fma_chain(4, 8), [out])
    assert (out == 7).all()


def test_a_kernel_that_fits_no_sm_is_refused():
    ptx = kernel("st.shared.u32 [data], %r1;", shared=1024)
    chosen = gpu("H200")
    model = Model(load(ptx, "k", chosen)._replace(dynamic_shared=1 << 20), (1,), chosen, [OUT])
    with pytest.raises(SimulationError, match="no CTA of 'k' fits an SM of H200"):
        model.prepare()


_AGAIN = """
import json, sys
sys.path.insert(0, {folder!r})
from micro_kernels import OUT, estimate, ring
print(json.dumps(estimate(ring(16, 64), [OUT]).to_json(trace=True)))
"""


def test_two_runs_give_the_same_bytes():
    script = _AGAIN.format(folder=str(Path(__file__).parent))
    result = [
        subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"}, capture_output=True,
            text=True, check=True,
        ).stdout
        for seed in ("0", "1")
    ]  # fmt: skip
    assert result[0] == result[1]
    assert json.loads(result[0])["microseconds"] > 0


def test_the_trace_has_a_track_for_each_warp_agent_and_unit():
    result = estimate(ring(16, 64), [OUT])
    events = result.trace["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"warp 0, agent 0, CTA 0", "warp 1, agent 1, CTA 0"} <= tracks
    assert {name.partition(":")[0] for name in tracks} >= {"agent 0", "agent 1"}
    slices = [event for event in events if event["ph"] == "X"]
    assert {event["name"] for event in slices} >= {"runs", "mbarrier"}
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in slices)
    waits = [event for event in slices if event["name"] == "mbarrier"]
    assert all(event["args"]["ptx_line"] for event in waits)
    units = estimate(chained_wgmma(64), [OUT]).trace["traceEvents"]
    assert "tensor" in {event["args"]["name"] for event in units if event["name"] == "thread_name"}


def test_all_of_it_is_json():
    result = estimate(fma_chain(16), [OUT]).to_json(trace=True)
    assert json.loads(json.dumps(result)) == result
    assert set(result) >= {"microseconds", "bound", "bounds", "utilization", "stalls", "occupancy", "steady", "phases"}


def test_every_gpu_has_a_size_of_l1():
    assert {gpu(name).target.name for name in names()} <= set(L1_AND_SHARED)


def test_registers_are_waited_for_until_others_give_theirs_back():
    """The second warpgroup computes before it gives registers back; until then the first gets no more."""
    chain = loop("\n".join(["fma.rn.f32 %f0, %f0, %f1, %f1;"] * 32), 20, "CHAIN")
    ptx = kernel(
        f"""cvt.rn.f32.u32 %f0, %r1;
        mov.f32 %f1, 0f3F000000;
        setp.ge.u32 %p1, %r1, 128;
        @%p1 bra SERVICE;
        setmaxnreg.inc.sync.aligned.u32 160;
        bra DONE;
        SERVICE:
        {chain}
        setmaxnreg.dec.sync.aligned.u32 40;
        DONE:
        {STORE}""",
        256,
    ).replace(".reqntid 256", ".reqntid 256\n.maxnreg 104")  # fmt: skip
    result = estimate(ptx, [OUT])
    # Four of eight warps wait for as long as the others compute: 32 FMAs of 4 cycles, 20 times.
    assert result.stalls[0].reason == "registers" and result.stalls[0].share == pytest.approx(0.5, rel=0.1)
    assert ptx.splitlines()[result.stalls[0].ptx_line - 1].startswith("setmaxnreg.inc")
    assert result.cycles > 32 * 20 * 4


@pytest.mark.parametrize("unrolled", [False, True])
def test_products_outside_of_a_loop_count_as_those_in_it(unrolled):
    """One instruction of m16n8k16 takes 4096 FLOP of its sub-core, wherever ptxas has put it."""
    product = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2,%f3,%f4,%f5}, {%r40,%r41,%r42,%r43}, " \
              "{%r44,%r45}, {%f2,%f3,%f4,%f5};"  # fmt: skip
    words = "\n".join(f"mov.u32 %r{register}, %r1;" for register in range(40, 46))
    zeros = "\n".join(f"mov.f32 %f{register}, 0f00000000;" for register in range(2, 6))
    trips = 20
    body = loop(product, trips).replace('.pragma "nounroll";\n', "" if unrolled else '.pragma "nounroll";\n')
    ptx = kernel(f"{words}\n{zeros}\n{body}mov.f32 %f0, %f2;\n{STORE}", 32, "sm_80")
    model = Model(load(ptx, "k", gpu("A100")), (1,), gpu("A100"), [OUT])
    model.prepare()
    _, run = model.grid()
    # One warp: one of the four sub-cores, each with a fourth of the rate.
    assert run.busy["tensor"] == pytest.approx(2 * 16 * 8 * 16 * trips / (gpu("A100").mma_sync["f16"] / 4))


def test_code_that_has_not_been_fetched_comes_line_by_line():
    """8192 instructions are 1024 lines; 16 of them are in flight at a time, each for as long as DRAM takes."""
    straight = "\n".join(
        f"fma.rn.f32 %f{2 + number % 32}, %f{2 + number % 32}, %f1, %f{2 + (number + 1) % 32};"
        for number in range(8192)
    )
    start = "\n".join(f"add.f32 %f{2 + number}, %f1, 0f{0x3F800000 + number * 4096:08X};" for number in range(32))
    finish = "\n".join(f"add.f32 %f0, %f0, %f{2 + number};" for number in range(32))
    ptx = kernel(f"cvt.rn.f32.u32 %f0, %r1;\nmov.f32 %f1, %f0;\n{start}\n{straight}\n{finish}\n{STORE}")
    result = estimate(ptx, [OUT])
    streamed = 8192 / 8 / 16 * gpu("H200").latency["dram"]
    assert result.cycles == pytest.approx(streamed, rel=0.1)
    assert any("code that comes from memory" in note for note in result.notes)
    # A loop of as many iterations is fetched once.
    assert estimate(fma_chain(64, 128), [OUT]).cycles < 64 * 128 * 4 * 1.2


LOCKED = kernel(
    """mov.u32 %r2, %ctaid.x;
    TAKE:
    atom.global.acquire.gpu.cas.b32 %r3, [%a0], 0, 1;
    setp.ne.u32 %p1, %r3, 0;
    @%p1 bra TAKE;
    ld.volatile.global.f32 %f0, [%a0+1024];
    add.f32 %f0, %f0, %f0;
    st.volatile.global.f32 [%a0+1024], %f0;
    atom.global.release.gpu.exch.b32 %r4, [%a0], 0;""", 1,
)  # fmt: skip


@pytest.mark.slow
def test_ctas_that_share_a_lock_go_through_it_in_turn():
    counts = (2, 8, 16)
    few, some, many = (estimate(LOCKED, [np.zeros(4096, np.float32)], ctas) for ctas in counts)
    turn = (many.cycles - some.cycles) / 8
    assert (some.cycles - few.cycles) / 6 == pytest.approx(turn, rel=0.05)
    # A turn is an update, a load and the trip of who sees the lock free: three trips at least.
    assert turn > 3 * gpu("H200").latency["l2"] * 0.9
    assert any("16 CTAs at a time take one lock" in note for note in many.notes)


def test_ctas_with_locks_of_their_own_do_not_wait():
    own = LOCKED.replace("mov.u32 %r2, %ctaid.x;", "mov.u32 %r2, %ctaid.x;\nmad.wide.u32 %a0, %r2, 8, %a0;")
    few, many = (estimate(own, [np.zeros(4096, np.float32)], ctas) for ctas in (2, 16))
    assert many.cycles == pytest.approx(few.cycles, rel=0.05)
