"""A matrix product of nv_tileaa with a loop over K whose bounds are known at run time, for tests of schedules."""

from __future__ import annotations

import numpy as np

from tests.kernels.tileaa import SPEC, TOKEN
from tileiras.sim import emulate

M, N, K = 32, 16, 32


def view(rows, columns, strides):
    memref = f"!nv_tileaa.memref<?x?xf16, strides = [{strides}]>"
    return memref, f"!nv_tileaa.tiled_view<[{rows}, {columns}], {memref}, padding = #nv_tileaa.padding_value<zero>>"


def matmul(body="", before="", step=1):
    """C = A B over %n steps of K; A is `m` x `k` in rows of `pitch` elements, a multiple of 8; B is `k` x 16, dense."""
    a_memref, a_view = view(M, K, "?, 1")
    b_memref, b_view = view(K, N, "16, 1")
    c_memref, c_view = view(M, N, "16, 1")
    c_memref, c_view = c_memref.replace("f16", "f32"), c_view.replace("f16", "f32")
    f16, f32 = "!nv_tileaa.ptr<f16>", "!nv_tileaa.ptr<f32>"
    acc = f"tensor<{M}x{N}xf32>"
    return f"""
builtin.module {{
  nv_tileaa.func @matmul(%pa: {f16}, %pb: {f16}, %pc: {f32}, %m: i32, %k: i32, %pitch: i32, %n: i32)
      attributes {SPEC % 4} {{
    %a = nv_tileaa.assume #nv_tileaa.div_by<16>, %pa : {f16}
    %b = nv_tileaa.assume #nv_tileaa.div_by<16>, %pb : {f16}
    %pitch8 = nv_tileaa.assume #nv_tileaa.div_by<8>, %pitch : i32
    %zero = arith.constant 0 : i32
    %one = arith.constant {step} : i32
    %sixteen = arith.constant 16 : i32
    %ma = nv_tileaa.make_memref %a, sizes = [%m, %k], strides = [%pitch8] : {f16}, (i32, i32), (i32) -> {a_memref}
    %mb = nv_tileaa.make_memref %b, sizes = [%k, %sixteen], strides = [] : {f16}, (i32, i32), () -> {b_memref}
    %mc = nv_tileaa.make_memref %pc, sizes = [%m, %sixteen], strides = [] : {f32}, (i32, i32), () -> {c_memref}
    %va = nv_tileaa.block_tile %ma : {a_view}
    %vb = nv_tileaa.block_tile %mb : {b_view}
    %vc = nv_tileaa.block_tile %mc : {c_view}
    %start = arith.constant dense<0.0> : {acc}
    %token = nv_tileaa.create_mem_token : {TOKEN}
    {before}
    %sum, %last = scf.for %i = %zero to %n step %one iter_args(%acc = %start, %t = %token)
        -> ({acc}, {TOKEN}) : i32 {{
      %x, %tx = nv_tileaa.tiled_load %va[%zero, %i] token = %t
        : {a_view}, (i32, i32) -> tensor<{M}x{K}xf16>, {TOKEN}
      %y, %ty = nv_tileaa.tiled_load %vb[%i, %zero] token = %t
        : {b_view}, (i32, i32) -> tensor<{K}x{N}xf16>, {TOKEN}
      %d = nv_tileaa.dot %x, %y, %acc : tensor<{M}x{K}xf16>, tensor<{K}x{N}xf16> -> {acc}
      %both = nv_tileaa.join_mem_token %tx, %ty : {TOKEN}
      {body}
      scf.yield %d, %both : {acc}, {TOKEN}
    }}
    %done = nv_tileaa.tiled_store %sum, %vc[%zero, %zero] token = %last
      : {acc}, {c_view}, (i32, i32) -> {TOKEN}
    nv_tileaa.return
  }}
}}
"""


def arrays(m, k, pitch):
    rng = np.random.default_rng(0)
    a = np.full((m, pitch), 1000, np.float16)
    a[:, :k] = rng.integers(-8, 8, (m, k))
    b = rng.integers(-8, 8, (k, N)).astype(np.float16)
    return a, b, np.zeros((m, N), np.float32)


def check(text, m, k, pitch, steps, seed=0):
    a, b, c = arrays(m, k, pitch)
    emulate(text, "matmul", 1, [a, b, c, m, k, pitch, steps], shared_memory=1 << 16, seed=seed)
    depth = min(k, max(0, steps) * K)
    assert np.array_equal(c, a[:, :depth].astype(np.float32) @ b[:depth].astype(np.float32))


def through_pointers():
    """The matmul whose A is a tile of pointers, with a mask that ends at any column and any row."""
    lines = [
        f"%rows = nv_tileaa.make_range : tensor<{M}xi32>",
        f"%columns = nv_tileaa.make_range : tensor<{K}xi32>",
        "%width = arith.constant 32 : i32",
        "%first = arith.muli %i, %width : i32",
        f"%firsts = nv_tileaa.splat %first : i32 -> tensor<{K}xi32>",
        f"%place = arith.addi %firsts, %columns : tensor<{K}xi32>",
        f"%ks = nv_tileaa.splat %k : i32 -> tensor<{K}xi32>",
        f"%ms = nv_tileaa.splat %m : i32 -> tensor<{M}xi32>",
        f"%pitches = nv_tileaa.splat %pitch8 : i32 -> tensor<{M}xi32>",
        f"%inside = arith.cmpi slt, %place, %ks : tensor<{K}xi32>",
        f"%exists = arith.cmpi slt, %rows, %ms : tensor<{M}xi32>",
        f"%starts = arith.muli %rows, %pitches : tensor<{M}xi32>",
    ]
    for name, count, element in (("inside", K, "i1"), ("place", K, "i32"), ("exists", M, "i1"), ("starts", M, "i32")):
        thin = f"1x{K}" if count == K and name in ("inside", "place") else f"{M}x1"
        lines.append(f"%{name}_1 = nv_tileaa.view %{name} : tensor<{count}x{element}> -> tensor<{thin}x{element}>")
        full = f"tensor<{M}x{K}x{element}>"
        lines.append(f"%{name}_2 = nv_tileaa.broadcast %{name}_1 : tensor<{thin}x{element}> -> {full}")
    pointers = f"tensor<{M}x{K}x!nv_tileaa.ptr<f16>>"
    lines += [
        f"%mask = arith.andi %inside_2, %exists_2 : tensor<{M}x{K}xi1>",
        f"%offset = arith.addi %place_2, %starts_2 : tensor<{M}x{K}xi32>",
        f"%bases = nv_tileaa.splat %a : !nv_tileaa.ptr<f16> -> {pointers}",
        f"%addresses = nv_tileaa.addptr %bases, %offset : {pointers}, tensor<{M}x{K}xi32>",
        f"%x, %tx = nv_tileaa.load %addresses mask = %mask : tensor<{M}x{K}xi1> token = %t",
    ]
    text = matmul()
    start, end = text.index("%x, %tx = "), text.index("-> tensor<", text.index("%x, %tx = "))
    return text[:start] + "\n      ".join(lines) + f"\n        : {pointers} " + text[end:]
