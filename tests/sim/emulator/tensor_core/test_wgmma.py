"""Products of a warpgroup: where their operands are, and every way to wait for too little."""

import numpy as np
import pytest
from wgmma_kernels import END, PRODUCT, START, descriptor, factors, place, run, simple

from tileiras.sim import EmulationError, emulate
from tileiras.sim.emulator.arithmetic.rounding import decode

SEEDS = [None, 0, 1]

# name -> (leading, stride) and the place of element (i, k) in bytes, for elements of two bytes.  "PTX ISA, Asynchronous
# Warpgroup Level Matrix Shared Memory Layout": 8 rows of 16 bytes make a core matrix.
LAYOUTS = {
    "k, none": (0, 0, (4096, 128), lambda i, k: k // 8 * 4096 + i // 8 * 128 + i % 8 * 16 + k % 8 * 2),
    "k, 32": (0, 32, (16, 256), lambda i, k: i * 32 + k * 2),
    "k, 64": (0, 64, (16, 512), lambda i, k: i * 64 + k * 2),
    "k, 128": (0, 128, (16, 1024), lambda i, k: i * 128 + k * 2),
    "mn, none": (1, 0, (4096, 128), lambda i, k: k // 8 * 4096 + i // 8 * 128 + k % 8 * 16 + i % 8 * 2),
    "mn, 32": (1, 32, (512, 256), lambda i, k: i // 16 * 512 + k * 32 + i % 16 * 2),
    "mn, 128": (1, 128, (2048, 1024), lambda i, k: k * 128 + i * 2),
}


@pytest.mark.parametrize("b_layout", LAYOUTS)
@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_layouts_of_both_operands(kernel, a_layout, b_layout):
    a, b, product = factors("f16", 16)
    image = np.zeros(32768, np.uint8)
    words, orders = [], []
    for base, matrix, layout in ((0, a, a_layout), (16384, b, b_layout)):
        order, swizzle, strides, offset = LAYOUTS[layout]
        place(image, base, matrix, swizzle, offset)
        words.append(descriptor(*strides, swizzle))
        orders.append(order)
    text = PRODUCT.replace("0, 0;", f"{orders[0]}, {orders[1]};")
    result = run(kernel, START + text + END, image, *words)
    assert (decode(result, "f32") == product + 1).all()


TYPES = {
    "bf16": "m64n8k16.f32.bf16.bf16 $, 1, 1, 0, 0", "tf32": "m64n8k8.f32.tf32.tf32 $, 1, 1",
    "e4m3": "m64n8k32.f32.e4m3.e4m3 $, 1, 1", "e5m2": "m64n8k32.f32.e5m2.e5m2 $, 1, 1",
    "s8": "m64n8k32.s32.s8.s8 $",
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_types(kernel, name):
    operands = "{%r30, %r31, %r32, %r33}, %q3, %q4, %p2"
    text = f"wgmma.mma_async.sync.aligned.{TYPES[name].replace('$', operands)};"
    *value, product = simple(name)
    result = run(kernel, START + text + END, *value)
    if name == "s8":
        assert (result.view(np.int32) == product + 0x3F800000).all()
    else:
        assert (decode(result, "f32") == product + 1).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda text: text, lambda product: product + 1),
        (lambda text: text.replace("1, 1, 0, 0", "-1, 1, 0, 0"), lambda product: 1 - product),
        (lambda text: f"{text} {text}", lambda product: 1 + 2 * product),
        (lambda text: f"setp.ne.u32 %p2, %r1, %r1; {text}", lambda product: product),
    ],
)
def test_scales(kernel, seed, change, expected):
    *result, product = simple()
    assert (decode(run(kernel, START + change(PRODUCT) + END, *result, seed), "f32") == expected(product)).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wait", ["", "wgmma.wait_group.sync.aligned 0;"])
def test_accumulators_that_are_moved_in_flight(kernel, wait, seed):
    """As loops of the vendor's do that name them anew in each turn; ptxas has them stay where they are."""
    *result, product = simple()
    there = " ".join(f"mov.b32 %r{40 + each}, %r{30 + each};" for each in range(4))
    renamed = PRODUCT.replace("%r3", "%r4")
    back = " ".join(f"mov.b32 %r{30 + each}, %r{40 + each};" for each in range(4))
    body = f"{START} {PRODUCT} wgmma.commit_group.sync.aligned; {there} {wait} {renamed} {END}"
    body = body.replace("mad.wide.u32 %q5", f"{back} mad.wide.u32 %q5")
    assert (decode(run(kernel, body, *result, seed), "f32") == product * 2 + 1).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_part_while_accumulators_are_moved(kernel, seed):
    """Two blocks; each renames its accumulators on its own path."""
    image, a_bits, b_bits, product = simple()
    there = " ".join(f"mov.b32 %r{40 + each}, %r{30 + each};" for each in range(4))
    body = START.replace("A_BITS", f"{a_bits:#x}").replace("B_BITS", f"{b_bits:#x}") + f"""
        mov.u32 %r6, %ctaid.x; setp.ne.u32 %p3, %r6, 0; {PRODUCT} wgmma.commit_group.sync.aligned; @%p3 bra OTHER;
        {there} bra JOIN; OTHER: {there}
        JOIN: wgmma.wait_group.sync.aligned 0; mad.lo.u32 %r7, %r6, 128, %r1;
        mad.wide.u32 %q5, %r7, 16, %a1; st.global.v4.u32 [%q5], {{%r40, %r41, %r42, %r43}};
    """
    out = np.zeros((2, 128, 4), np.uint32)
    emulate(kernel(body, (".u64", ".u64"), threads=128, cpu="sm_90a"), "k", 2, [image, out], seed=seed)
    expected = product.reshape(4, 16, 8)[:, :8, :2] + 1
    for block in range(2):
        assert (decode(out[block, ::4, :2].reshape(4, 8, 2), "f32") == expected).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_another_warpgroup_may_write_registers_of_that_name(kernel, seed):
    """While one warpgroup's accumulators are in flight, the other's are its own, in lock step as well."""
    image, a_bits, b_bits, product = simple()
    body = START.replace("A_BITS", f"{a_bits:#x}").replace("B_BITS", f"{b_bits:#x}") + f"""
        setp.ge.u32 %p3, %r1, 128; @%p3 bra OTHER;
        {PRODUCT} wgmma.commit_group.sync.aligned; bar.sync 1, 256; wgmma.wait_group.sync.aligned 0; bra STORE;
        OTHER: mov.b32 %r30, %r1; bar.sync 1, 256;
        STORE: mad.wide.u32 %q5, %r1, 16, %a1; st.global.v4.u32 [%q5], {{%r30, %r31, %r32, %r33}};
    """
    out = np.zeros((256, 4), np.uint32)
    emulate(kernel(body, (".u64", ".u64"), threads=256, cpu="sm_90a"), "k", 1, [image, out], seed=seed)
    assert (out[128:, 0] == np.arange(128, 256)).all()
    assert (decode(out[:128:4, :2].reshape(4, 8, 2), "f32") == product.reshape(4, 16, 8)[:, :8, :2] + 1).all()


def test_a_in_registers(kernel):
    """Row 16 w + l / 4 (+ 8), column 2 (l % 4) + e (+ 8) of A is element e of register 0 (1; 2 and 3)."""
    *result, _ = simple()
    _, b, _ = factors("f16", 16)
    text = """
        mov.b32 %r40, 0x3c003c00; mov.b32 %r41, 0; mov.b32 %r42, 0x40004000; mov.b32 %r43, 0; wgmma.fence.sync.aligned;
    """ + PRODUCT.replace("%q3", "{%r40, %r41, %r42, %r43}").replace("0, 0;", "0;")
    values = decode(b, "f16")
    row = values[:, :8].sum(1) + 2 * values[:, 8:].sum(1)
    expected = np.where((np.arange(64) % 16 < 8)[:, None], row + 1, 1)
    assert (decode(run(kernel, START + text + END, *result), "f32") == expected).all()
    late = text + " mov.b32 %r42, 0;"
    with pytest.raises(EmulationError, match="a register of A was written"):
        run(kernel, START + late + END, *result)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("fence.proxy.async.shared::cta;", "", "no fence.proxy.async between"),
        ("fence.proxy.async.shared::cta; bar.sync 0;", "fence.proxy.async.shared::cta;",
         "no barrier|no bar.*sync|before it is written"),
        ("wgmma.fence.sync.aligned;", "", "no wgmma.fence before"),
        ("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned; add.f32 %r31, %r30, %r30;",
         "after the last wgmma.fence"),
        ("wgmma.wait_group.sync.aligned 0;", "", "used before wgmma.wait_group"),
        ("wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;", "used before wgmma.wait_group"),
        ("wgmma.commit_group.sync.aligned;", "", "used before wgmma.wait_group"),
        ("wgmma.commit_group", "mov.b32 %r30, 0; wgmma.commit_group", "written before wgmma.wait_group"),
        ("wgmma.commit_group", "add.f32 %r34, %r30, %r31; wgmma.commit_group", "used before wgmma.wait_group"),
        ("or.b64 %q4, %q2, B_BITS;", "or.b64 %q4, %q2, B_BITS; or.b64 %q4, %q4, 0x2000000000000;", "a base offset"),
    ],
)  # fmt: skip
def test_missing_synchronization_is_an_error(kernel, old, new, said, seed):
    body = START + PRODUCT + END
    assert old in body
    *result, _ = simple()
    with pytest.raises(EmulationError, match=said):
        run(kernel, body.replace(old, new), *result, seed)


def test_operands_are_read_when_they_are_waited_for(kernel):
    """A write to them before, by another thread, is a race; a write by the thread after its wait is not."""
    *result, product = simple()
    change = "st.shared.u32 [%r2+16384], %r1;"
    body = START + PRODUCT + END
    wait = "wait_group.sync.aligned 0;"
    late = body.replace(wait, f"{wait} bar.sync 0; setp.eq.u32 %p3, %r1, 0; @%p3 {change}")
    with pytest.raises(EmulationError, match="race"):
        run(kernel, body.replace("wgmma.commit_group", f"{change} wgmma.commit_group"), *result)
    assert (decode(run(kernel, late, *result), "f32") == product + 1).all()
    with pytest.raises(EmulationError, match="race"):
        run(kernel, late.replace("bar.sync 0; setp", "setp"), *result)
