"""A kernel whose warps have roles: correct as written, reported as wrong without any one synchronization."""

import re

import pytest
import warp_specialised

from tileiras.sim import EmulationError, emulate

PTX = warp_specialised.matmul_ptx()


def run(ptx: str, seed=0) -> bool:
    """Whether the result is right."""
    result, product, _memory = warp_specialised.arguments()
    emulate(ptx, "k", 1, result, seed=seed)
    return bool((result[2] == product).all())


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_it_multiplies(assemble, seed):
    assemble(PTX, "sm_90a")
    assert run(PTX, seed)


BROKEN = {
    "no wait for an empty stage": (r"@!%p2 bra EMPTY;", "", "more arrivals|bytes more|race|in flight"),
    "no wait for a loaded stage": (r"@!%p2 bra LOADED;", "", "before it is written|race"),
    "the producer begins with the other phase": (r"xor.b32 %phase, %phase, 1;\nLOAD", "LOAD", "deadlock"),
    "fewer bytes expected": (r"(expect_tx.*), 2304;", r"\1, 2048;", "256 bytes more have come|before it is written"),
    "more bytes expected": (r"(expect_tx.*), 2304;", r"\1, 2560;", "lacks 256 bytes of transactions"),
    "more arrivals awaited": (r"(init.*), 4;", r"\1, 5;", r"lacks 1 of 5 arrivals"),
    "no barrier of the block after init": (r"READY:\nbar.sync 0;", "READY:", "was initialised at line|not initialised"),
    "no fence behind init": (
        r"fence.mbarrier_init.release.cluster;", "", "no fence.mbarrier_init or fence.proxy.async between"),
    "no fence before the product": (r"wgmma.fence.sync.aligned;", "", "no wgmma.fence"),
    "no wait for the product": (r"wgmma.wait_group.sync.aligned 0;", "", "before wgmma.wait_group|race"),
    "the stage is released before the product is waited for": (
        r"(wgmma.wait_group.sync.aligned 0;)((?:.*\n)*?)(@%p1 mbarrier.arrive.*;)", r"\2\3\1",
        "shared memory that this product reads was written|race"),
    "no commit of the product": (r"wgmma.commit_group.sync.aligned;", "", "before wgmma.wait_group|in flight|race"),
    "no fence before the bulk store": (r"fence.proxy.async.shared::cta;", "", "no fence.proxy.async between"),
    "no barrier before the bulk store": (r"bar.sync 1, 128;", "", "race|before it is written"),
    "no wait for the bulk store": (r"cp.async.bulk.wait_group.read 0;", "", "not waited for"),
    "registers that nobody gives back": (r"setmaxnreg.dec.*;", "", "deadlock"),
    "a barrier for too many": (r"bar.sync 1, 128;", "bar.sync 1, 160;", "128 of 160 threads have arrived"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_broken_synchronization_is_detected(name, seed):
    pattern, instead, result = BROKEN[name]
    broken, count = re.subn(pattern, instead, PTX)
    assert count
    with pytest.raises(EmulationError, match=result):
        run(broken, seed)


def test_a_deadlock_names_who_waits_for_whom():
    """The agent, its line, the barrier and phase, the threads that would have to arrive, and their operation."""
    broken = re.sub(r"@%p1 (mbarrier.arrive.shared::cta.b64 _, )", r"@!%p1 \1", PTX.replace("], 4;", "], 125;"))
    with pytest.raises(EmulationError) as info:
        run(broken)
    message = str(info.value)
    load, loaded = (1 + PTX[: PTX.index(f"{label}: mbarrier")].count("\n") for label in ("EMPTY", "LOADED"))
    assert "deadlock: no warp can go on" in message
    assert re.search(rf"block \(0, 0, 0\) warp 4 waiting at line {load}: mbarrier.try_wait", message)
    assert re.search(r"the phase of parity 0 of the barrier at shared address 0x\w+ .* lacks 1 of 125 arr", message)
    waiting = rf"now waiting at line {loaded}"
    assert re.search(rf"arrivals came from line \d+ \(.*mbarrier.arrive.*\) by .*warps 0-3, {waiting}", message)
    assert re.search(rf"warps 0-3 waiting at line {loaded}: mbarrier.try_wait", message)
