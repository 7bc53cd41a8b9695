"""Tiled and pointer accesses on the emulator: ragged edges, padding, strides, masks, order."""

import numpy as np
import pytest

import tileiras
from tests.tileas_stage import ptx
from tileiras import runtime
from tileiras.sim import Memory, emulate

SPEC = 'attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"}'
MEMREF = "!nv_tileaa.memref<?x?xf32, strides = [?, 1]>"
TURNED = "!nv_tileaa.memref<?x?xf32, strides = [1, ?]>"


def two_dimensional(padding: str, assume: str = "%n", source=MEMREF, target=MEMREF) -> str:
    """Copies 32 x 64 tiles; the padding read outside the source is stored where the target is larger."""
    read = f"!nv_tileaa.tiled_view<[32, 64], {source}{padding}>"
    write = f"!nv_tileaa.tiled_view<[32, 64], {target}>"
    return f"""
builtin.module {{
  nv_tileaa.func @copy(%a: !nv_tileaa.ptr<f32>, %b: !nv_tileaa.ptr<f32>, %m: i32, %n: i32, %sa: i32, %r: i32, %c: i32,
                       %sb: i32) {SPEC} {{
    %pa = nv_tileaa.assume #nv_tileaa.div_by<16>, %a : !nv_tileaa.ptr<f32>
    %n16 = nv_tileaa.assume #nv_tileaa.div_by<16>, %n : i32
    %sa16 = nv_tileaa.assume #nv_tileaa.div_by<16>, %sa : i32
    %ma = nv_tileaa.make_memref %pa, sizes = [%m, {assume}], strides = [%sa16]
      : !nv_tileaa.ptr<f32>, (i32, i32), (i32) -> {source}
    %mb = nv_tileaa.make_memref %b, sizes = [%r, %c], strides = [%sb]
      : !nv_tileaa.ptr<f32>, (i32, i32), (i32) -> {target}
    %va = nv_tileaa.block_tile %ma : {read}
    %vb = nv_tileaa.block_tile %mb : {write}
    %i = nv_tileaa.get_program_id x : i32
    %j = nv_tileaa.get_program_id y : i32
    %x, %t = nv_tileaa.tiled_load %va[%i, %j] : {read}, (i32, i32) -> tensor<32x64xf32>, !nv_tileaa.mem_token
    %s = nv_tileaa.tiled_store %x, %vb[%i, %j] token = %t
      : tensor<32x64xf32>, {write}, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("kind", "value"),
    [("zero", 0.0), ("neg_zero", -0.0), ("nan", np.nan), ("pos_inf", np.inf), ("neg_inf", -np.inf)],
)
def test_outside_reads_padding_and_writes_nothing(kind, value):
    text = ptx(two_dimensional(f", padding = #nv_tileaa.padding_value<{kind}>"))
    m, n, stride = 40, 70, 80
    a = np.random.default_rng(0).standard_normal((m, stride)).astype(np.float32)
    b = np.full((64, 128), 7, np.float32)
    emulate(text, "copy", (2, 2, 1), [a, b, m, n, stride, 64, 120, 128])
    expected = np.full((64, 128), 7, np.float32)
    expected[:, :120] = value
    expected[:m, :n] = a[:, :n]
    assert np.array_equal(b.view(np.uint32), expected.view(np.uint32))


UNSIGNED = """cuda_tile.module @m {
  entry @k(%from: tile<ptr<f32>>, %to: tile<ptr<f32>>, %sizes: tile<ptr<i64>>, %n: tile<i32>, %apart: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %in = make_tensor_view %from, shape = [%n, 4], strides = [%apart, 1]
      : tile<i32> -> tensor_view<?x4xf32, strides=[?, 1]>
    %out = make_tensor_view %to, shape = [1, 4], strides = [4, 1] : tensor_view<1x4xf32, strides=[4, 1]>
    %rows = make_partition_view %in
      : partition_view<tile=(1x4), padding_value = zero, tensor_view<?x4xf32, strides=[?, 1]>>
    %row = make_partition_view %out : partition_view<tile=(1x4), tensor_view<1x4xf32, strides=[4, 1]>>
    %x, %t0 = load_view_tko weak %rows[%zero, %zero]
      : partition_view<tile=(1x4), padding_value = zero, tensor_view<?x4xf32, strides=[?, 1]>>, tile<i32>
      -> tile<1x4xf32>, token
    %t1 = store_view_tko weak %x, %row[%zero, %zero]
      : tile<1x4xf32>, partition_view<tile=(1x4), tensor_view<1x4xf32, strides=[4, 1]>>, tile<i32> -> token
    %size, %four = get_tensor_shape %in : tensor_view<?x4xf32, strides=[?, 1]> -> tile<i64>
    %t2 = store_ptr_tko weak %sizes, %size : tile<ptr<i64>>, tile<i64> -> token
    return
  }
}"""


@pytest.mark.parametrize("target", ["sm_90", "sm_100", "cpu"])
def test_sizes_and_strides_are_unsigned(target):
    a, b, sizes = np.arange(4, dtype=np.float32), np.zeros(4, np.float32), np.zeros(1, np.int64)
    artifact = tileiras.compile(UNSIGNED, gpu_name=target, source_name="k.mlir")
    arguments = [a, b, sizes, -2, 1 << 31]
    if target == "cpu":
        runtime.launch(artifact, "k", 1, arguments)
    else:
        emulate(artifact.text, "k", 1, arguments)
    assert sizes[0] == (1 << 32) - 2 and (a == b).all()


def test_rows_of_known_multiples_are_read_by_predicated_vectors():
    text = ptx(two_dimensional("", "%n16"))
    assert "ld.global.v4.b32" in text
    m, n = 33, 80
    a = np.random.default_rng(0).standard_normal((m, n)).astype(np.float32)
    b = np.zeros((64, 128), np.float32)
    emulate(text, "copy", (2, 2, 1), [a, b, m, n, n, m, n, 128])
    assert np.array_equal(b[:m, :n], a) and not b[m:].any() and not b[:, n:].any()


def test_transposed_memory():
    text = ptx(two_dimensional("", target=TURNED))
    m, n = 64, 128
    a = np.random.default_rng(0).standard_normal((m, n)).astype(np.float32)
    b = np.zeros((n, m), np.float32)
    emulate(text, "copy", (2, 2, 1), [a, b, m, n, n, m, n, m], shared_memory=1 << 16)
    assert np.array_equal(b, a.T)


POINTERS = """
builtin.module {
  nv_tileaa.func @pointers(%a: !nv_tileaa.ptr<f16>, %b: !nv_tileaa.ptr<f16>, %n: i32) SPEC {
    %pa = nv_tileaa.assume #nv_tileaa.div_by<16>, %a : !nv_tileaa.ptr<f16>
    %pb = nv_tileaa.assume #nv_tileaa.div_by<16>, %b : !nv_tileaa.ptr<f16>
    %i = nv_tileaa.get_program_id x : i32
    %size = arith.constant 1024 : i32
    %start = arith.muli %i, %size : i32
    %range = nv_tileaa.make_range : tensor<1024xi32>
    %first = nv_tileaa.splat %start : i32 -> tensor<1024xi32>
    %index = arith.addi %first, %range : tensor<1024xi32>
    %limit = nv_tileaa.splat %n : i32 -> tensor<1024xi32>
    %mask = arith.cmpi slt, %index, %limit : tensor<1024xi32>
    %as = nv_tileaa.splat %pa : !nv_tileaa.ptr<f16> -> tensor<1024x!nv_tileaa.ptr<f16>>
    %bs = nv_tileaa.splat %pb : !nv_tileaa.ptr<f16> -> tensor<1024x!nv_tileaa.ptr<f16>>
    %ap = nv_tileaa.addptr %as, %index : tensor<1024x!nv_tileaa.ptr<f16>>, tensor<1024xi32>
    %bp = nv_tileaa.addptr %bs, %index : tensor<1024x!nv_tileaa.ptr<f16>>, tensor<1024xi32>
    %zero = arith.constant dense<1.0> : tensor<1024xf16>
    %x, %t = nv_tileaa.load %ap mask = %mask : tensor<1024xi1> other = %zero : tensor<1024xf16>
      : tensor<1024x!nv_tileaa.ptr<f16>> -> tensor<1024xf16>, !nv_tileaa.mem_token
    %y = nv_tileaa.addf %x, %x : tensor<1024xf16>
    %s = nv_tileaa.store %bp, %y mask = %mask : tensor<1024xi1> token = %t
      : tensor<1024x!nv_tileaa.ptr<f16>>, tensor<1024xf16> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
""".replace("SPEC", SPEC)


def test_masked_pointers():
    text = ptx(POINTERS)
    a = np.arange(1500, dtype=np.float16)
    b = np.zeros(2048, np.float16)
    emulate(text, "pointers", 2, [a, b, 1500])
    assert np.array_equal(b[:1500], a + a) and not b[1500:].any()


ORDERED = """
builtin.module {
  nv_tileaa.func @ordered(%a: !nv_tileaa.ptr<f32>) SPEC {
    %z = arith.constant 0 : i32
    %ma = nv_tileaa.make_memref %a, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> ROWS
    %mt = nv_tileaa.make_memref %a, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> COLUMNS
    %va = nv_tileaa.block_tile %ma : !nv_tileaa.tiled_view<[32, 32], ROWS>
    %vt = nv_tileaa.block_tile %mt : !nv_tileaa.tiled_view<[32, 32], COLUMNS>
    %x, %t0 = nv_tileaa.tiled_load %va[%z, %z]
      : !nv_tileaa.tiled_view<[32, 32], ROWS>, (i32, i32) -> tensor<32x32xf32>, !nv_tileaa.mem_token
    %y = nv_tileaa.addf %x, %x : tensor<32x32xf32>
    %t1 = nv_tileaa.tiled_store %y, %va[%z, %z] token = %t0
      : tensor<32x32xf32>, !nv_tileaa.tiled_view<[32, 32], ROWS>, (i32, i32) -> !nv_tileaa.mem_token
    %u, %t2 = nv_tileaa.tiled_load %VIEW[%z, %z] token = %t1
      : !nv_tileaa.tiled_view<[32, 32], KIND>, (i32, i32) -> tensor<32x32xf32>, !nv_tileaa.mem_token
    %w = nv_tileaa.addf %u, %u : tensor<32x32xf32>
    %t3 = nv_tileaa.tiled_store %w, %VIEW[%z, %z] token = %t2
      : tensor<32x32xf32>, !nv_tileaa.tiled_view<[32, 32], KIND>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
""".replace("SPEC", SPEC)
ROWS = "!nv_tileaa.memref<32x32xf32, strides = [32, 1]>"
COLUMNS = "!nv_tileaa.memref<32x32xf32, strides = [1, 32]>"


def ordered(view: str, kind: str) -> str:
    return ORDERED.replace("%VIEW", view).replace("KIND", kind).replace("ROWS", ROWS).replace("COLUMNS", COLUMNS)


def test_a_barrier_separates_writes_and_reads_of_other_threads():
    text = ptx(ordered("%vt", COLUMNS))
    assert text.count("bar.sync") == 1
    for seed in range(3):
        a = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
        expected = a * 4
        emulate(text, "ordered", 1, [a], seed=seed)
        assert np.array_equal(a, expected)


def test_no_barrier_if_each_thread_reads_its_own_writes():
    assert "bar.sync" not in ptx(ordered("%va", ROWS))


SCALAR = """
builtin.module {
  nv_tileaa.func @scalar(%a: !nv_tileaa.ptr<i32>, %b: !nv_tileaa.ptr<i32>) SPEC {
    %c1 = arith.constant 1 : i32
    %x, %t0 = nv_tileaa.load %a : !nv_tileaa.ptr<i32> -> i32, !nv_tileaa.mem_token
    %y = arith.addi %x, %c1 : i32
    %t1 = nv_tileaa.store %a, %y token = %t0 : !nv_tileaa.ptr<i32>, i32 -> !nv_tileaa.mem_token
    %z, %t2 = nv_tileaa.load %a token = %t1 : !nv_tileaa.ptr<i32> -> i32, !nv_tileaa.mem_token
    %s = nv_tileaa.splat %z : i32 -> tensor<1024xi32>
    %r = nv_tileaa.make_range : tensor<1024xi32>
    %p = nv_tileaa.splat %b : !nv_tileaa.ptr<i32> -> tensor<1024x!nv_tileaa.ptr<i32>>
    %q = nv_tileaa.addptr %p, %r : tensor<1024x!nv_tileaa.ptr<i32>>, tensor<1024xi32>
    %t3 = nv_tileaa.store %q, %s : tensor<1024x!nv_tileaa.ptr<i32>>, tensor<1024xi32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
""".replace("SPEC", SPEC)


def test_one_threads_store_for_all_is_visible_to_all():
    """Every thread loads the scalar, one stores it: a barrier on either side of the store."""
    text = ptx(SCALAR)
    assert text.count("bar.sync") == 2
    for seed in range(4):
        a = np.array([41], np.int32)
        b = np.zeros(1024, np.int32)
        emulate(text, "scalar", 1, [a, b], seed=seed)
        assert a[0] == 42 and np.array_equal(b, np.full(1024, 42, np.int32))


TABLES = """
builtin.module {
  nv_tileaa.global @weights {value = dense<[10, 20, 30, 40]> : tensor<4xi32>, alignment = 16 : i64}
  nv_tileaa.func @tables(%table: !nv_tileaa.ptr<!nv_tileaa.ptr<i32>>, %flags: !nv_tileaa.ptr<i1>,
                         %b: !nv_tileaa.ptr<i32>) SPEC {
    %r = nv_tileaa.make_range : tensor<4xi32>
    %w = nv_tileaa.get_global @weights : !nv_tileaa.ptr<i32>
    %ws = nv_tileaa.splat %w : !nv_tileaa.ptr<i32> -> tensor<4x!nv_tileaa.ptr<i32>>
    %wp = nv_tileaa.addptr %ws, %r : tensor<4x!nv_tileaa.ptr<i32>>, tensor<4xi32>
    %weight, %t0 = nv_tileaa.load %wp : tensor<4x!nv_tileaa.ptr<i32>> -> tensor<4xi32>, !nv_tileaa.mem_token
    %ts = nv_tileaa.splat %table : !nv_tileaa.ptr<!nv_tileaa.ptr<i32>> -> tensor<4x!nv_tileaa.ptr<!nv_tileaa.ptr<i32>>>
    %tp = nv_tileaa.addptr %ts, %r : tensor<4x!nv_tileaa.ptr<!nv_tileaa.ptr<i32>>>, tensor<4xi32>
    %rows, %t1 = nv_tileaa.load %tp
      : tensor<4x!nv_tileaa.ptr<!nv_tileaa.ptr<i32>>> -> tensor<4x!nv_tileaa.ptr<i32>>, !nv_tileaa.mem_token
    %x, %t2 = nv_tileaa.load %rows : tensor<4x!nv_tileaa.ptr<i32>> -> tensor<4xi32>, !nv_tileaa.mem_token
    %fs = nv_tileaa.splat %flags : !nv_tileaa.ptr<i1> -> tensor<4x!nv_tileaa.ptr<i1>>
    %fp = nv_tileaa.addptr %fs, %r : tensor<4x!nv_tileaa.ptr<i1>>, tensor<4xi32>
    %flag, %t3 = nv_tileaa.load %fp : tensor<4x!nv_tileaa.ptr<i1>> -> tensor<4xi1>, !nv_tileaa.mem_token
    %y = arith.select %flag, %x, %weight : tensor<4xi1>, tensor<4xi32>
    %bs = nv_tileaa.splat %b : !nv_tileaa.ptr<i32> -> tensor<4x!nv_tileaa.ptr<i32>>
    %bp = nv_tileaa.addptr %bs, %r : tensor<4x!nv_tileaa.ptr<i32>>, tensor<4xi32>
    %t4 = nv_tileaa.store %bp, %y : tensor<4x!nv_tileaa.ptr<i32>>, tensor<4xi32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
""".replace("SPEC", SPEC)


def test_globals_tables_of_pointers_and_truth_values():
    memory = Memory()
    rows = np.array([1, 2, 3, 4], np.int32)
    first = int(memory.allocate(rows))
    table = np.array([first + 4 * i for i in (3, 2, 1, 0)], np.uint64)
    flags = np.array([1, 0, 1, 0], np.uint8)
    out = np.zeros(4, np.int32)
    emulate(ptx(TABLES), "tables", 1, [table, flags, out])
    assert out.tolist() == [4, 20, 2, 40]


ROWS_OF_POINTERS = """
builtin.module {
  nv_tileaa.func @rows(%a: !nv_tileaa.ptr<f32>, %n0: i32) SPEC {
    %pa = nv_tileaa.assume #nv_tileaa.div_by<16>, %a : !nv_tileaa.ptr<f32>
    %n = nv_tileaa.assume #nv_tileaa.div_by<16>, %n0 : i32
    %r = nv_tileaa.make_range : tensor<16xi32>
    %c = nv_tileaa.make_range : tensor<64xi32>
    %r1 = nv_tileaa.view %r : tensor<16xi32> -> tensor<16x1xi32>
    %c1 = nv_tileaa.view %c : tensor<64xi32> -> tensor<1x64xi32>
    %ns = nv_tileaa.splat %n : i32 -> tensor<16x1xi32>
    %ro = arith.muli %r1, %ns : tensor<16x1xi32>
    %rb = nv_tileaa.broadcast %ro : tensor<16x1xi32> -> tensor<16x64xi32>
    %cb = nv_tileaa.broadcast %c1 : tensor<1x64xi32> -> tensor<16x64xi32>
    %o = arith.addi %rb, %cb : tensor<16x64xi32>
    %as = nv_tileaa.splat %pa : !nv_tileaa.ptr<f32> -> tensor<16x64x!nv_tileaa.ptr<f32>>
    %ap = nv_tileaa.addptr %as, %o : tensor<16x64x!nv_tileaa.ptr<f32>>, tensor<16x64xi32>
    %x, %t = nv_tileaa.load %ap : tensor<16x64x!nv_tileaa.ptr<f32>> -> tensor<16x64xf32>, !nv_tileaa.mem_token
    %y = nv_tileaa.addf %x, %x : tensor<16x64xf32>
    %s = nv_tileaa.store %ap, %y token = %t
      : tensor<16x64x!nv_tileaa.ptr<f32>>, tensor<16x64xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
""".replace("SPEC", SPEC)


def test_rows_of_pointers_are_accessed_by_vectors():
    """The row's stride is a multiple of 16 elements, so that every row starts where its neighbours in memory do."""
    text = ptx(ROWS_OF_POINTERS)
    assert "ld.global.v4.b32" in text and "st.global.v4.b32" in text
    a = np.random.default_rng(0).standard_normal((16, 80)).astype(np.float32)
    expected = a.copy()
    expected[:, :64] *= 2
    emulate(text, "rows", 1, [a, 80])
    assert np.array_equal(a, expected)
