"""Loads, stores, state spaces, address conversions, atomics."""

import ml_dtypes
import numpy as np
import pytest

from tileiras.sim import EmulationError, emulate


@pytest.mark.parametrize("space", ["global", "shared", "local"])
@pytest.mark.parametrize(
    ("vector", "width"), [("", 8), ("", 16), ("", 32), ("", 64), (".v2", 32), (".v4", 32), (".v2", 64), (".v4", 16)]
)
def test_round_trip_through_every_space(kernel, space, vector, width):
    count = int(vector[2:] or 1)
    register = {8: "%h", 16: "%h", 32: "%r", 64: "%q"}[width]
    parts = ", ".join(f"{register}{20 + i}" for i in range(count))
    parts = f"{{{parts}}}" if vector else parts
    size = count * width // 8
    declare = {
        "global": "",
        "shared": f".shared .align 16 .b8 mine[{64 * size}];",
        "local": f".local .align 16 .b8 mine[{size}];",
    }[space]
    place = {
        "global": "mov.b64 %q9, %q2;",
        "local": "mov.u64 %q9, mine;",
        "shared": f"mov.u64 %q9, mine; mad.wide.u32 %q9, %r1, {size}, %q9;",
    }[space]
    window = {"global": "cvta.global.u64", "shared": "cvta.shared.u64", "local": "cvta.local.u64"}[space]
    body = f"""
        {declare}
        mov.u32 %r1, %tid.x; mad.wide.u32 %q1, %r1, {size}, %a0; mad.wide.u32 %q2, %r1, {size}, %a1;
        {place} {window} %q10, %q9;
        ld.global{vector}.b{width} {parts}, [%q1]; st.{space}{vector}.b{width} [%q9], {parts};
        ld{vector}.b{width} {parts}, [%q10]; st{vector}.b{width} [%q10], {parts};
        ld.{space}{vector}.b{width} {parts}, [%q9]; st.global{vector}.b{width} [%q2], {parts};
    """
    ptx = kernel(body, (".u64", ".u64"), threads=64)
    for seed in (None, 0):
        source = np.random.default_rng(0).integers(0, 256, 64 * size).astype(np.uint8)
        out = np.zeros_like(source)
        emulate(ptx, "k", 1, [source, out], seed=seed)
        assert (source == out).all()


def test_narrow_loads_extend_and_narrow_stores_truncate(kernel):
    body = """
        ld.global.s8 %r1, [%a0]; ld.global.u8 %r2, [%a0]; ld.global.s16 %r3, [%a0]; ld.global.s8 %h1, [%a0];
        ld.global.s32 %q1, [%a0+4]; st.global.b32 [%a1], %r1; st.global.b32 [%a1+4], %r2; st.global.b32 [%a1+8], %r3;
        st.global.b16 [%a1+12], %h1; st.global.b8 [%a1+14], %r3; st.global.b64 [%a1+16], %q1;
    """
    source, out = np.array([0xFFFF8580, 0xFFFFFFF6], np.uint32), np.zeros(3, np.uint64)
    emulate(kernel(body, (".u64", ".u64"), threads=1), "k", 1, [source, out])
    words = out.view(np.uint32)
    assert [hex(w) for w in words[:3]] == ["0xffffff80", "0x80", "0xffff8580"]
    assert out.view(np.uint8)[12:15].tolist() == [0x80, 0xFF, 0x80] and out[2] == 2**64 - 10


def test_generic_addresses_of_several_spaces_in_one_load(kernel):
    body = """
        .shared .align 4 .b8 tile[128]; .local .align 4 .b8 mine[4];
        mov.u32 %r1, %tid.x; mov.u64 %q1, tile; mad.wide.u32 %q1, %r1, 4, %q1; mov.u64 %q2, mine;
        mad.wide.u32 %q3, %r1, 4, %a0; add.u32 %r2, %r1, 1000; st.shared.u32 [%q1], %r2;
        add.u32 %r2, %r1, 2000; st.local.u32 [%q2], %r2;
        cvta.shared.u64 %q4, %q1; cvta.local.u64 %q5, %q2; rem.u32 %r3, %r1, 3;
        setp.eq.u32 %p1, %r3, 0; setp.eq.u32 %p2, %r3, 1; selp.b64 %q6, %q4, %q5, %p1; selp.b64 %q6, %q3, %q6, %p2;
        isspacep.shared %p3, %q6; isspacep.global %p4, %q6; isspacep.local %p5, %q6;
        selp.u32 %r4, 1, 0, %p3; selp.u32 %r5, 2, 0, %p4; selp.u32 %r6, 4, 0, %p5;
        or.b32 %r4, %r4, %r5; or.b32 %r4, %r4, %r6;
        ld.u32 %r7, [%q6]; mad.lo.u32 %r7, %r4, 100000, %r7; st.global.u32 [%q3], %r7;
    """
    data = np.arange(32, dtype=np.uint32)
    emulate(kernel(body), "k", 1, [data])
    t = np.arange(32)
    expected = np.choose(t % 3, [101000 + t, 200000 + t, 402000 + t])
    assert (data == expected).all()


CONSTANTS = """
.const .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3};
.global .align 8 .u64 pointers[2] = {other+4, generic(other)};
.global .align 4 .f32 other[2] = {0f40490FDB, -1.5};
.global .align 4 .u32 fresh;
"""


def test_module_variables(assemble):
    # ptxas wants initialisers of the type of an address of the variable's own space; those have their own test.
    variables = CONSTANTS.replace("pointers[2] = {other+4, generic(other)};", "pointers[2];")
    ptx = f""".version 8.6\n.target sm_90\n.address_size 64\n{variables}
.visible .entry k(.param .u64 k_0) .reqntid 4 {{
    .reg .b32 %r<9>; .reg .b64 %q<9>; .reg .f32 %f<4>;
    ld.param.u64 %q1, [k_0]; mov.u32 %r1, %tid.x; mov.u64 %q2, table; mad.wide.u32 %q2, %r1, 4, %q2;
    ld.const.u32 %r2, [%q2]; mad.wide.u32 %q3, %r1, 4, %q1; st.global.u32 [%q3], %r2;
    ld.global.f32 %f1, [other]; ld.global.f32 %f2, [other+4]; st.global.v2.f32 [%q1+16], {{%f1, %f2}};
    atom.global.add.u32 %r3, [fresh], 1; ret; }}"""
    assemble(ptx, "sm_90")
    for _ in range(2):
        out = np.zeros(6, np.uint32)
        emulate(ptx, "k", 1, [out])
        assert out[:4].tolist() == [1, 2, 3, 0]
        assert out[4:].view(np.float32).tolist() == [np.float32(np.pi), -1.5]


def test_initialisers_hold_addresses():
    ptx = f""".version 8.6\n.target sm_90\n.address_size 64\n{CONSTANTS}
.visible .entry k(.param .u64 k_0) .reqntid 1 {{
    .reg .b64 %q<9>; .reg .f32 %f<4>;
    ld.param.u64 %q1, [k_0]; ld.global.u64 %q2, [pointers]; ld.global.u64 %q3, [pointers+8];
    ld.f32 %f1, [%q2]; ld.f32 %f2, [%q3]; st.global.v2.f32 [%q1], {{%f1, %f2}}; ret; }}"""
    out = np.zeros(2, np.float32)
    emulate(ptx, "k", 1, [out])
    assert out.tolist() == [-1.5, np.float32(np.pi)]


def test_parameters_by_value(compile_ir):
    ir = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define ptx_kernel void @k(ptr addrspace(1) %out, ptr byval([64 x i8]) align 64 "nvvm.grid_constant" %data, i8 %c) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr i8, ptr %data, i32 %t
  %v = load i8, ptr %p
  %s = add i8 %v, %c
  %q = getelementptr i8, ptr addrspace(1) %out, i32 %t
  store i8 %s, ptr addrspace(1) %q
  ret void
}"""
    out = np.zeros(64, np.uint8)
    emulate(compile_ir(ir), "k", 1, [out, bytes(range(64)), 3], block=64)
    assert (out == np.arange(64) + 3).all()


def test_dynamic_shared_memory_has_the_size_asked_for(kernel):
    body = """
        mov.u32 %r1, dyn; add.u32 %r1, %r1, 96; st.shared.u32 [%r1], 5; ld.shared.u32 %r2, [%r1];
        st.global.u32 [%a0], %r2;
        mov.u32 %r3, %dynamic_smem_size; st.global.u32 [%a0+4], %r3;
    """
    ptx = kernel(body, threads=1, declarations=".extern .shared .align 128 .b8 dyn[];")
    out = np.zeros(2, np.uint32)
    emulate(ptx, "k", 1, [out], shared_memory=100)
    assert out.tolist() == [5, 100]
    emulate(ptx, "k", 1, [out], {"name": "k", "shared_memory": 100, "block": [1, 1, 1]})
    with pytest.raises(EmulationError, match="outside the block's shared memory"):
        emulate(ptx, "k", 1, [out], shared_memory=96)


def test_uninitialised_shared_memory(kernel):
    ptx = kernel(
        ".shared .align 4 .b8 tile[8]; st.shared.u16 [tile], 1; ld.shared.u32 %r1, [tile]; st.global.u32 [%a0], %r1;"
    )
    with pytest.raises(EmulationError, match="read before it is written"):
        emulate(ptx, "k", 1, [np.zeros(1, np.uint32)])
    out = np.zeros(1, np.uint32)
    emulate(ptx, "k", 1, [out], check_uninitialised=False)
    assert out[0] == 0xCDCD0001


def test_faults_in_other_spaces(kernel):
    for body, message in (
        (".local .align 4 .b8 mine[4]; mov.u64 %q1, mine; st.local.u32 [%q1+16], 1;", "local address 0x10 is outside"),
        ("mov.u64 %q1, 0; st.global.u32 [%q1], 1;", "in no allocation"),
        ("mov.u64 %q1, 0; ld.u32 %r1, [%q1];", "in no allocation"),
        ("mov.u32 %r1, 0; st.shared.u32 [%r1], 1;", "shared address 0x0 .* is outside"),
    ):
        with pytest.raises(EmulationError, match=message):
            emulate(kernel(body), "k", 1, [np.zeros(1, np.uint32)])


def test_read_only_arrays_cannot_be_written(kernel):
    array = np.zeros(1, np.uint32)
    array.flags.writeable = False
    with pytest.raises(EmulationError, match="read-only"):
        emulate(kernel("st.global.u32 [%a0], 1;"), "k", 1, [array])


# -- atomics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(
    "operation", ["add.u32", "add.u64", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "inc.u32", "exch.b32"]
)
def test_atomics_return_the_old_values(kernel, operation, space):
    """Every value found is the running result of the threads before: sorted, they chain from the first to the last."""
    name, kind = operation.split(".")
    wide = kind.endswith("64")
    r, size = ("%q", 8) if wide else ("%r", 4)
    cell = ".shared .align 8 .b8 cell[8];" if space == "shared" else ""
    target = "cell" if space == "shared" else "%a1"
    prepare = (
        f"setp.ne.u32 %p1, %r11, 0; @!%p1 st.shared.b{8 * size} [cell], 6; bar.sync 0;" if space == "shared" else ""
    )
    finish = (
        f"bar.sync 0; @!%p1 ld.shared.b{8 * size} {r}7, [cell]; @!%p1 st.global.b{8 * size} [%a1], {r}7;"
        if space == "shared"
        else ""
    )
    body = f"""
        {cell} mov.u32 %r11, %tid.x; {prepare}
        mad.wide.u32 %q11, %r11, {size}, %a0; ld.global.b{8 * size} {r}1, [%q11];
        atom.{space}.{operation} {r}2, [{target}], {r}1;
        mad.wide.u32 %q11, %r11, {size}, %a2; st.global.b{8 * size} [%q11], {r}2; {finish}
    """
    dtype = np.dtype({"s32": np.int32, "u64": np.uint64}.get(kind, np.uint32))
    values = np.random.default_rng(2).integers(1, 1000 if name in ("add", "inc") else 2**31, 96).astype(dtype)
    ptx = kernel(body, (".u64",) * 3, threads=96)
    for seed in (None, 0, 1):
        cell, result = np.array([6], dtype), np.zeros(96, dtype)
        emulate(ptx, "k", 1, [values, cell, result], seed=seed)
        pending = list(zip(result.tolist(), values.tolist()))
        steps = {
            "add": lambda old, b: old + b,
            "min": min,
            "max": max,
            "and": lambda old, b: old & b,
            "or": lambda old, b: old | b,
            "xor": lambda old, b: old ^ b,
            "inc": lambda old, b: 0 if old >= b else old + 1,
            "exch": lambda old, b: b,
        }
        if name in ("xor", "exch", "add"):  # the state names the next thread almost surely: replay the chain
            state = 6
            while pending:
                at = next(i for i, (old, _) in enumerate(pending) if old == state)
                state = steps[name](state, pending.pop(at)[1])
            assert state == cell[0]
        elif name == "inc":
            assert cell[0] <= 1000
        else:
            state = 6
            for v in values.tolist():
                state = steps[name](state, v)
            assert cell[0] == state


def test_float_and_packed_reductions(kernel):
    body = """
        mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %r2, %r1; cvt.rn.f64.u32 %q1, %r1; mov.b32 %r3, 0x3C003C00;
        mov.b32 %r4, 0x3F803F80;
        red.global.add.f32 [%a0], %r2; red.global.add.f64 [%a0+8], %q1; red.global.add.noftz.f16x2 [%a0+16], %r3;
        red.global.add.noftz.bf16x2 [%a0+20], %r4; mov.b32 {%h1, _}, %r3; atom.global.add.noftz.f16 %h2, [%a0+24], %h1;
        red.relaxed.gpu.global.add.v2.f32 [%a0+32], {%r2, %r2};
    """
    out = np.zeros(40, np.uint8)
    body = ".reg .f32 %f<4>; .reg .f64 %d<4>;" + body.replace("%r2", "%f2").replace("%q1", "%d1")
    emulate(kernel(body, threads=64), "k", 1, [out])
    assert out[:4].view(np.float32)[0] == 2016 and out[8:16].view(np.float64)[0] == 2016
    assert (out[16:20].view(np.float16) == 64).all() and (out[20:24].view(ml_dtypes.bfloat16) == 64).all()
    assert out[24:26].view(np.float16)[0] == 64 and (out[32:40].view(np.float32) == 2016).all()


@pytest.mark.parametrize("space, kept", [("global", False), ("shared", True)])
def test_f32_sums_flush_subnormals_in_global_memory_alone(kernel, space, kept):
    """PTX ISA, atom: "on global memory flushes subnormal inputs and results to sign-preserving zero"."""
    operations = {
        "global": "red.global.add.f32 [%a1], %r1; red.global.add.f32 [%a1+4], 0f80000000; "
        "red.relaxed.gpu.global.add.v2.f32 [%a1+8], {%r1, %r1};",
        "shared": """.shared .align 4 .b8 cell[16]; ld.global.v4.b32 {%r3, %r4, %r5, %r6}, [%a1];
            st.shared.b32 [cell], %r3; st.shared.b32 [cell+4], %r4; st.shared.b32 [cell+8], %r5;
            st.shared.b32 [cell+12], %r6;
            atom.shared.add.f32 %r2, [cell], %r1; atom.shared.add.f32 %r2, [cell+4], 0f80000000;
            atom.shared.add.f32 %r2, [cell+8], %r1; atom.shared.add.f32 %r2, [cell+12], %r1;
            ld.shared.b32 %r3, [cell]; ld.shared.b32 %r4, [cell+4]; ld.shared.b32 %r5, [cell+8];
            ld.shared.b32 %r6, [cell+12]; st.global.v4.b32 [%a1], {%r3, %r4, %r5, %r6};""",
    }
    tiny, smallest = np.float32(2.0**-149), np.float32(2.0**-126)
    out = np.array([tiny, -tiny, smallest, -smallest], np.float32)
    body = "ld.global.b32 %r1, [%a0];" + operations[space]
    emulate(kernel(body, (".u64",) * 2, threads=1), "k", 1, [np.array([tiny]), out])
    exact = [2 * tiny, -tiny, smallest + tiny, -(smallest - tiny)]
    assert out.tolist() == (exact if kept else [0, 0, smallest, -smallest])
    assert np.signbit(out).tolist() == [False, True, False, True]


def test_compare_and_swap(kernel):
    body = """
        mov.u32 %r1, %tid.x;
        LOOP: ld.volatile.global.u32 %r2, [%a0]; mad.lo.u32 %r3, %r2, 3, 1;
        atom.global.cas.b32 %r4, [%a0], %r2, %r3; setp.ne.u32 %p1, %r4, %r2; @%p1 bra LOOP;
    """
    expected = 0
    for _ in range(64):
        expected = (expected * 3 + 1) % 2**32
    for seed in (None, 0, 1):
        out = np.zeros(1, np.uint32)
        emulate(kernel(body, threads=32), "k", 2, [out], seed=seed)
        assert out[0] == expected


def test_histogram(compile_ir):
    ir = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
define ptx_kernel void @k(ptr addrspace(1) %data, ptr addrspace(1) %bins) "nvvm.reqntid"="256" {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %m = mul i32 %b, 256
  %i = add i32 %m, %t
  %p = getelementptr i8, ptr addrspace(1) %data, i32 %i
  %v = load i8, ptr addrspace(1) %p
  %w = zext i8 %v to i64
  %q = getelementptr i32, ptr addrspace(1) %bins, i64 %w
  %o = atomicrmw add ptr addrspace(1) %q, i32 1 monotonic
  ret void
}"""
    data = np.random.default_rng(0).integers(0, 256, 64 * 256).astype(np.uint8)
    bins = np.zeros(256, np.uint32)
    emulate(compile_ir(ir), "k", 64, [data, bins])
    assert (bins == np.bincount(data, minlength=256)).all()


@pytest.mark.parametrize(("vector", "width"), [("v8", 32), ("v4", 64)])
def test_accesses_of_32_bytes(kernel, vector, width):
    register, count = {32: "%r", 64: "%q"}[width], int(vector[1])
    parts = ", ".join(f"{register}{20 + i}" for i in range(count))
    body = f"""
        mov.u32 %r1, %tid.x; mad.wide.u32 %q1, %r1, 32, %a0; mad.wide.u32 %q2, %r1, 32, %a1;
        createpolicy.fractional.L2::evict_first.b64 %q3, 1.0;
        ld.global.{vector}.b{width} {{{parts}}}, [%q1]; st.global.{vector}.b{width} [%q2], {{{parts}}};
    """
    source = np.random.default_rng(0).integers(0, 256, 32 * 32).astype(np.uint8)
    out = np.zeros_like(source)
    emulate(kernel(body, (".u64", ".u64"), cpu="sm_100"), "k", 1, [source, out])
    assert (source == out).all()
