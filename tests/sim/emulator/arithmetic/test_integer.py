"""Integer arithmetic, logic, shifts and bit fields against Python's integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileiras.sim import emulate

N = 400
EDGES = {
    16: [0, 1, 2, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0xFFFE],
    32: [0, 1, 2, 3, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFF, 0x10000],
    64: [0, 1, 2, 63, 64, 65, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64 - 2, 2**32 - 1, 2**32, 2**32 + 1],
}


def samples(bits: int, seed: int) -> np.ndarray:
    """Edge cases crossed with themselves (by a different step per seed), then random bits."""
    rng = np.random.default_rng(seed)
    edges = np.array(EDGES[bits], np.uint64)
    count = len(edges)
    crossed = np.tile(edges, count) if seed % 2 else np.repeat(edges, count)
    rest = rng.integers(0, 2**63, N - count * count if N > count * count else 16, dtype=np.uint64) * np.uint64(
        2
    ) + np.uint64(1)
    return np.concatenate([crossed, rest]).astype(f"u{bits // 8}")


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def check(computed: np.ndarray, expected: list[int], *sources) -> None:
    bits = 8 * computed.dtype.itemsize
    wanted = np.array([e & (1 << bits) - 1 for e in expected], np.uint64).astype(f"u{bits // 8}")
    wrong = np.flatnonzero(computed.view(wanted.dtype) != wanted)
    assert not wrong.size, [(hex(computed[i]), hex(wanted[i]), *(hex(s[i]) for s in sources)) for i in wrong[:4]]


BINARY = {
    "add": lambda a, b, n: a + b,
    "sub": lambda a, b, n: a - b,
    "mul.lo": lambda a, b, n: a * b,
    "mul.hi": lambda a, b, n: a * b >> n,
    "min": lambda a, b, n: min(a, b),
    "max": lambda a, b, n: max(a, b),
    "div": lambda a, b, n: truncated(a, b) if b else -1,
    "rem": lambda a, b, n: a - b * truncated(a, b) if b else a,
}


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("kind", ["u", "s"])
@pytest.mark.parametrize("name", BINARY)
def test_binary(apply, name, kind, bits):
    a, b = samples(bits, 0), samples(bits, 1)
    computed = apply(f"{name}.{kind}{bits} $d, $0, $1;", a.dtype, a, b)
    read = (lambda v: signed(v, bits)) if kind == "s" else int
    check(computed, [BINARY[name](read(int(x)), read(int(y)), bits) for x, y in zip(a, b)], a, b)


@pytest.mark.parametrize("kind", ["u", "s"])
@pytest.mark.parametrize("bits", [16, 32])
def test_wide_products(apply, kind, bits):
    a, b = samples(bits, 0), samples(bits, 1)
    c = np.resize(samples(2 * bits, 2), a.size)
    read = (lambda v: signed(v, bits)) if kind == "s" else int
    products = [read(int(x)) * read(int(y)) for x, y in zip(a, b)]
    check(apply(f"mul.wide.{kind}{bits} $d, $0, $1;", c.dtype, a, b), products, a, b)
    check(
        apply(f"mad.wide.{kind}{bits} $d, $0, $1, $2;", c.dtype, a, b, c),
        [p + int(z) for p, z in zip(products, c)],
        a,
        b,
    )
    d = np.resize(samples(bits, 3), a.size)
    for part, shift in (("lo", 0), ("hi", bits)):
        computed = apply(f"mad.{part}.{kind}{bits} $d, $0, $1, $2;", a.dtype, a, b, d)
        check(computed, [(p >> shift) + int(z) for p, z in zip(products, d)], a, b, d)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic_and_shifts(apply, bits):
    a, b = samples(bits, 0), samples(bits, 1)
    for name, compute in {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}.items():
        assert (apply(f"{name}.b{bits} $d, $0, $1;", a.dtype, a, b) == compute(a, b)).all()
    assert (apply(f"not.b{bits} $d, $0;", a.dtype, a) == ~a).all()
    assert (apply(f"cnot.b{bits} $d, $0;", a.dtype, a) == (a == 0)).all()
    amounts = np.resize(np.array([0, 1, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 2**31, 2**32 - 1], np.uint32), a.size)
    limited = [min(int(s), bits) for s in amounts]
    check(apply(f"shl.b{bits} $d, $0, $1;", a.dtype, a, amounts), [int(x) << s for x, s in zip(a, limited)], a, amounts)
    check(apply(f"shr.u{bits} $d, $0, $1;", a.dtype, a, amounts), [int(x) >> s for x, s in zip(a, limited)], a, amounts)
    arithmetic = [signed(int(x), bits) >> s for x, s in zip(a, limited)]
    check(apply(f"shr.s{bits} $d, $0, $1;", a.dtype, a, amounts), arithmetic, a, amounts)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_absolute_value_and_negation(apply, bits):
    a = samples(bits, 0)
    check(apply(f"neg.s{bits} $d, $0;", a.dtype, a), [-int(x) for x in a], a)
    check(apply(f"abs.s{bits} $d, $0;", a.dtype, a), [abs(signed(int(x), bits)) for x in a], a)


@pytest.mark.parametrize("bits", [32, 64])
def test_counts(apply, bits):
    a = samples(bits, 0)
    check(apply(f"popc.b{bits} $d, $0;", np.uint32, a), [int(x).bit_count() for x in a], a)
    check(apply(f"clz.b{bits} $d, $0;", np.uint32, a), [bits - int(x).bit_length() for x in a], a)
    check(apply(f"brev.b{bits} $d, $0;", a.dtype, a), [int(f"{int(x):0{bits}b}"[::-1], 2) for x in a], a)
    check(apply(f"bfind.u{bits} $d, $0;", np.uint32, a), [int(x).bit_length() - 1 for x in a], a)
    result = [(v if v >= 0 else ~v).bit_length() - 1 for v in (signed(int(x), bits) for x in a)]
    check(apply(f"bfind.s{bits} $d, $0;", np.uint32, a), result, a)
    distances = [bits - int(x).bit_length() if x else -1 for x in a]
    check(apply(f"bfind.shiftamt.u{bits} $d, $0;", np.uint32, a), distances, a)


FIELDS = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 300), st.integers(0, 300))


@settings(max_examples=8, deadline=None)
@given(st.lists(FIELDS, min_size=200, max_size=200), st.sampled_from([32, 64]))
def test_bit_fields(apply_once, rows, bits):
    values = np.array([[r[0] & (1 << bits) - 1, r[1] & (1 << bits) - 1] for r in rows], f"u{bits // 8}").T.copy()
    place = np.array([[r[2], r[3]] for r in rows], np.uint32).T.copy()
    for kind in "us":
        expected = []
        for a, p, n in zip(values[0], place[0] & 255, place[1] & 255):
            p, n, source = int(p), int(n), signed(int(a), bits) if kind == "s" else int(a)
            sign = source >> min(p + n - 1, bits - 1) & 1 if kind == "s" and n else 0
            field = (int(a) >> p if p < bits else 0) & (1 << min(n, bits)) - 1
            available = min(n, max(bits - p, 0))
            expected.append(field | (-1 << available if sign else 0))
        check(
            apply_once(f"bfe.{kind}{bits} $d, $0, $1, $2;", values.dtype, values[0], *place),
            expected,
            values[0],
            *place,
        )
    inserted = []
    for a, b, p, n in zip(*values, place[0] & 255, place[1] & 255):
        mask = ((1 << int(n)) - 1 << int(p)) & (1 << bits) - 1
        inserted.append(int(b) & ~mask | int(a) << int(p) & mask)
    check(apply_once(f"bfi.b{bits} $d, $0, $1, $2, $3;", values.dtype, *values, *place), inserted, *values, *place)


def test_permutes_and_funnel_shifts(apply):
    a, b = samples(32, 0), samples(32, 1)
    selectors = np.random.default_rng(5).integers(0, 65536, a.size).astype(np.uint32)

    def permute(x: int, y: int, selector: int) -> int:
        source = (y << 32 | x).to_bytes(8, "little")
        picked = []
        for i in range(4):
            nibble = selector >> 4 * i & 15
            byte = source[nibble & 7]
            picked.append((255 if byte & 128 else 0) if nibble & 8 else byte)
        return int.from_bytes(bytes(picked), "little")

    rows = [(int(x), int(y), int(s)) for x, y, s in zip(a, b, selectors)]
    check(apply("prmt.b32 $d, $0, $1, $2;", a.dtype, a, b, selectors), [permute(*r) for r in rows], a, b, selectors)
    check(apply("prmt.b32 $d, $0, $1, 0x5410;", a.dtype, a, b), [permute(x, y, 0x5410) for x, y, _ in rows], a, b)
    check(apply("prmt.b32 $d, $0, $1, 0x7362;", a.dtype, a, b), [permute(x, y, 0x7362) for x, y, _ in rows], a, b)
    amounts = selectors & np.uint32(63)
    for mode, limit in (("wrap", lambda n: n & 31), ("clamp", lambda n: min(n, 32))):
        left = [(y << 32 | x) << limit(int(n)) >> 32 for (x, y, _), n in zip(rows, amounts)]
        right = [(y << 32 | x) >> limit(int(n)) for (x, y, _), n in zip(rows, amounts)]
        check(apply(f"shf.l.{mode}.b32 $d, $0, $1, $2;", a.dtype, a, b, amounts), left, a, b, amounts)
        check(apply(f"shf.r.{mode}.b32 $d, $0, $1, $2;", a.dtype, a, b, amounts), right, a, b, amounts)


@pytest.mark.parametrize("table", [0x00, 0xFF, 0xF0, 0x96, 0xE8, 0x1B])
def test_lop3(apply, table):
    a, b, c = samples(32, 0), samples(32, 1), samples(32, 2)[::-1].copy()
    expected = np.zeros_like(a)
    for bit in range(32):
        row = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | c >> bit & 1
        expected |= (np.uint32(table) >> row & 1) << np.uint32(bit)
    assert (apply(f"lop3.b32 $d, $0, $1, $2, {table};", a.dtype, a, b, c) == expected).all()


def test_dot_products_and_differences(apply):
    a, b, c = samples(32, 0), samples(32, 1), samples(32, 2)
    for left in "us":
        for right in "us":
            parts = [
                v.view(np.int8 if k == "s" else np.uint8).reshape(-1, 4).astype(np.int64)
                for v, k in ((a, left), (b, right))
            ]
            expected = (parts[0] * parts[1]).sum(1) + c
            check(
                apply(f"dp4a.{left}32.{right}32 $d, $0, $1, $2;", a.dtype, a, b, c), [int(e) for e in expected], a, b, c
            )
    check(
        apply("sad.s32 $d, $0, $1, $2;", a.dtype, a, b, c),
        [int(z) + abs(signed(int(x), 32) - signed(int(y), 32)) for x, y, z in zip(a, b, c)],
        a,
        b,
        c,
    )
    check(
        apply("mul24.lo.u32 $d, $0, $1;", a.dtype, a, b),
        [(int(x) & 0xFFFFFF) * (int(y) & 0xFFFFFF) for x, y in zip(a, b)],
    )


def test_saturating_sums(apply):
    a, b = samples(32, 0), samples(32, 1)
    clamp = lambda v: max(-(2**31), min(2**31 - 1, v))  # noqa: E731
    rows = [(signed(int(x), 32), signed(int(y), 32)) for x, y in zip(a, b)]
    check(apply("add.sat.s32 $d, $0, $1;", a.dtype, a, b), [clamp(x + y) for x, y in rows], a, b)
    check(apply("sub.sat.s32 $d, $0, $1;", a.dtype, a, b), [clamp(x - y) for x, y in rows], a, b)


def test_packed_sixteen_bit_integers(apply):
    a, b = samples(32, 0), samples(32, 1)
    halves = [v.view(np.int16).reshape(-1, 2) for v in (a, b)]
    assert (apply("add.s16x2 $d, $0, $1;", a.dtype, a, b) == (halves[0] + halves[1]).view(np.uint32)[:, 0]).all()
    assert (apply("max.s16x2 $d, $0, $1;", a.dtype, a, b) == np.maximum(*halves).view(np.uint32)[:, 0]).all()
    relu = np.maximum(np.minimum(*halves), np.int16(0))
    assert (apply("min.relu.s16x2 $d, $0, $1;", a.dtype, a, b) == relu.view(np.uint32)[:, 0]).all()


def test_carry_chain_adds_and_multiplies_128_bits(kernel):
    body = """
        ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%a0]; ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%a0+16];
        add.cc.u32 %r10, %r1, %r5; addc.cc.u32 %r11, %r2, %r6; addc.cc.u32 %r12, %r3, %r7; addc.u32 %r13, %r4, %r8;
        st.global.v4.u32 [%a1], {%r10, %r11, %r12, %r13};
        sub.cc.u32 %r10, %r1, %r5; subc.cc.u32 %r11, %r2, %r6; subc.cc.u32 %r12, %r3, %r7; subc.u32 %r13, %r4, %r8;
        st.global.v4.u32 [%a1+16], {%r10, %r11, %r12, %r13};
        mul.lo.u32 %r10, %r1, %r5; mul.hi.u32 %r11, %r1, %r5; mad.lo.cc.u32 %r11, %r1, %r6, %r11;
        madc.hi.u32 %r12, %r1, %r6, 0; mad.lo.cc.u32 %r11, %r2, %r5, %r11; madc.hi.cc.u32 %r12, %r2, %r5, %r12;
        addc.u32 %r13, 0, 0; mad.lo.cc.u32 %r12, %r2, %r6, %r12; madc.hi.u32 %r13, %r2, %r6, %r13;
        st.global.v4.u32 [%a1+32], {%r10, %r11, %r12, %r13};
    """
    ptx = kernel(body, (".u64", ".u64"), threads=1)
    rng = np.random.default_rng(3)
    for _ in range(6):
        pair = rng.integers(0, 2**32, 8, dtype=np.uint64).astype(np.uint32)
        pair[rng.integers(0, 8)] = 0xFFFFFFFF
        out = np.zeros(12, np.uint32)
        emulate(ptx, "k", 1, [pair, out])
        a, b = (int.from_bytes(pair[i : i + 4].tobytes(), "little") for i in (0, 4))
        sums = [int.from_bytes(out[i : i + 4].tobytes(), "little") for i in (0, 4, 8)]
        low = 2**64 - 1
        assert sums == [(a + b) % 2**128, (a - b) % 2**128, (a & low) * (b & low)]


def test_immediates_and_packing(kernel):
    body = """
        mov.b64 %q1, {0x11111111, 0x22222222}; mov.b64 {%r1, %r2}, %q1; mov.b32 {%h1, %h2}, %r2;
        mov.b64 {_, %r3}, %q1; mov.b64 %q2, {%r2, %r1}; mov.b32 %r4, {%h2, %h1};
        st.global.v4.b32 [%a0], {%r1, %r2, %r3, %r4}; st.global.b64 [%a0+16], %q2; st.global.b16 [%a0+24], -2;
    """
    out = np.zeros(8, np.uint32)
    emulate(kernel(body, threads=1), "k", 1, [out])
    assert [hex(v) for v in out[:7]] == [
        "0x11111111",
        "0x22222222",
        "0x22222222",
        "0x22222222",
        "0x22222222",
        "0x11111111",
        "0xfffe",
    ]
