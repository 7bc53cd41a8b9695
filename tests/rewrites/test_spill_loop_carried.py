"""Small tiles that a loop hands on wait in shared memory while it multiplies, where its tiles leave few registers."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tileiras.sim import emulate, interpret

ROWS, COLUMNS, DEPTH, STEPS = 64, 128, 32, 3


def view(name, tile, shape, element):
    """Operations that view the array %p_NAME of `shape` by tiles as %v_NAME, and the type of the view."""
    tensor = f"tensor_view<{shape[0]}x{shape[1]}x{element}, strides=[{shape[1]},1]>"
    type = f"partition_view<tile=({tile[0]}x{tile[1]}), {tensor}>"
    return f"""
    %q_{name} = assume div_by<16>, %p_{name} : tile<ptr<{element}>>
    %t_{name} = make_tensor_view %q_{name}, shape = {list(shape)}, strides = [{shape[1]}, 1] : {tensor}
    %v_{name} = make_partition_view %t_{name} : {type}""", type


def two_products(ctas, element="f32"):
    """Q of ROWS x DEPTH, K^T and V by tiles, in a loop like that of attention: O = sum of (Q K^T - M) V with M the
    rows' largest numbers so far, and their sums and least sums together, beside
    numbers of type `element` that are 0 and 1 in turns, as L.  `ctas`: how many an SM is to hold."""
    q, q_type = view("q", (ROWS, DEPTH), (ROWS, DEPTH), "f16")
    k, k_type = view("k", (DEPTH, COLUMNS), (DEPTH, COLUMNS * STEPS), "f16")
    v, v_type = view("v", (COLUMNS, DEPTH), (COLUMNS * STEPS, DEPTH), "f16")
    o, o_type = view("o", (ROWS, DEPTH), (ROWS, DEPTH), "f32")
    m, m_type = view("m", (ROWS, 1), (ROWS, 1), "f32")
    sums, sums_type = view("l", (ROWS, 1), (ROWS, 1), "f32")
    square, out, row = f"tile<{ROWS}x{COLUMNS}xf32>", f"tile<{ROWS}x{DEPTH}xf32>", f"tile<{ROWS}x1xf32>"
    flag = f"tile<{ROWS}x1x{element}>"

    def converted(name, value, source, target):
        """One of these from f32 or to it; of f32, the sum with zero."""
        if source == target:
            return f"%{name} = addf %{value}, %nothing : {row}"
        return f"%{name} = ftof %{value} : {source} -> {target}"

    return f"""cuda_tile.module @m {{
  entry @k(%p_q: tile<ptr<f16>>, %p_k: tile<ptr<f16>>, %p_v: tile<ptr<f16>>, %p_o: tile<ptr<f32>>,
           %p_m: tile<ptr<f32>>, %p_l: tile<ptr<f32>>) optimization_hints=<sm_90 = {{occupancy = {ctas}}}> {{
    {q}{k}{v}{o}{m}{sums}
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %steps = constant <i32: {STEPS}> : tile<i32>
    %none = constant <f32: 0.0> : {square}
    %o_0 = constant <f32: 0.0> : {out}
    %l_0 = constant <f32: 1.0> : {row}
    %m_0 = constant <f32: -10000.0> : {row}
    %nothing = constant <f32: 0.0> : {row}
    {converted("d_0", "l_0", row, flag)}
    %q, %kq = load_view_tko weak %v_q[%zero, %zero] : {q_type}, tile<i32> -> tile<{ROWS}x{DEPTH}xf16>, token
    %o, %l, %m, %w, %d = for %i in (%zero to %steps, step %one) : tile<i32>
        iter_values(%o_1 = %o_0, %l_1 = %l_0, %m_1 = %m_0, %w_1 = %l_0, %d_1 = %d_0)
          -> ({out}, {row}, {row}, {row}, {flag}) {{
      %k, %kk = load_view_tko weak %v_k[%zero, %i] : {k_type}, tile<i32> -> tile<{DEPTH}x{COLUMNS}xf16>, token
      %v, %kv = load_view_tko weak %v_v[%i, %zero] : {v_type}, tile<i32> -> tile<{COLUMNS}x{DEPTH}xf16>, token
      %s = mmaf %q, %k, %none : tile<{ROWS}x{DEPTH}xf16>, tile<{DEPTH}x{COLUMNS}xf16>, {square}
      %most = reduce %s dim=1 identities=[-10000.0 : f32] : {square} -> tile<{ROWS}xf32>
      (%a: tile<f32>, %b: tile<f32>) {{
        %x = maxf %a, %b : tile<f32>
        yield %x : tile<f32>
      }}
      %column = reshape %most : tile<{ROWS}xf32> -> {row}
      %m_2 = maxf %m_1, %column : {row}
      %m_all = broadcast %m_2 : {row} -> {square}
      %p = subf %s, %m_all : {square}
      %sum = reduce %p dim=1 identities=[0.0 : f32] : {square} -> tile<{ROWS}xf32>
      (%a: tile<f32>, %b: tile<f32>) {{
        %x = addf %a, %b : tile<f32>
        yield %x : tile<f32>
      }}
      %sums = reshape %sum : tile<{ROWS}xf32> -> {row}
      %l_2 = addf %l_1, %sums : {row}
      %w_2 = minf %w_1, %sums : {row}
      {converted("was", "d_1", flag, row)}
      %is = subf %l_0, %was : {row}
      {converted("d_2", "is", row, flag)}
      %p_16 = ftof %p : {square} -> tile<{ROWS}x{COLUMNS}xf16>
      %o_2 = mmaf %p_16, %v, %o_1 : tile<{ROWS}x{COLUMNS}xf16>, tile<{COLUMNS}x{DEPTH}xf16>, {out}
      continue %o_2, %l_2, %m_2, %w_2, %d_2 : {out}, {row}, {row}, {row}, {flag}
    }}
    %ko = store_view_tko weak %o, %v_o[%zero, %zero] : {out}, {o_type}, tile<i32> -> token
    %km = store_view_tko weak %m, %v_m[%zero, %zero] : {row}, {m_type}, tile<i32> -> token
    {converted("turn", "d", flag, row)}
    %n = addf %l, %w : {row}
    %all = addf %n, %turn : {row}
    %kl = store_view_tko weak %all, %v_l[%zero, %zero] : {row}, {sums_type}, tile<i32> -> token
    return
  }}
}}
"""


def compiled(text, emit="ptx"):
    return tileiras.compile(text, gpu_name="sm_90", num_warps=4, emit=emit)


@pytest.mark.parametrize(("ctas", "element", "left"), [(2, "f32", 4), (4, "f32", 2), (4, "f16", 2), (4, "f8E4M3FN", 2)])
def test_where_registers_are_few_the_loop_hands_on_less(ctas, element, left):
    artifact = compiled(two_products(ctas, element), "tileas")
    loop = next(line for line in artifact.text.splitlines() if "scf.for" in line)
    assert loop.count(f"tensor<{ROWS}x1x") == left
    said = f"{4 - left} loop-carried tiles wait in shared memory: a thread has no registers for them"
    assert (said in [d.message for d in artifact.diagnostics]) is (left < 4)


@pytest.mark.parametrize(("ctas", "element"), [(2, "f32"), (4, "f32"), (4, "f16"), (4, "f8E4M3FN")])
def test_the_results_are_the_same(ctas, element):
    text = two_products(ctas, element)
    random = np.random.default_rng(0)
    shapes = (ROWS, DEPTH), (DEPTH, COLUMNS * STEPS), (COLUMNS * STEPS, DEPTH)
    inputs = [random.integers(-3, 4, shape).astype(np.float16) for shape in shapes]
    expected, actual = ([np.zeros((ROWS, n), np.float32) for n in (DEPTH, 1, 1)] for _ in range(2))
    interpret(text, "k", 1, [*inputs, *expected])
    artifact = compiled(text)
    emulate(artifact.text, "k", 1, [*inputs, *actual], metadata=artifact.kernels[0].metadata)
    for one, other in zip(expected, actual):
        np.testing.assert_array_equal(other, one)
