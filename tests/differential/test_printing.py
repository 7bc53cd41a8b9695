"""Output of print_tko: compiled against interpreted, character by character."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

import tileiras
from tests.kernels.views import tile_type
from tileiras.sim import emulate, interpret


def printed(text: str, *arguments, gpu_name: str = "sm_80", **options) -> str:
    output = io.StringIO()
    interpret(text, "k", 1, [a.copy() for a in arguments], output=output)
    artifact = tileiras.compile(text, gpu_name=gpu_name, source_name="kernel.mlir", **options)
    metadata = json.loads(artifact.kernels[0].artifacts[".json"])
    actual = emulate(artifact.text, "k", 1, [a.copy() for a in arguments], metadata=metadata).output
    assert actual == output.getvalue()
    return actual


def test_small_tiles_make_one_text():
    text = """cuda_tile.module @m {
      entry @k() {
        %a = constant <f32: [1.0, -2.5, 3.0, 4.0]> : tile<4xf32>
        %i = iota : tile<8xi32>
        %i2 = reshape %i : tile<8xi32> -> tile<2x4xi32>
        %s = constant <i32: 7> : tile<i32>
        %t0 = print_tko "%+08.3f and %d%%, %d\\n", %a, %i2, %s : tile<4xf32>, tile<2x4xi32>, tile<i32> -> token
        return
      }
    }
    """
    expected = "[+001.000, -002.500, +003.000, +004.000] and [[0, 1, 2, 3], [4, 5, 6, 7]]%, 7\n"
    assert printed(text) == expected


ELEMENTS = {
    "i1": "%d", "i8": "%u", "i16": "%x", "i32": "%5d", "i64": "%lld", "f16": "%g", "bf16": "%.2f", "f32": "%e",
    "tf32": "%f", "f64": "%.17g",
}  # fmt: skip


@pytest.mark.parametrize("shape", [(1,), (64,), (2, 32), (4, 2, 8), (8, 1, 64), (256, 16)])
def test_tiles_of_every_type(shape):
    """Fewer elements than a call takes, rows that fill calls, calls that hold several rows."""
    total = int(np.prod(shape))
    lines = [f"%i = iota : {tile_type((total,), 'i32')}", f"%c = constant <i32: 77> : {tile_type((total,), 'i32')}",
             f"%j = subi %i, %c : {tile_type((total,), 'i32')}"]  # fmt: skip
    elements = list(ELEMENTS) if total <= 64 else ["i8", "f16", "i64"] if total < 4096 else ["f64"]
    for element in elements:
        flat, whole = tile_type((total,), element), tile_type(shape, element)
        source = tile_type((total,), "i32")
        if element in ("i1", "i8", "i16"):
            lines.append(f"%{element}f = trunci %j : {source} -> {flat}")
        elif element == "i64":
            lines.append(f"%{element}f = exti %j signed : {source} -> {flat}")
        elif element == "i32":
            lines.append(f"%{element}f = bitcast %j : {source} -> {flat}")
        else:
            lines.append(f"%{element}f = itof %j signed : {source} -> {flat}")
        lines.append(f"%{element} = reshape %{element}f : {flat} -> {whole}")
        lines.append(f'%{element}t = print_tko "<{ELEMENTS[element]}>\\n", %{element} : {whole} -> token')
    text = "cuda_tile.module @m {\nentry @k() {\n" + "\n".join(lines) + "\nreturn\n}\n}\n"
    # The lines of one block are ordered by nothing but their tokens; one thread prints them as they stand.
    output = printed(text, num_warps=4)
    assert output.count("<") == len(elements) and output.count(",") == (total - 1) * len(elements)


def test_more_scalars_than_a_call_takes():
    names = [f"%c{n}" for n in range(40)]
    constants = "\n".join(f"{name} = constant <i32: {n}> : tile<i32>" for n, name in enumerate(names))
    text = f"""cuda_tile.module @m {{
      entry @k() {{
        {constants}
        %t = print_tko "{' '.join(['%d'] * 40)}", {', '.join(names)} : {', '.join(['tile<i32>'] * 40)} -> token
        return
      }}
    }}
    """
    assert printed(text) == " ".join(map(str, range(40)))


def test_memory_is_ordered_through_a_print():
    """A thread loads an element that another one stored; the token goes through the print between."""
    text = """cuda_tile.module @m {
      entry @k(%p: tile<ptr<i32>>) {
        %lane = iota : tile<128xi32>
        %last = constant <i32: 127> : tile<128xi32>
        %turned = subi %last, %lane : tile<128xi32>
        %p1 = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
        %pb = broadcast %p1 : tile<1xptr<i32>> -> tile<128xptr<i32>>
        %here = offset %pb, %lane : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
        %there = offset %pb, %turned : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
        %t0 = store_ptr_tko weak %here, %lane : tile<128xptr<i32>>, tile<128xi32> -> token
        %t1 = print_tko "between" token=%t0 -> token
        %x, %t2 = load_ptr_tko weak %there token=%t1 : tile<128xptr<i32>> -> tile<128xi32>, token
        %t3 = store_ptr_tko weak %here, %x token=%t2 : tile<128xptr<i32>>, tile<128xi32> -> token
        return
      }
    }
    """
    ptx = tileiras.compile(text, gpu_name="sm_80", source_name="kernel.mlir", num_warps=4).text
    body = ptx[ptx.index("call.uni") :]
    assert body.index("bar.sync") < body.index("ld.global")
    assert printed(text, np.zeros(128, np.int32), num_warps=4) == "between"


def test_prints_in_loops_and_branches():
    """Shared memory that a print used is free again when the next one, or the next iteration, needs it."""
    text = """cuda_tile.module @m {
      entry @k(%n: tile<ptr<i32>>) {
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %three = constant <i32: 3> : tile<i32>
        %flat = iota : tile<128xi32>
        %lanes = reshape %flat : tile<128xi32> -> tile<8x16xi32>
        %start = make_token : token
        %end = for %i in (%zero to %three, step %one) : tile<i32> iter_values(%t = %start) -> (token) {
          %s1 = reshape %i : tile<i32> -> tile<1x1xi32>
          %sb = broadcast %s1 : tile<1x1xi32> -> tile<8x16xi32>
          %v = addi %lanes, %sb : tile<8x16xi32>
          %w = permute %v [1, 0] : tile<8x16xi32> -> tile<16x8xi32>
          %t1 = print_tko "%d: %d and %d\\n", %i, %v, %w token=%t
              : tile<i32>, tile<8x16xi32>, tile<16x8xi32> -> token
          %odd = cmpi equal %i, %one, signed : tile<i32> -> tile<i1>
          %t2 = if %odd -> (token) {
            %u = print_tko "odd %d\\n", %w token=%t1 : tile<16x8xi32> -> token
            yield %u : token
          } else {
            yield %t1 : token
          }
          continue %t2 : token
        }
        return
      }
    }
    """
    assert printed(text, np.zeros(1, np.int32), num_warps=4).count("odd") == 1
