"""A kernel for tensor memory whose warps have roles, for one block and for a pair: correct as written, and
reported as wrong without any one of its synchronizations."""

import re

import pytest
import tensor_specialised

from tileiras.sim import EmulationError, emulate

PTX = {blocks: tensor_specialised.matmul_ptx(blocks) for blocks in (1, 2)}
SEEDS = [None, 0, 1]


def run(ptx: str, blocks: int, seed=0) -> bool:
    """Whether the result is right."""
    result, product, _memory = tensor_specialised.arguments(blocks)
    emulate(ptx, "k", blocks, result, cluster=(blocks, 1, 1), seed=seed)
    return bool((result[2] == product).all())


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("blocks", [1, 2])
def test_it_multiplies(assemble, blocks, seed):
    assemble(PTX[blocks], "sm_100a")
    assert run(PTX[blocks], blocks, seed)


BROKEN = {
    "no wait for an empty stage": (r"@!%p2 bra EMPTY;", "", "more arrivals at a transaction barrier"),
    "no wait for a loaded stage": (r"@!%p2 bra LOADED;", "", "before it is written|race|in flight"),
    "no wait for the products": (r"@!%p2 bra STORE;", "", "in flight|before it is written|nothing has written"),
    "no commit behind the products": (r"mov.u32 %r5, %base.*\n|add.u32 %r5, %base, \d+;\n.*commit.*", "", "deadlock"),
    "no commit of a stage": (r"(add.u32 %r5, %r9, \d+;)\n.*commit.*", r"\1", "deadlock"),
    "fewer bytes expected": (r"(expect_tx.*_, .*), (\d)", r"\1, 1\2", "transactions|bytes more"),
    "no fence behind the wait": (r"(bra STORE;\n)tcgen05.fence::after_thread_sync;", r"\1", "fence::after_thread_sync"),
    "no wait for the load": (r"tcgen05.wait::ld.sync.aligned;", "", "in flight as they are freed"),
    "memory is kept": (r"tcgen05.dealloc.*", "", "allocated|deallocated"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_broken_synchronization_is_detected(name, blocks, seed):
    pattern, instead, result = BROKEN[name]
    broken, count = re.subn(pattern, instead, PTX[blocks])
    assert count
    with pytest.raises(EmulationError, match=result):
        run(broken, blocks, seed)


PAIRED = {
    "the stages are not drained": (r"@!%p2 bra EMPTIED;", "", "not waited for"),
    "the other block's bytes are not counted": (r"(expect_tx.*), \d+;", r"\1, 4608;", "lacks|bytes more|race|written"),
    "a commit for one block": (r"mov.b16 %h1, 3", "mov.b16 %h1, 1", "deadlock"),
    "copies complete at their own block's barrier": (r"mapa.shared::cluster.u32 (%r8, %r9), 0", r"mov.u32 \1",
                                                     "deadlock|bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRED)
@pytest.mark.parametrize("seed", SEEDS)
def test_broken_synchronization_of_a_pair_is_detected(name, seed):
    pattern, instead, result = PAIRED[name]
    broken, count = re.subn(pattern, instead, PTX[2])
    assert count
    with pytest.raises(EmulationError, match=result):
        run(broken, 2, seed)
