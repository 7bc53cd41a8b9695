"""cuTile kernels that together use most features of the front end, as a corpus for the reader.

`EXPORTS` follows the TILEIRAS_EXPORT convention; the second element of a value is the first bytecode version that has
all operations and types of the kernel.
"""

import functools

import cuda.tile as ct

from tileiras.stages.export.signatures import array, kernel_signature


@ct.kernel
def vector_add(a, b, c, T: ct.Constant[int]):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(T,))
    y = ct.load(b, index=(i,), shape=(T,))
    ct.store(c, index=(i,), tile=x + y)


@ct.kernel
def softmax(x, y, T: ct.Constant[int]):
    i = ct.bid(0)
    r = ct.load(x, index=(i, 0), shape=(1, T), padding_mode=ct.PaddingMode.NEG_INF)
    m = ct.max(r, axis=1, keepdims=True)
    e = ct.exp(r - m)
    s = ct.sum(e, axis=1, keepdims=True)
    ct.store(y, index=(i, 0), tile=e / s)


@ct.kernel
def matmul(A, B, C, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int]):
    bm = ct.bid(0)
    bn = ct.bid(1)
    acc = ct.full((tm, tn), 0, dtype=ct.float32)
    for k in range(ct.num_tiles(A, axis=1, shape=(tm, tk))):
        a = ct.load(A, index=(bm, k), shape=(tm, tk), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(B, index=(k, bn), shape=(tk, tn), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(a, b, acc)
    ct.store(C, index=(bm, bn), tile=ct.astype(acc, C.dtype))


@ct.kernel
def integer_matmul(A, B, C):
    a = ct.load(A, index=(0, 0), shape=(32, 32))
    b = ct.load(B, index=(0, 0), shape=(32, 32))
    ct.store(C, index=(0, 0), tile=ct.mma(a, b, ct.zeros((32, 32), ct.int32)))


@ct.kernel
def integers(a, b, c):
    x = ct.load(a, index=(ct.bid(0),), shape=(128,))
    y = ct.load(b, index=(ct.bid(0),), shape=(128,))
    z = (x + y) * (x - y) ^ (x & y) | (x << 3) | (y >> 2)
    z = ct.where(x > y, z, -z) + ct.minimum(x, y) + ct.maximum(x, 7) + x // y + x % y
    ct.store(c, index=(ct.bid(0),), tile=z + abs(x) + ~y)


@ct.kernel
def unsigned(a, c):
    x = ct.load(a, index=(ct.bid(0),), shape=(128,))
    y = (x >> 2) + ct.minimum(x, 5) + ct.astype(ct.astype(x, ct.float32), ct.uint32)
    ct.store(c, index=(ct.bid(0),), tile=ct.where(x < 9, y, x))


@ct.kernel
def floats(a, c):
    x = ct.load(a, index=(ct.bid(0), 0), shape=(4, 64))
    y = ct.sqrt(x) + ct.rsqrt(x) + ct.exp2(x) + ct.log(x) + ct.log2(x) + ct.sin(x) * ct.cos(x) - ct.tan(x)
    y = y + ct.sinh(x) + ct.cosh(x) + ct.tanh(x) + ct.floor(x) + ct.ceil(x) + ct.abs(x) + ct.pow(x, y)
    y = ct.where(x <= 1.5, y, -y) + ct.maximum(x, y) + ct.minimum(x, 0.25) + x / y
    ct.store(c, index=(ct.bid(0), 0), tile=y)


@ct.kernel
def modes(a, c):
    x = ct.load(a, index=(ct.bid(0),), shape=(64,))
    y = ct.truediv(x, x, rounding_mode=ct.RoundingMode.APPROX, flush_to_zero=True)
    y = y + ct.sqrt(x, rounding_mode=ct.RoundingMode.APPROX) + ct.exp2(x, flush_to_zero=True)
    y = ct.add(y, x, rounding_mode=ct.RoundingMode.RZ, flush_to_zero=True)
    y = ct.mul(y, x, rounding_mode=ct.RoundingMode.RP) + ct.sub(y, x, rounding_mode=ct.RoundingMode.RM)
    ct.store(c, index=(ct.bid(0),), tile=y)


@ct.kernel
def conversions(a, b, c, d):
    x = ct.load(a, index=(0,), shape=(64,))
    y = ct.astype(x, ct.float16)
    z = ct.astype(ct.astype(y, ct.bfloat16), ct.float32) + ct.astype(ct.astype(x, ct.int32), ct.float32)
    ct.store(b, index=(0,), tile=ct.astype(z, ct.int8))
    ct.store(c, index=(0,), tile=ct.astype(z > 0.0, ct.int32) + ct.bitcast(z, ct.int32))
    ct.store(d, index=(0,), tile=ct.astype(ct.astype(z, ct.int64), ct.uint32))


@ct.kernel
def shapes(a, c):
    x = ct.load(a, index=(0, 0), shape=(16, 32))
    y = ct.transpose(x) + ct.reshape(x, (32, 16))
    z = ct.cat((y, y), 0)
    w = ct.extract(z, index=(1, 0), shape=(16, 16))
    v = ct.permute(ct.reshape(x, (4, 4, 32)), (2, 0, 1))
    i = ct.arange(16, dtype=ct.int32)
    ct.store(c, index=(0, 0), tile=w + ct.sum(ct.reshape(v, (16, 32)), axis=1) + ct.astype(i, ct.float32))


@ct.kernel
def reductions(a, c, d):
    x = ct.load(a, index=(0, 0), shape=(16, 32))
    ct.store(c, index=(0,), tile=ct.prod(x, axis=1) + ct.min(x, axis=1) + ct.cumsum(ct.max(x, axis=1), axis=0))
    ct.store(d, index=(0,), tile=ct.argmax(x, axis=1) + ct.argmin(x, axis=1))


@ct.kernel
def gather(a, i, c):
    idx = ct.load(i, index=(ct.bid(0),), shape=(64,))
    x = ct.gather(a, idx)
    y = ct.gather(a, idx, padding_value=3.0)
    ct.scatter(c, idx, x + y)


@ct.kernel
def control_flow(a, c, n, flag):
    x = ct.load(a, index=(ct.bid(0),), shape=(64,))
    total = ct.zeros((64,), dtype=ct.float32)
    for k in range(0, n, 2):
        if k > flag:
            total = total + x
        else:
            total = total * 2.0
        for j in range(k):
            if j == 5:
                continue
            total = total - 1.0
    i = 0
    while i < n:
        total = total + 1.0
        i = i + 1
        if i > flag:
            break
    if flag == 3:
        return
    ct.store(c, index=(ct.bid(0),), tile=total)


@ct.kernel
def atomics(a, i, c):
    idx = ct.load(i, index=(ct.bid(0),), shape=(64,))
    old = ct.atomic_add(a, idx, 1)
    old = old + ct.atomic_max(a, idx, old) + ct.atomic_xchg(a, idx, 2)
    old = old + ct.atomic_cas(a, idx, old, 5)
    ct.store(c, index=(ct.bid(0),), tile=old)


@ct.kernel
def debugging(a, x):
    t = ct.load(a, index=(0,), shape=(8,))
    ct.printf("value %f at %d\n", t, x)
    ct.assert_(t > 0.0, "positive only")


@ct.kernel
def grid(a):
    v = ct.bid(0) + ct.bid(1) * ct.num_blocks(0) + ct.bid(2) * ct.num_blocks(1)
    ct.store(a, index=(0,), tile=ct.full((1,), v, dtype=ct.int32))


@ct.kernel(num_ctas=2, occupancy=3)
def hints(a, c):
    x = ct.load(a, index=(ct.bid(0),), shape=(64,), latency=4)
    ct.store(c, index=(ct.bid(0),), tile=x, allow_tma=False)


@ct.kernel
def constants(a, b):
    ct.store(a, index=(0,), tile=ct.full((8,), float("nan"), ct.float64) + 1.0e-310)
    ct.store(b, index=(0,), tile=ct.full((8,), True, ct.bool_))


@ct.kernel
def strided(a, c):
    view = a.tiled_view((4, 8), padding_mode=ct.PaddingMode.NAN, traversal_steps=(2, 8))
    ct.store(c, index=(0, 0), tile=view.load((ct.bid(0), 1)))


@ct.kernel
def sparse(a, i, c, start):
    rows = ct.load(i, index=(0,), shape=(8,))
    x = ct.load_advanced_indexing(a, (rows, ct.Slice(start, 16)), padding_mode=ct.PaddingMode.ZERO)
    ct.store_advanced_indexing(c, (rows, ct.Slice(0, 16)), x)


@ct.kernel
def view_atomics(a, c):
    x = ct.load(a, index=(0, 0), shape=(4, 8))
    c.tiled_view((4, 8)).atomic_store_add((0, 0), x)


@ct.kernel
def bytes_and_slots(a, c):
    x = ct.load(a, index=(0,), shape=(16,))
    packed = ct.pack_to_bytes(x)
    y = ct.unpack_from_bytes(packed, ct.float32)
    ct.store(c, index=(0,), tile=ct.insert(y, (1,), ct.full((4,), 2.0, ct.float32)))


@ct.kernel
def scaled(a, sa, b, sb, c):
    x = ct.load(a, index=(0, 0), shape=(64, 64))
    y = ct.load(b, index=(0, 0), shape=(64, 64))
    xs = ct.load(sa, index=(0, 0), shape=(64, 2))
    ys = ct.load(sb, index=(0, 0), shape=(2, 64))
    ct.store(c, index=(0, 0), tile=ct.mma_scaled(x, xs, y, ys, ct.zeros((64, 64), ct.float32)))


@ct.kernel
def dependent_grid(a):
    ct.grid_dependency_control_wait()
    x = ct.load(a, index=(0,), shape=(16,))
    ct.grid_dependency_control_launch_dependents()
    ct.store(a, index=(0,), tile=x + 1)


def twice(x):
    return half(x) * 4.0


def half(x):
    return x / 2.0


@ct.kernel
def calls(a, c):
    x = ct.load(a, index=(0,), shape=(16,))
    ct.store(c, index=(0,), tile=twice(x) + ct.reduce(x, 0, lambda p, q: half(p + p) + q, 0.0))


@ct.kernel
def batched(A, B, C):
    a = ct.load(A, index=(0, 0, 0), shape=(2, 16, 16))
    b = ct.load(B, index=(0, 0, 0), shape=(2, 16, 16))
    ct.store(C, index=(0, 0, 0), tile=ct.mma(a, b, ct.zeros((2, 16, 16), ct.float32)))


@ct.kernel
def ordered(a, c):
    flag = ct.atomic_add(a, 0, 1, memory_order=ct.MemoryOrder.ACQ_REL, memory_scope=ct.MemoryScope.DEVICE)
    ct.store(c, index=(0,), tile=ct.full((8,), flag, ct.int32))
    ct.atomic_and(a, 0, 7, memory_order=ct.MemoryOrder.RELAXED, memory_scope=ct.MemoryScope.SYS)


@ct.kernel
def tables(rows, n, c):
    total = ct.zeros((16,), ct.float32)
    for k in range(n):
        total = total + ct.load(rows[k], index=(0,), shape=(16,))
    ct.store(c, index=(0,), tile=total)


@ct.kernel
def more_math(a, i, c):
    x = ct.load(a, index=(0,), shape=(16,))
    k = ct.load(i, index=(0,), shape=(16,))
    y = ct.atan2(x, x + 1.0) + ct.exp(x) + ct.pow(x, 2.5)
    y = y + ct.astype(ct.isnan(x), ct.float32) + ct.tanh(x, rounding_mode=ct.RoundingMode.APPROX)
    q, r = ct.divmod(k, 3)
    ct.store(c, index=(0,), tile=y + ct.astype(q - r, ct.float32) + ct.cumprod(x, axis=0, reverse=True))


@ct.kernel
def remainders(a, i, c):
    x = ct.load(a, index=(0,), shape=(16,))
    k = ct.load(i, index=(0,), shape=(16,))
    ct.store(c, index=(0,), tile=x % 1.5 + x // 0.75 + ct.pow(x, k) + ct.pow(x, 3))


@ct.kernel
def roundings(a, b, c, d):
    x = ct.load(a, index=(0,), shape=(16,))
    y = ct.load(b, index=(0,), shape=(16,))
    t = ct.astype(x, ct.tfloat32, rounding_mode=ct.RoundingMode.RA)
    u = ct.astype(ct.astype(x, ct.tfloat32, rounding_mode=ct.RoundingMode.RZ), ct.float32)
    v = ct.astype(y, ct.float32, rounding_mode=ct.RoundingMode.RM)
    w = ct.astype(y, ct.float32, rounding_mode=ct.RoundingMode.RP)
    h = ct.astype(ct.astype(x, ct.bfloat16, rounding_mode=ct.RoundingMode.RZ), ct.float32)
    ct.store(c, index=(0,), tile=ct.astype(t, ct.float32) + u + v + w + h)
    ct.store(d, index=(0,), tile=ct.astype(x, ct.float16, rounding_mode=ct.RoundingMode.RZ))


@ct.kernel
def scale_formats(a, b, c, d):
    x = ct.load(a, index=(0,), shape=(16,))
    y = ct.astype(x, ct.float8_e8m0fnu, rounding_mode=ct.RoundingMode.RP)
    z = ct.astype(x, ct.float4_e2m1fn)
    ct.store(b, index=(0,), tile=y)
    ct.store(c, index=(0,), tile=ct.astype(y, ct.float32) + ct.astype(z, ct.float32))
    ct.store(d, index=(0,), tile=ct.pack_to_bytes(z))


@ct.kernel
def unsigned_scales(a, b, c):
    x = ct.load(a, index=(0,), shape=(16,))
    y = ct.astype(x, ct.float8_e5m3fnu) if b.dtype == ct.float8_e5m3fnu else x
    ct.store(b, index=(0,), tile=y)
    ct.store(c, index=(0,), tile=ct.astype(y, ct.float32) + ct.astype(ct.full((16,), 1.75, b.dtype), ct.float32))


@ct.kernel
def small_floats(a, b, c):
    x = ct.load(a, index=(0,), shape=(16,))
    y = ct.astype(x, ct.float8_e4m3fn)
    ct.store(b, index=(0,), tile=ct.astype(x, ct.float8_e5m2))
    ct.store(c, index=(0,), tile=ct.astype(y, ct.float32) + ct.astype(ct.bitcast(y, ct.int8), ct.float32))


@ct.kernel
def leaving(a, n):
    while True:
        ct.store(a, index=(0,), tile=ct.full((8,), n, ct.int32))
        return


@ct.kernel
def leaving_early(a, n, m):
    for i in range(n):
        if i == m:
            return
        ct.store(a, index=(i,), tile=ct.full((8,), i, ct.int32))


@ct.kernel
def combiners(a, c, d):
    x = ct.load(a, index=(0, 0), shape=(8, 16))
    ct.store(c, index=(0,), tile=ct.reduce(x, 1, lambda p, q: p + q // 3 - q % 5, 0))
    y, z = ct.scan((x, x), 1, lambda p, q, r, s: (ct.maximum(p, r), q + s), (0, 0), reverse=True)
    ct.store(d, index=(0, 0), tile=y - z)


@ct.kernel
def more_atomics(a, u, f, i, c):
    at = ct.load(i, index=(ct.bid(0),), shape=(64,))
    old = ct.atomic_min(a, at, 3) + ct.atomic_or(a, at, at) + ct.atomic_xor(a, at, 5) + ct.atomic_and(a, at, 0xFFFF)
    seven = ct.full((64,), 7, ct.uint32)
    old = old + ct.astype(ct.atomic_max(u, at, seven) + ct.atomic_min(u, at, seven), ct.int32)
    ct.atomic_add(f, at, 0.5, memory_order=ct.MemoryOrder.RELAXED, check_bounds=False)
    ct.atomic_xchg(f, at, 1.5, memory_order=ct.MemoryOrder.RELEASE)
    ct.store(c, index=(ct.bid(0),), tile=old)


@ct.kernel
def more_view_atomics(a, c, u):
    x = ct.load(a, index=(0, 0), shape=(4, 8))
    view = c.tiled_view((4, 8))
    view.atomic_store_max((0, 0), x)
    view.atomic_store_min((1, 0), x)
    view.atomic_store_and((0, 0), x)
    view.atomic_store_or((1, 0), x)
    view.atomic_store_xor((0, 0), x)
    u.tiled_view((4, 8)).atomic_store_max((0, 0), ct.astype(x, ct.uint32))


@ct.kernel
def accesses(a, i, c):
    at = ct.load(i, index=(0,), shape=(16,), check_bounds=False, allow_tma=False)
    x = ct.load(a, index=(1,), shape=(16,), memory_order=ct.MemoryOrder.ACQUIRE, memory_scope=ct.MemoryScope.DEVICE)
    y = ct.gather(a, at, mask=at < 9, padding_value=-1.0, latency=2)
    z = ct.gather(a, at, check_bounds=False)
    ct.scatter(c, at, x + y + z, mask=at > 1)
    ct.store(c, index=(2,), tile=y, check_bounds=False, latency=7, allow_tma=False)
    ct.store(c, index=(1,), tile=x, memory_order=ct.MemoryOrder.RELEASE, memory_scope=ct.MemoryScope.SYS)


@ct.kernel
def transposed(a, c):
    x = ct.load(a, index=(0, 0), shape=(8, 4), order="F", padding_mode=ct.PaddingMode.POS_INF)
    y = ct.load(a, index=(0, 0), shape=(4, 8), padding_mode=ct.PaddingMode.NEG_ZERO)
    ct.store(c, index=(0, 0), tile=ct.transpose(x) + y)


@ct.kernel(num_ctas=ct.ByTarget(sm_90=2, default=1), occupancy=ct.ByTarget(sm_80=2), opt_level=2)
def hints_by_target(a, c):
    x = ct.load(a, index=(ct.bid(0),), shape=(64,))
    ct.store(c, index=(ct.bid(0),), tile=ct.broadcast_to(ct.expand_dims(ct.sum(x), 0), (64,)) + ct.ones((64,), x.dtype))


@ct.kernel
def promises(a, c, n):
    m = ct.assume_divisible_by(n, 16)
    total = ct.zeros((16,), ct.float32)
    for k in range(0, m, 16):
        total = total + ct.load(a, index=(k // 16,), shape=(16,))
    for k in ct.static_iter(range(3)):
        total = total + k
    ct.store(c, index=(0,), tile=total)


@ct.kernel
def wide_integers(a, c):
    x = ct.load(a, index=(0,), shape=(32,))
    y = (x << 3) ^ (x >> 1) | ~x & 0x7F
    y = y + x % 7 + ct.cdiv(x, 5) + ct.minimum(x, 100) * ct.maximum(x, 2)
    ct.store(c, index=(0,), tile=ct.where(x >= 5, y, ct.where(x != 3, x, -x)))


@ct.kernel
def printing(a, n):
    t = ct.load(a, index=(0,), shape=(4,))
    ct.print(f"{t:.3f}", n, sep=", ", end=";")


_1D = "f32[?]"
_TABLE = ct.compilation.ListConstraint(array("f32[?]"), alias_groups=(), elements_may_alias=False)
EXPORTS = {
    "vector_add_f32": (vector_add, "13.1", _1D, _1D, _1D, 1024),
    "vector_add_f64": (vector_add, "13.1", "f64[?]", "f64[?]", "f64[?]", 256),
    "vector_add_u8": (vector_add, "13.1", "u8[16*?]", "u8[16*?]", "u8[16*?]", 256),
    "vector_add_fixed": (vector_add, "13.3", "f32[4096]", "f32[4096]", "f32[4096]", 256),
    "softmax_f16": (softmax, "13.1", "f16[?, 8*?]", "f16[?, 8*?]", 512),
    "softmax_f64": (softmax, "13.1", "f64[?, ?]", "f64[?, ?]", 64),
    "matmul_f16": (matmul, "13.1", "f16[?, ?]", "f16[?, ?]", "f16[?, ?]", 128, 128, 64),
    "matmul_f32": (matmul, "13.1", "f32[?, ?]", "f32[?, ?]", "f32[?, ?]", 32, 32, 16),
    "matmul_tf32": (matmul, "13.1", "tf32[?, ?]", "tf32[?, ?]", "f32[?, ?]", 32, 32, 16),
    "matmul_f8": (matmul, "13.1", "f8e4m3fn[?, ?]", "f8e4m3fn[?, ?]", "f32[?, ?]", 32, 32, 32),
    "matmul_i8": (integer_matmul, "13.1", "i8[?, ?]", "u8[?, ?]", "i32[?, ?]"),
    "integers_i32": (integers, "13.1", "i32[?]", "i32[?]", "i32[?]"),
    "integers_i64": (integers, "13.1", "i64[?]", "i64[?]", "i64[?]"),
    "unsigned_u32": (unsigned, "13.1", "u32[?]", "u32[?]"),
    "floats_f32": (floats, "13.1", "f32[?, ?]", "f32[?, ?]"),
    "floats_f64": (floats, "13.1", "f64[?, ?]", "f64[?, ?]"),
    "modes_f32": (modes, "13.1", _1D, _1D),
    "conversions": (conversions, "13.1", _1D, "i8[?]", "i32[?]", "u32[?]"),
    "shapes": (shapes, "13.1", "f32[?, ?]", "f32[?, ?]"),
    "reductions_f32": (reductions, "13.1", "f32[?, ?]", "f32[?]", "i32[?]"),
    "reductions_i64": (reductions, "13.1", "i64[?, ?]", "i64[?]", "i32[?]"),
    "gather": (gather, "13.1", _1D, "i32[?]", _1D),
    "control_flow": (control_flow, "13.1", _1D, _1D, "i32", "i32"),
    "atomics": (atomics, "13.1", "i32[?]", "i32[?]", "i32[?]"),
    "debugging": (debugging, "13.1", _1D, "i32"),
    "grid": (grid, "13.1", "i32[?]"),
    "hints": (hints, "13.1", _1D, _1D),
    "strided": (strided, "13.3", "f32[?, ?]", "f32[?, ?]"),
    "sparse": (sparse, "13.3", "f32[?, 4*?]", "i32[?]", "f32[?, 4*?]", "i32"),
    "view_atomics": (view_atomics, "13.3", "f32[?, ?]", "f32[?, ?]"),
    "bytes_and_slots": (bytes_and_slots, "13.4", _1D, _1D),
    "scaled": (scaled, "13.3", "f8e4m3fn[?, ?]", "f8e8m0fnu[?, ?]", "f8e4m3fn[?, ?]", "f8e8m0fnu[?, ?]", "f32[?, ?]"),
    "dependent_grid": (dependent_grid, "13.4", _1D),
    "calls": (calls, "13.1", _1D, _1D),
    "batched": (batched, "13.1", "f16[?, ?, ?]", "f16[?, ?, ?]", "f32[?, ?, ?]"),
    "ordered": (ordered, "13.1", "i32[?]", "i32[?]"),
    "tables": (tables, "13.1", _TABLE, "i32", _1D),
    "more_math": (more_math, "13.2", _1D, "i32[?]", _1D),
    "constants": (constants, "13.1", "f64[?]", "bool[?]"),
    "remainders": (remainders, "13.1", _1D, "i32[?]", _1D),
    "roundings": (roundings, "13.4", _1D, "f64[?]", _1D, "f16[?]"),
    "scale_formats": (scale_formats, "13.4", _1D, "f8e8m0fnu[?]", _1D, "u8[?]"),
    "unsigned_scales": (unsigned_scales, "13.4", _1D, "f8e5m3fnu[?]", _1D),
    "small_floats": (small_floats, "13.1", _1D, "f8e5m2[?]", _1D),
    "leaving": (leaving, "13.1", "i32[?]", "i32"),
    "leaving_early": (leaving_early, "13.1", "i32[?]", "i32", "i32"),
    "combiners": (combiners, "13.1", "i32[?, ?]", "i32[?]", "i32[?, ?]"),
    "more_atomics": (more_atomics, "13.1", "i32[?]", "u32[?]", _1D, "i32[?]", "i32[?]"),
    "more_view_atomics": (more_view_atomics, "13.3", "i32[?, ?]", "i32[?, ?]", "u32[?, ?]"),
    "accesses": (accesses, "13.4", _1D, "i32[?]", _1D),
    "transposed": (transposed, "13.1", "f32[?, ?]", "f32[?, ?]"),
    "hints_by_target": (hints_by_target, "13.1", _1D, _1D),
    "promises": (promises, "13.1", _1D, _1D, "i32"),
    "wide_integers_u64": (wide_integers, "13.1", "u64[?]", "u64[?]"),
    "wide_integers_i16": (wide_integers, "13.1", "i16[?]", "i16[?]"),
    "wide_integers_i8": (wide_integers, "13.1", "i8[?]", "i8[?]"),
    "printing": (printing, "13.1", _1D, "i32"),
}


NEEDS_GPU = {"matmul_f8": "sm_100", "scaled": "sm_100", "scale_formats": "sm_100", "unsigned_scales": "sm_107"}
"""Kernels with element types that sm_90 does not have."""


@functools.cache
def export(name, version):
    """The bytecode of one kernel of EXPORTS."""
    import io
    from unittest import mock

    from cuda.tile.compilation import export_kernel

    kernel, _, *parameters = EXPORTS[name]
    output = io.BytesIO()
    signature = kernel_signature(name, tuple(parameters))
    gpu_code = NEEDS_GPU.get(name, "sm_90")
    # 13.5 is written by the front end's development features.
    with mock.patch("cuda.tile._compile.dev_features_enabled", lambda: version == "13.5"):
        export_kernel(
            kernel, [signature], output, gpu_code=gpu_code, output_format="tileir_bytecode", bytecode_version=version
        )
    return output.getvalue()
