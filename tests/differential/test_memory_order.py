"""Token order across threads, views of every rank, and control flow around memory: compiled against interpreted."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.kernels.tiles import run


def test_load_after_store_of_other_threads():
    """A thread loads an element that another one stored: the token requires a barrier."""
    text = """cuda_tile.module @m {
      entry @k(%p: tile<ptr<f32>>, %s: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
        %zero = constant <i32: 0> : tile<i32>
        %pt = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
        %pv = make_partition_view %pt : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
        %st = make_tensor_view %s, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
        %sv = make_partition_view %st : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
        %tv = make_partition_view %st
            : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>, dim_map=[1, 0]>
        %qt = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
        %qv = make_partition_view %qt : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
        %x, %t0 = load_view_tko weak %pv[%zero, %zero]
            : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> tile<64x64xf32>, token
        %t1 = store_view_tko weak %x, %sv[%zero, %zero]
            : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
        %y, %t2 = load_view_tko weak %tv[%zero, %zero] token = %t1
            : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>, dim_map=[1, 0]>, tile<i32>
            -> tile<64x64xf32>, token
        %t3 = store_view_tko weak %y, %qv[%zero, %zero]
            : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
        return
      }
    }
    """
    a = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    for num_warps in (None, 4, 8):
        expected = run(text, 1, [a, np.zeros_like(a), np.zeros_like(a)], num_warps=num_warps)
        assert (expected[2] == a.T).all()


def test_store_after_load_by_other_threads():
    """An in-place transpose: nothing may be overwritten before everything has been read."""
    text = """cuda_tile.module @m {
      entry @k(%s: tile<ptr<i32>>) {
        %zero = constant <i32: 0> : tile<i32>
        %st = make_tensor_view %s, shape = [32, 32], strides = [32, 1] : tensor_view<32x32xi32, strides=[32,1]>
        %sv = make_partition_view %st : partition_view<tile=(32x32), tensor_view<32x32xi32, strides=[32,1]>>
        %tv = make_partition_view %st
            : partition_view<tile=(32x32), tensor_view<32x32xi32, strides=[32,1]>, dim_map=[1, 0]>
        %x, %t0 = load_view_tko weak %sv[%zero, %zero]
            : partition_view<tile=(32x32), tensor_view<32x32xi32, strides=[32,1]>>, tile<i32> -> tile<32x32xi32>, token
        %t1 = store_view_tko weak %x, %tv[%zero, %zero] token = %t0
            : tile<32x32xi32>, partition_view<tile=(32x32), tensor_view<32x32xi32, strides=[32,1]>, dim_map=[1, 0]>,
              tile<i32> -> token
        return
      }
    }
    """
    a = np.arange(1024, dtype=np.int32).reshape(32, 32)
    for num_warps in (None, 4):
        assert (run(text, 1, [a], num_warps=num_warps)[0] == a.T).all()


def test_token_through_a_loop():
    """Every iteration reads, shifted by one, the elements that the previous one wrote."""
    text = """cuda_tile.module @m {
      entry @k(%p: tile<ptr<i32>>) {
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %n = constant <i32: 5> : tile<i32>
        %lane = iota : tile<128xi32>
        %ones = constant <i32: 1> : tile<128xi32>
        %next = addi %lane, %ones : tile<128xi32>
        %p1 = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
        %pb = broadcast %p1 : tile<1xptr<i32>> -> tile<128xptr<i32>>
        %here = offset %pb, %lane : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
        %there = offset %pb, %next : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
        %start = make_token : token
        %end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%t = %start) -> (token) {
          %x, %t1 = load_ptr_tko weak %there token=%t : tile<128xptr<i32>> -> tile<128xi32>, token
          %y = addi %x, %ones : tile<128xi32>
          %t2 = store_ptr_tko weak %here, %y token=%t1 : tile<128xptr<i32>>, tile<128xi32> -> token
          continue %t2 : token
        }
        return
      }
    }
    """
    a = np.random.default_rng(2).integers(0, 99, 129).astype(np.int32)
    run(text, 1, [a], num_warps=4)


VIEW_COPY = """cuda_tile.module @m {{
  entry @k(%p: tile<ptr<{e}>>, %q: tile<ptr<{e}>>, {params}) {{
    %pt = make_tensor_view %p, shape = [{sizes}], strides = [{strides}]
        : tile<{i}> -> tensor_view<{dyn}{e}, strides=[{dynstr}]>
    %qt = make_tensor_view %q, shape = [{sizes}], strides = [{strides}]
        : tile<{i}> -> tensor_view<{dyn}{e}, strides=[{dynstr}]>
    %pv = make_partition_view %pt
        : partition_view<tile=({tile}), padding_value = zero, tensor_view<{dyn}{e}, strides=[{dynstr}]>>
    %qv = make_partition_view %qt : partition_view<tile=({tile}), tensor_view<{dyn}{e}, strides=[{dynstr}]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %v, %t = load_view_tko weak %pv[{index}]
        : partition_view<tile=({tile}), padding_value = zero, tensor_view<{dyn}{e}, strides=[{dynstr}]>>, tile<i32>
        -> tile<{tile}x{e}>, token
    %s = store_view_tko weak %v, %qv[{index}] token = %t
        : tile<{tile}x{e}>, partition_view<tile=({tile}), tensor_view<{dyn}{e}, strides=[{dynstr}]>>, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize("index_type", ["i32", "i64"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("tile", [(2, 4, 16), (8, 1, 8), (1, 16, 1)])
def test_views_of_rank_three_with_any_strides(tile, order, index_type):
    shape = (5, 9, 21)
    base = np.zeros([shape[d] for d in order], np.float32)
    array = base.transpose(np.argsort(order))
    array[...] = np.random.default_rng(1).standard_normal(shape)
    strides = [s // 4 for s in array.strides]
    names = [f"%s{d}" for d in range(3)], [f"%d{d}" for d in range(3)]
    text = VIEW_COPY.format(
        e="f32", i=index_type, params=", ".join(f"{n}: tile<{index_type}>" for n in (*names[0], *names[1])),
        sizes=", ".join(names[0]), strides=", ".join(names[1]), dyn="?x?x?x", dynstr="?,?,?",
        tile="x".join(map(str, tile)), index="%x, %y, %z",
    )  # fmt: skip
    grid = tuple(-(-size // t) for size, t in zip(shape, tile))
    target = np.full_like(base, 7)
    expected = run(text, grid, [base, target, *shape, *strides])
    assert (expected[1] == base).all()


def test_conditional_store_and_early_return():
    text = """cuda_tile.module @m {
      entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
        %x, %y, %z = get_tile_block_id : tile<i32>
        %lane = iota : tile<64xi32>
        %p1 = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
        %pb = broadcast %p1 : tile<1xptr<i32>> -> tile<64xptr<i32>>
        %size = constant <i32: 64> : tile<i32>
        %first = muli %x, %size : tile<i32>
        %f1 = reshape %first : tile<i32> -> tile<1xi32>
        %fb = broadcast %f1 : tile<1xi32> -> tile<64xi32>
        %place = addi %fb, %lane : tile<64xi32>
        %ps = offset %pb, %place : tile<64xptr<i32>>, tile<64xi32> -> tile<64xptr<i32>>
        %enough = cmpi greater_than_or_equal %x, %n, signed : tile<i32> -> tile<i1>
        if %enough {
          return
        }
        %one = constant <i32: 1> : tile<i32>
        %odd = andi %x, %one : tile<i32>
        %is_odd = cmpi equal %odd, %one, signed : tile<i32> -> tile<i1>
        if %is_odd {
          %t = store_ptr_tko weak %ps, %place : tile<64xptr<i32>>, tile<64xi32> -> token
        } else {
          %m = negi %place : tile<64xi32>
          %t = store_ptr_tko weak %ps, %m : tile<64xptr<i32>>, tile<64xi32> -> token
        }
        return
      }
    }
    """
    expected = run(text, 5, [np.full(5 * 64, 1000, np.int32), 3])
    assert (expected[0][3 * 64 :] == 1000).all()


def test_lock_in_a_loop():
    """Tile blocks take turns: a `loop` that carries tokens, inside a `for` that does."""
    text = """cuda_tile.module @m {
      entry @k(%lock: tile<ptr<i32>>, %sum: tile<ptr<i32>>) {
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %three = constant <i32: 3> : tile<i32>
        %start = make_token : token
        %end = for %i in (%zero to %three, step %one) : tile<i32> iter_values(%t = %start) -> (token) {
          %taken = loop iter_values(%u = %t) : token -> token {
            %old, %u1 = atomic_cas_tko acquire device %lock, %zero, %one token=%u
                : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
            %busy = cmpi equal %old, %one, signed : tile<i32> -> tile<i1>
            if %busy {
            } else {
              break %u1 : token
            }
            continue %u1 : token
          }
          %x, %t1 = load_ptr_tko weak %sum token=%taken : tile<ptr<i32>> -> tile<i32>, token
          %y = addi %x, %one : tile<i32>
          %t2 = store_ptr_tko weak %sum, %y token=%t1 : tile<ptr<i32>>, tile<i32> -> token
          %was, %t3 = atomic_rmw_tko release device %lock, xchg, %zero token=%t2
              : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
          continue %t3 : token
        }
        return
      }
    }
    """
    expected = run(text, 4, [np.zeros(1, np.int32), np.zeros(1, np.int32)])
    assert expected[1][0] == 12


def test_loop_until_a_condition():
    text = """cuda_tile.module @m {
      entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<i32>>) {
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %limit = constant <f32: 100.0> : tile<f32>
        %start = constant <f32: 1.0> : tile<f32>
        %x, %t0 = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
        %count = loop iter_values(%v = %start, %n = %zero) : tile<f32>, tile<i32> -> tile<i32> {
          %big = cmpf greater_than ordered %v, %limit : tile<f32> -> tile<i1>
          if %big {
            break %n : tile<i32>
          }
          %w = mulf %v, %x : tile<f32>
          %m = addi %n, %one : tile<i32>
          continue %w, %m : tile<f32>, tile<i32>
        }
        %s = store_ptr_tko weak %q, %count : tile<ptr<i32>>, tile<i32> -> token
        return
      }
    }
    """
    expected = run(text, 1, [np.full(1, 1.5, np.float32), np.zeros(1, np.int32)])
    assert expected[1][0] == 12
