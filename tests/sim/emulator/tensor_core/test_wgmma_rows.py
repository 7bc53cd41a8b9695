"""The fragments of wgmma's rows against the emulator, whose maps are its own, written from the ISA."""

from __future__ import annotations

import numpy as np
import pytest

from tileiras.sim import emulate
from tileiras.sim.emulator.arithmetic.rounding import decode, encode
from tileiras.targets.atoms.rows import Fragment
from tileiras.targets.atoms.wgmma import WGMMA_ATOMS

EXECUTED = [name for name, atom in WGMMA_ATOMS.items() if name.endswith("_rs") and atom.shape[1] in (8, 64)]
PTX_NAMES = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "tf32": "f32"}
SIZES = {"f32": 4, "tf32": 4, "i32": 4, "f16": 2, "bf16": 2}


def places(fragment: Fragment) -> np.ndarray:
    """(register, thread) -> the index of its element in the matrix, row-major."""
    threads = np.arange(128)[None, :]
    index = {
        "register": np.arange(fragment.elements)[:, None], "lane": threads % 32, "warp": threads // 32
    }  # fmt: skip
    flat = np.zeros((fragment.elements, 128), np.int64)
    for name, bases in fragment.bases.items():
        for bit, (row, column) in enumerate(bases):
            flat ^= np.where(index[name] >> bit & 1, row * fragment.shape[1] + column, 0)
    return flat


def encoded(numbers: np.ndarray, type: str) -> np.ndarray:
    size = SIZES.get(type, 1)
    if type[0] in "su":
        return numbers.astype(f"i{size}").view(f"u{size}")
    return encode(numbers.astype(np.float64), PTX_NAMES.get(type, type)).astype(f"u{size}")


def decoded(words: np.ndarray, type: str) -> np.ndarray:
    return words.view(np.int32) if type == "i32" else decode(words, type)


def body(name: str) -> str:
    atom = WGMMA_ATOMS[name]
    n, words = atom.shape[1], atom.c.operands
    kind = "f32" if atom.c.operand_type == "float" else "b32"
    d = "{" + ", ".join(f"%x{i}" for i in range(words)) + "}"
    product = f"{atom.instruction} {atom.syntax};".format(
        d=d, a="{%y0, %y1, %y2, %y3}", b="%q4", scale_d="%p2", trans_b=0
    )
    load_a = "".join(f"ld.global.b32 %y{i}, [%q1+{512 * i}];" for i in range(4))
    store_d = "".join(f"st.global.{kind} [%q1+{512 * i}], %x{i};" for i in range(words))
    return f"""
    .reg .{kind} %x<{words}>; .reg .b32 %y<4>; .shared .align 1024 .b8 image[{n * 32}];
    mov.u32 %r1, %tid.x; mov.u32 %r2, image; mov.u32 %r3, %r1;
    FILL: mad.wide.u32 %q1, %r3, 4, %a1; setp.lt.u32 %p1, %r3, {n * 8}; @!%p1 bra DONE; ld.global.u32 %r4, [%q1];
    mad.lo.u32 %r5, %r3, 4, %r2; st.shared.u32 [%r5], %r4; add.u32 %r3, %r3, 128; bra FILL;
    DONE: fence.proxy.async.shared::cta; bar.sync 0; mad.wide.u32 %q1, %r1, 4, %a0; {load_a}
    shr.u32 %r5, %r2, 4; cvt.u64.u32 %q2, %r5; or.b64 %q4, %q2, {128 >> 4 << 16 | 256 >> 4 << 32:#x};
    setp.ne.u32 %p2, %r1, %r1;
    wgmma.fence.sync.aligned; {product} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    mad.wide.u32 %q1, %r1, 4, %a2; {store_d}
    """


@pytest.mark.parametrize("name", EXECUTED)
def test_every_element_is_where_the_row_says(kernel, name):
    atom = WGMMA_ATOMS[name]
    m, n, k = atom.shape
    random = np.random.default_rng(0)
    operands = ((atom.a_type, (m, k)), (atom.b_type, (k, n)))
    a, b = (random.integers(0 if type == "u8" else -3, 4, shape) for type, shape in operands)
    elements = encoded(a, atom.a_type).reshape(-1)[places(atom.a)]
    words = np.ascontiguousarray(elements.T).view(np.uint32).T.copy()  # (operand, thread)
    # B's columns without a swizzle: 8 of them by 16 bytes of K together, the two halves of K 128 bytes apart.
    columns = encoded(np.ascontiguousarray(b.T), atom.b_type).view(np.uint8).reshape(n // 8, 8, 2, 16)
    image = np.ascontiguousarray(columns.transpose(0, 2, 1, 3)).reshape(-1)
    out = np.zeros((atom.c.operands, 128), np.uint32)
    ptx = kernel(body(name), (".u64", ".u64", ".u64"), threads=128, cpu="sm_90a")
    emulate(ptx, "k", 1, [words, image, out])
    value = np.ascontiguousarray(out.T).view(np.uint16 if atom.c.packing == 2 else np.uint32).T
    result = np.zeros(m * n)
    result[places(atom.c)] = decoded(np.ascontiguousarray(value), atom.c_type)
    assert np.array_equal(result.reshape(m, n), a @ b)
