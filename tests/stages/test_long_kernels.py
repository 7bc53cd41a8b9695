"""Long kernels: no recursion along a chain of operations, and time in proportion to the operations, where each value of
a chain has two users too: the number of paths doubles with each round."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tileiras
from tests.kernels.checked import module
from tests.kernels.gradients import of_keys
from tileiras.dialects import arith
from tileiras.ir import parse_module
from tileiras.order import shapes
from tileiras.sim import emulate

TILE = "tile<16x16xf32>"
VIEW = "partition_view<tile=(16x16), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>"


def _loop(body, result):
    """A kernel whose loop carries the tile %sum through `body`."""
    return f"""cuda_tile.module @m {{
  entry @long(%p: tile<ptr<f32>>, %n: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %array = make_tensor_view %p, shape = [%n, %n], strides = [%n, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %tiles = make_partition_view %array : {VIEW}
    %row, %column, %unused = get_tile_block_id : tile<i32>
    %first = constant <f32: 0.0> : {TILE}
    %all = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%sum = %first) -> ({TILE}) {{
{body}
      continue {result} : {TILE}
    }}
    %done = store_view_tko weak %all, %tiles[%row, %column] : {TILE}, {VIEW}, tile<i32> -> token
    return
  }}
}}
"""


def _load(name, index="%i"):
    return f"      {name}, {name}_token = load_view_tko weak %tiles[%row, {index}] : {VIEW}, tile<i32> -> {TILE}, token"


def test_a_chain_longer_than_the_stack():
    lines, value = [_load("%x")], "%x"
    for number in range(1200):
        lines.append(f"      %v{number} = addf {value}, %sum : {TILE}")
        value = f"%v{number}"
    text = tileiras.compile(_loop("\n".join(lines), value), gpu_name="sm_90", emit="llvm").text
    assert text.count("fadd") >= 1200


def _calls(text):
    """Calls of functions that a kernel takes up to nv_tileas."""
    count = 0

    def on_event(frame, event, argument):
        nonlocal count
        count += event == "call"

    tileiras.compile(text, gpu_name="sm_90", emit="tileas")  # fills caches
    sys.setprofile(on_event)
    try:
        tileiras.compile(text, gpu_name="sm_90", emit="tileas")
    finally:
        sys.setprofile(None)
    return count


def _with_loads(loads):
    """A loop with this number of loads."""
    lines, value = [], "%sum"
    for number in range(loads):
        lines.append(f"      %c{number} = constant <i32: {number}> : tile<i32>")
        lines.append(f"      %j{number} = addi %i, %c{number} : tile<i32>")
        lines.append(_load(f"%x{number}", f"%j{number}"))
        lines.append(f"      %v{number} = addf {value}, %x{number} : {TILE}")
        value = f"%v{number}"
    return _loop("\n".join(lines), value)


def _with_scores(steps):
    """The difference of two dots, which each step adds to the number of the one before."""
    chain = [f"%e_{n + 2} = addf %e_{n + 1}, %e_1 : tile<128x64xf32>" for n in range(steps)]
    text = of_keys(2, 128, 64, 128).text.replace("%e = subf", "%e_1 = subf")
    return text.replace("%e_h = ftof %e :", "\n".join(chain) + f"\n%e_h = ftof %e_{steps + 1} :")


def _with_mask(steps):
    """Elements selected by a number that each step computes from two uses of the one before."""
    numbers = "tile<16x16xi32>"
    lines = [
        _load("%x"),
        "      %lanes = iota : tile<16xi32>",
        "      %one_row = reshape %lanes : tile<16xi32> -> tile<1x16xi32>",
    ]
    lines.append(f"      %v0 = broadcast %one_row : tile<1x16xi32> -> {numbers}")
    lines.append("      %n_scalar = reshape %n : tile<i32> -> tile<1x1xi32>")
    lines.append(f"      %bound = broadcast %n_scalar : tile<1x1xi32> -> {numbers}")
    for step in range(steps):
        lines.append(f"      %u{step} = xori %v{step}, %bound : {numbers}")
        lines.append(f"      %v{step + 1} = muli %v{step}, %u{step} : {numbers}")
    lines.append(f"      %mask = cmpi less_than %v{steps}, %bound, signed : {numbers} -> tile<16x16xi1>")
    lines.append(f"      %y = select %mask, %x, %sum : tile<16x16xi1>, {TILE}")
    return _loop("\n".join(lines), "%y")


def _with_index(steps):
    """A load whose index each step computes from two uses of the number before."""
    lines = []
    value = "%i"
    for step in range(steps):
        lines.append(f"      %u{step} = xori {value}, %row : tile<i32>")
        lines.append(f"      %v{step} = muli {value}, %u{step} : tile<i32>")
        value = f"%v{step}"
    lines += [_load("%x", value), f"      %y = addf %sum, %x : {TILE}"]
    return _loop("\n".join(lines), "%y")


def _with_operand(steps):
    """A dot of an operand that each step computes from two uses of the tile before."""
    view = "partition_view<tile=(64x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>"
    tile = "tile<64x64xf16>"
    lines = []
    for name in "ab":
        lines.append(
            f"%{name}, %{name}_token = load_view_tko weak %tiles[%row, %i] : {view}, tile<i32> -> {tile}, token"
        )
    value = "%a"
    for step in range(steps):
        lines.append(f"%u{step} = addf {value}, %a : {tile}")
        lines.append(f"%v{step} = mulf {value}, %u{step} : {tile}")
        value = f"%v{step}"
    lines.append(f"%y = mmaf {value}, %b, %sum : {tile}, {tile}, tile<64x64xf32>")
    text = _loop("\n".join(lines), "%y").replace(TILE, "tile<64x64xf32>").replace("16x16", "64x64")
    return (
        text.replace("tile<ptr<f32>>, %n", "tile<ptr<f16>>, %out: tile<ptr<f32>>, %n")
        .replace("xf32, strides=[?,1]>\n", "xf16, strides=[?,1]>\n")
        .replace(f"%tiles = make_partition_view %array : {VIEW.replace('16x16', '64x64')}",
                 f"""%tiles = make_partition_view %array : {view}
    %matrix = make_tensor_view %out, shape = [%n, %n], strides = [%n, 1]
        : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %sums = make_partition_view %matrix : {VIEW.replace('16x16', '64x64')}""")
        .replace("%all, %tiles", "%all, %sums")
    )  # fmt: skip


@pytest.mark.parametrize(("kernel", "few", "many", "factor"), [
    (_with_loads, 16, 64, 6), (_with_scores, 100, 400, 4), (_with_mask, 4, 14, 4), (_with_index, 4, 14, 3),
    (_with_operand, 4, 18, 4),
])  # fmt: skip
def test_time_grows_with_the_operations(kernel, few, many, factor):
    calls = [_calls(kernel(count)) for count in (few, many)]
    assert calls[1] < factor * calls[0], calls


@pytest.mark.parametrize("gpu_name", ["sm_90", "cpu"])
@pytest.mark.parametrize("kernel", [_with_mask, _with_index, _with_operand])
def test_chains_of_all_kinds_longer_than_the_stack(kernel, gpu_name):
    assert tileiras.compile(kernel(600), gpu_name=gpu_name, emit="llvm").text.count("mul") > 300


def _with_views(steps, element="f16", size=128):
    """A dot whose operands each step reshapes and permutes."""

    def shaped(*shape):
        return f"tile<{'x'.join(map(str, shape))}x{element}>"

    tile, parts, turned = shaped(size, size), shaped(2, size // 2, size), shaped(2, size, size // 2)
    view = f"partition_view<tile=({size}x{size}), tensor_view<4096x4096x{element}, strides=[4096,1]>>"
    sums = f"tile<{size}x{size}xf32>"
    output = f"partition_view<tile=({size}x{size}), tensor_view<4096x4096xf32, strides=[4096,1]>>"
    lines = []
    for name in "ab":
        load = f"load_view_tko weak %tiles[%i, %i] : {view}, tile<i32> -> {tile}, token"
        lines.append(f"%{name}0, %{name}_token = {load}")
        for n in range(steps):
            lines += [
                f"%{name}{n}_rows = reshape %{name}{n} : {tile} -> {parts}",
                f"%{name}{n}_turned = permute %{name}{n}_rows [0, 2, 1] : {parts} -> {turned}",
                f"%{name}{n + 1} = reshape %{name}{n}_turned : {turned} -> {tile}",
            ]
    return module("\n".join([
        "%zero = constant <i32: 0> : tile<i32>", "%one = constant <i32: 1> : tile<i32>",
        "%n = constant <i32: 32> : tile<i32>", f"%first = constant <f32: 0.0> : {sums}",
        f"%x = make_tensor_view %p, shape = [4096, 4096], strides = [4096, 1] : {view[view.index('tensor_view'):-1]}",
        f"%tiles = make_partition_view %x : {view}",
        "%y = make_tensor_view %q, shape = [4096, 4096], strides = [4096, 1]"
        f" : {output[output.index('tensor_view'):-1]}",
        f"%out = make_partition_view %y : {output}",
        f"%all = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%sum = %first) -> ({sums}) {{",
        *lines, f"%next = mmaf %a{steps}, %b{steps}, %sum : {tile}, {tile}, {sums}", f"continue %next : {sums}", "}",
        f"%done = store_view_tko weak %all, %out[%zero, %zero] : {sums}, {output}, tile<i32> -> token",
    ]), f"%p: tile<ptr<{element}>>, %q: tile<ptr<f32>>")  # fmt: skip


@pytest.mark.parametrize(
    "element, size, gpu_name", [("f16", 128, "sm_90"), ("tf32", 64, "sm_90"), ("tf32", 64, "sm_80")]
)
def test_views_of_operands_longer_than_the_stack(element, size, gpu_name):
    text = tileiras.compile(_with_views(340, element, size), gpu_name=gpu_name, emit="llvm").text
    assert "mma" in text


def _with_offsets(steps):
    pointers, numbers = "tile<128xptr<i32>>", "tile<128xi32>"
    lines = [
        f"%lanes = iota : {numbers}", "%row = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>",
        f"%q0 = broadcast %row : tile<1xptr<i32>> -> {pointers}",
        *(f"%q{n + 1} = offset %q{n}, %lanes : {pointers}, {numbers} -> {pointers}" for n in range(steps)),
        f"%x, %t = load_ptr_tko weak %q{steps} : {pointers} -> {numbers}, token",
        f"%d = store_ptr_tko weak %q{steps}, %x token=%t : {pointers}, {numbers} -> token",
    ]  # fmt: skip
    return module("\n".join(lines), "%p: tile<ptr<i32>>")


def _with_sums(steps):
    numbers, pointers = "tile<128xi32>", "tile<128xptr<i32>>"
    lines = [
        f"%lanes = iota : {numbers}", "%one = reshape %n : tile<i32> -> tile<1xi32>",
        f"%x0 = broadcast %one : tile<1xi32> -> {numbers}",
        *(f"%x{n + 1} = addi %x{n}, %lanes : {numbers}" for n in range(steps)),
        "%row = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>",
        f"%base = broadcast %row : tile<1xptr<i32>> -> {pointers}",
        f"%q = offset %base, %lanes : {pointers}, {numbers} -> {pointers}",
        f"%d = store_ptr_tko weak %q, %x{steps} : {pointers}, {numbers} -> token",
    ]  # fmt: skip
    return module("\n".join(lines), "%p: tile<ptr<i32>>, %n: tile<i32>")


def test_offsets_of_a_pointer_longer_than_the_stack():
    assert "store" in tileiras.compile(_with_offsets(1200), gpu_name="sm_90", emit="llvm").text


def test_sums_of_a_checked_kernel_longer_than_the_stack():
    launch = ((1,), [np.zeros(128, np.int32), 3])
    assert tileiras.check(_with_sums(1200), gpu_name="sm_80", launches=[launch], budget=0).status == "right"


ROUNDS = 40
"""Rounds in which each value has two users."""

WHOLE, REAL = "tile<128xi32>", "tile<16x32xf32>"


def _carried() -> str:
    """A loop carries the state of a generator of random numbers; no layout of an access reaches it."""
    lines = []
    for n in range(ROUNDS):
        lines += [f"%y{n} = shli %x{n}, %five : {WHOLE}", f"%x{n + 1} = xori %x{n}, %y{n} : {WHOLE}"]
    return "\n".join([
        "%zero = constant <i32: 0> : tile<i32>", "%one = constant <i32: 1> : tile<i32>",
        f"%five = constant <i32: 5> : {WHOLE}", f"%start = iota : {WHOLE}",
        f"%end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%x0 = %start) -> ({WHOLE}) {{",
        *lines, f"continue %x{ROUNDS} : {WHOLE}", "}",
        "%t = make_tensor_view %p, shape = [128], strides = [1] : tensor_view<128xi32, strides=[1]>",
        "%v = make_partition_view %t : partition_view<tile=(128), tensor_view<128xi32, strides=[1]>>",
        f"%e = store_view_tko weak %end, %v[%zero] : {WHOLE}, "
        "partition_view<tile=(128), tensor_view<128xi32, strides=[1]>>, tile<i32> -> token",
    ])  # fmt: skip


def test_a_loop_carries_a_tile_without_a_layout():
    artifact = tileiras.compile(module(_carried(), "%p: tile<ptr<i32>>, %n: tile<i32>"), gpu_name="sm_80")
    result, state = np.zeros(128, np.int32), np.arange(128, dtype=np.int32)
    emulate(artifact.text, "k", 1, [result, 2], metadata=artifact.kernels[0].metadata)
    for _ in range(2 * ROUNDS):
        state ^= state << np.int32(5)
    assert np.array_equal(result, state)


def _broadcast() -> str:
    """A row is broadcast to the shape of a product, and goes through many rounds before the product is added."""
    lines = []
    for n in range(ROUNDS):
        lines += [f"%y{n} = minf %x{n}, %limit : {REAL}", f"%x{n + 1} = maxf %x{n}, %y{n} : {REAL}"]
    a, c, b = ("tensor_view<16x16xf16, strides=[16,1]>", "tensor_view<16x32xf32, strides=[32,1]>",
               "tensor_view<1x32xf32, strides=[32,1]>")  # fmt: skip
    w = "tensor_view<16x32xf16, strides=[32,1]>"
    return "\n".join([
        "%zero = constant <i32: 0> : tile<i32>", f"%limit = constant <f32: 8.0> : {REAL}",
        f"%none = constant <f32: 0.0> : {REAL}",
        *(f"%t{name} = make_tensor_view %p{name}, shape = [{shape}], strides = [{pitch}, 1] : {view}\n"
          f"%v{name} = make_partition_view %t{name} : partition_view<tile=({shape.replace(', ', 'x')}), {view}>"
          for name, shape, pitch, view in (("a", "16, 16", 16, a), ("w", "16, 32", 32, w), ("b", "1, 32", 32, b),
                                           ("c", "16, 32", 32, c))),
        f"%left, %k0 = load_view_tko weak %va[%zero, %zero] : partition_view<tile=(16x16), {a}>, tile<i32>"
        " -> tile<16x16xf16>, token",
        f"%right, %k1 = load_view_tko weak %vw[%zero, %zero] : partition_view<tile=(16x32), {w}>, tile<i32>"
        " -> tile<16x32xf16>, token",
        f"%row, %k2 = load_view_tko weak %vb[%zero, %zero] : partition_view<tile=(1x32), {b}>, tile<i32>"
        " -> tile<1x32xf32>, token",
        f"%product = mmaf %left, %right, %none : tile<16x16xf16>, tile<16x32xf16>, {REAL}",
        f"%x0 = broadcast %row : tile<1x32xf32> -> {REAL}", *lines,
        f"%sum = addf %product, %x{ROUNDS} : {REAL}",
        f"%e = store_view_tko weak %sum, %vc[%zero, %zero] : {REAL}, partition_view<tile=(16x32), {c}>, tile<i32>"
        " -> token",
    ])  # fmt: skip


def test_a_row_is_broadcast_to_a_long_chain():
    parameters = "%pa: tile<ptr<f16>>, %pw: tile<ptr<f16>>, %pb: tile<ptr<f32>>, %pc: tile<ptr<f32>>"
    artifact = tileiras.compile(module(_broadcast(), parameters), gpu_name="sm_80")
    rng = np.random.default_rng(0)
    a, w = rng.integers(-3, 4, (16, 16)).astype(np.float16), rng.integers(-3, 4, (16, 32)).astype(np.float16)
    row, result = rng.integers(-20, 20, 32).astype(np.float32), np.zeros((16, 32), np.float32)
    emulate(artifact.text, "k", 1, [a, w, row, result], metadata=artifact.kernels[0].metadata)
    assert np.array_equal(result, a.astype(np.float32) @ w.astype(np.float32) + row)


def _hash(first: str) -> str:
    """Rounds of a hash: each value is used twice by the next one, so that the number of paths doubles."""
    tile = "tensor<4x64xi32>"
    lines = [first]
    for n in range(ROUNDS):
        lines.append(f"%y{n} = arith.muli %x{n}, %x{n} : {tile}")
        lines.append(f"%x{n + 1} = arith.xori %x{n}, %y{n} : {tile}")
    return (
        "module {\nnv_tileaa.func @k(%t: i32, %u: tensor<4x64xi32>) {\n" + "\n".join(lines) + "\nnv_tileaa.return\n}\n}"
    )


ROW = """%r = nv_tileaa.make_range : tensor<64xi32>
%v = nv_tileaa.view %r : tensor<64xi32> -> tensor<1x64xi32>
%x0 = nv_tileaa.broadcast %v : tensor<1x64xi32> -> tensor<4x64xi32>"""
SPLAT = "%x0 = nv_tileaa.splat %t : i32 -> tensor<4x64xi32>"
ARGUMENT = "%z = arith.constant dense<0> : tensor<4x64xi32>\n%x0 = arith.addi %u, %z : tensor<4x64xi32>"


@pytest.mark.parametrize("first, dims", [(ROW, {1}), (SPLAT, set()), (ARGUMENT, {0, 1})])
def test_each_value_of_a_chain_is_visited_once(first, dims, monkeypatch):
    module = parse_module(_hash(first), "k.mlir")
    last = [op for op in module.walk() if isinstance(op, arith.XOrIOp)][-1].result
    visits = []

    def counted(op):
        visits.append(op)
        assert len(visits) < 20 * ROUNDS
        return elementwise(op)

    elementwise = shapes.is_elementwise
    monkeypatch.setattr(shapes, "is_elementwise", counted)
    assert shapes.varies(last) == dims


def _chain(step, steps=400):
    """A loaded tile after many steps, each of the tile that the one before gave."""
    lines = [_load("%x0")]
    for number in range(steps):
        lines.append(step.format(old=f"%x{number}", new=f"%x{number + 1}", name=f"%y{number}"))
    lines.append(f"%y = addf %x{steps}, %sum : {TILE}")
    return _loop("\n".join(lines), "%y")


PERMUTE = f"{{new}} = permute {{old}} [1, 0] : {TILE} -> {TILE}"
RESHAPE = f"""{{name}} = reshape {{old}} : {TILE} -> tile<1x16x16xf32>
{{new}} = reshape {{name}} : tile<1x16x16xf32> -> {TILE}"""
REJOIN = f"""{{name}} = reshape {{old}} : {TILE} -> tile<256xf32>
{{new}} = reshape {{name}} : tile<256xf32> -> {TILE}"""
FIRST_ROW = f"""{{name}} = extract {{old}}[%zero, %zero] : {TILE} -> tile<1x16xf32>
{{new}} = broadcast {{name}} : tile<1x16xf32> -> {TILE}"""


@pytest.mark.parametrize("gpu_name", ["sm_90", "cpu"])
@pytest.mark.parametrize("step", [PERMUTE, RESHAPE, REJOIN, FIRST_ROW], ids=["permute", "reshape", "rejoin", "row"])
def test_renamings_longer_than_the_stack(step, gpu_name):
    assert "fadd" in tileiras.compile(_chain(step), gpu_name=gpu_name, emit="llvm").text


SWAP = f"""{{name}}a = extract {{old}}[%zero, %i] : {TILE} -> tile<16x8xf32>
{{name}}b = extract {{old}}[%zero, %zero] : {TILE} -> tile<16x8xf32>
{{new}} = cat {{name}}a, {{name}}b dim = 1 : tile<16x8xf32>, tile<16x8xf32> -> {TILE}"""


def test_loops_of_many_tiles_stay_loops_on_the_cpu():
    """Code generation takes time with the square of a block's length, and unrolled loops are one block."""
    sizes = [len(tileiras.compile(_chain(SWAP, steps), gpu_name="cpu", emit="obj").data) for steps in (40, 160)]
    assert sizes[1] < 2 * sizes[0]


def _row_beside_a_dot(steps):
    """A loaded row, broadcast, goes through many steps on its way to the sum with a product."""
    row = "tile<1x16xf32>"
    lines = [_load("%a"), f"%b = extract %a[%zero, %zero] : {TILE} -> {row}", f"%x0 = broadcast %b : {row} -> {TILE}"]
    lines += [f"%x{step + 1} = exp %x{step} : {TILE}" for step in range(steps)]
    lines += [f"%dot = mmaf %a, %a, %sum : {TILE}, {TILE}, {TILE}", f"%y = addf %dot, %x{steps} : {TILE}"]
    return _loop("\n".join(lines), "%y")


def test_a_row_beside_a_dot_longer_than_the_stack():
    assert "fadd" in tileiras.compile(_row_beside_a_dot(600), gpu_name="sm_90", emit="llvm").text
