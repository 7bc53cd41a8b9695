"""Matrix products of nv_tileas with two agents: one fills a ring with tiles of A and B, others multiply.

Operands are of f16 and row-major, A with 256 elements a row; D is of f32.
"""

from __future__ import annotations

from tests.kernels.agents import PIPE, TOKEN

ROWS, COLUMNS, DEPTH = 32, 16, 32


def matmul(kind: str, stages: int, gpu: str, released_first: bool, block_warps: int = 8) -> str:
    """C = A B over %n steps of K, one pipe for both operands; `released_first`: before the dot reads its operands."""
    layouts = """
#sum = #nv_tileas.linear<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]],
  warp = [[16, 0], [0, 8]]>
#rows = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [8, 0], [16, 0]],
  lane = [[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]], warp = []>
#columns = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [16, 0]],
  lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = []>
#left = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16]],
  lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [0, 0]]>
#right = #nv_tileas.linear<register = [[1, 0], [8, 0], [16, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]],
  warp = [[0, 0], [0, 8]]>
#shared_a = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [1, 0], [8, 0], [16, 0], [2, 8],
  [4, 16]]>
#shared_b = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [8, 0], [16, 0], [4, 8]]>
"""
    if kind == "bulk_load":
        # Each row of the box is contiguous in shared memory as it is in global memory.
        plain = ", ".join(f"[0, {1 << bit}]" for bit in range(5)), ", ".join(f"[{1 << bit}, 0]" for bit in range(5))
        layouts = layouts[: layouts.index("#shared_a")]
        layouts += f"#shared_a = #nv_tileas.shared<offset = [{plain[0]}, {plain[1]}]>\n"
        layouts += f"#shared_b = #nv_tileas.shared<offset = [{plain[0][:-9]}, {plain[1]}]>\n"
    half, single, iterator = "!nv_tileaa.ptr<f16>", "!nv_tileaa.ptr<f32>", "!nv_tileas.pipeline_iterator"
    memrefs = {name: f"!nv_tileaa.memref<{shape}, strides = [{strides}]>" for name, shape, strides in (
        ("a", f"{ROWS}x?xf16", "256, 1"), ("b", f"?x{COLUMNS}xf16", "16, 1"), ("c", f"{ROWS}x{COLUMNS}xf32", "16, 1"),
    )}  # fmt: skip
    views = {name: f"!nv_tileaa.tiled_view<[{tile}], {memrefs[name]}>" for name, tile in (
        ("a", f"{ROWS}, {DEPTH}"), ("b", f"{DEPTH}, {COLUMNS}"), ("c", f"{ROWS}, {COLUMNS}"))}  # fmt: skip
    rings = {name: f"!nv_tileas.buffer<{stages}, tensor<{shape}xf16, #shared_{name}>>" for name, shape in (
        ("a", f"{ROWS}x{DEPTH}"), ("b", f"{DEPTH}x{COLUMNS}"))}  # fmt: skip
    inside = "nv_tileaa.inbounds = array<i1: true, true>"
    if kind == "cp_async":
        atom = "atom = #nv_tileas.copy_atom<cp_async, 8>"
        loads = f"""
        %s = {PIPE}.get_stage %i : i32
        nv_tileas.async.tiled_load %va[%zero, %k] into %ra[%s : i32] {{{atom}, layout = #rows, {inside}}}
          : {views["a"]}, (i32, i32), {rings["a"]}
        nv_tileas.async.tiled_load %vb[%k, %zero] into %rb[%s : i32] {{{atom}, layout = #columns, {inside}}}
          : {views["b"]}, (i32, i32), {rings["b"]}"""
    else:
        loads = f"""
        nv_tileas.async.bulk_load %va[%zero, %k] into %q {{{inside}}} : {views["a"]}, (i32, i32)
        nv_tileas.async.bulk_load %vb[%k, %zero] into %q buffer = 1 {{{inside}}} : {views["b"]}, (i32, i32)"""
    total = f"tensor<{ROWS}x{COLUMNS}xf32, #sum>"
    left, right = f"tensor<{ROWS}x{DEPTH}xf16, #left>", f"tensor<{DEPTH}x{COLUMNS}xf16, #right>"
    release = f"%r = {PIPE}.consumer_release %q"
    loop = "scf.for %k = %zero to %n step %one iter_args"
    return f"""{layouts}
module {{
  nv_tileaa.func @k(%pa: {half}, %pb: {half}, %pc: {single}, %n: i32) attributes {{
      kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, nv_tileas.block_warps = {block_warps} : i32,
      target_spec = "{gpu}"}} {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %size = arith.constant 256 : i32
    %a = nv_tileas.assume #nv_tileaa.div_by<16>, %pa : {half}
    %b = nv_tileas.assume #nv_tileaa.div_by<16>, %pb : {half}
    %ma = nv_tileas.make_memref %a, sizes = [%size], strides = [] : {half}, (i32), () -> {memrefs["a"]}
    %mb = nv_tileas.make_memref %b, sizes = [%size], strides = [] : {half}, (i32), () -> {memrefs["b"]}
    %mc = nv_tileas.make_memref %pc, sizes = [], strides = [] : {single}, (), () -> {memrefs["c"]}
    %va = nv_tileas.block_tile %ma : {views["a"]}
    %vb = nv_tileas.block_tile %mb : {views["b"]}
    %vc = nv_tileas.block_tile %mc : {views["c"]}
    %ra = nv_tileas.alloc_tensor : {rings["a"]}
    %rb = nv_tileas.alloc_tensor : {rings["b"]}
    %p, %c = {PIPE}.create_pipeline %ra, %rb stages {stages} producer = {kind} : {rings["a"]}, {rings["b"]}
    {PIPE}.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 1] max_regs = [224, 40] {{
      %start = arith.constant dense<0.0> : tensor<{ROWS}x{COLUMNS}xf32> as {total}
      %i0 = {PIPE}.create_iterator %c : !nv_tileas.consumer_token
      %last, %sum = {loop}(%i = %i0, %acc = %start) -> ({iterator}, {total}) : i32 {{
        %q = {PIPE}.consumer_wait %c, %i
        %x = {PIPE}.consumer_read %q : {left}
        %y = {PIPE}.consumer_read %q buffer = 1 : {right}
        {release if released_first else ""}
        %d = nv_tileas.dot %x, %y, %acc {{atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">}}
          : {left}, {right} -> {total}
        {"" if released_first else release}
        %j = {PIPE}.inc_iter %i
        scf.yield %j, %d : {iterator}, {total}
      }}
      %t = nv_tileas.tiled_store %sum, %vc[%zero, %zero] {{atom = #nv_tileas.copy_atom<st_global, 1>}}
        : {total}, {views["c"]}, (i32, i32) -> {TOKEN}
      {PIPE}.yield
    }}, {{
      %i0 = {PIPE}.create_iterator %p : !nv_tileas.producer_token
      %last = {loop}(%i = %i0) -> ({iterator}) : i32 {{
        %q = {PIPE}.producer_acquire %p, %i
        {loads}
        %r = {PIPE}.producer_commit %q
        %j = {PIPE}.inc_iter %i
        scf.yield %j : {iterator}
      }}
      {PIPE}.yield
    }}
    nv_tileas.dealloc_tensor %ra : {rings["a"]}
    nv_tileas.dealloc_tensor %rb : {rings["b"]}
    nv_tileaa.return
  }}
}}
"""


def warpgroup_matmul(kind: str, stages: int, groups: int = 1) -> str:
    """C = A B of tiles 64x64 and 64x16 over %n steps of K, by one or two warpgroups that each compute all of C; the
    operands stay in shared memory."""
    shared_a = "[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]"
    shared_b = "[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 8], [8, 0], [16, 0], [32, 0]"
    half, single, iterator = "!nv_tileaa.ptr<f16>", "!nv_tileaa.ptr<f32>", "!nv_tileas.pipeline_iterator"
    memref = {name: f"!nv_tileaa.memref<{shape}, strides = [{stride}, 1]>" for name, shape, stride in (
        ("a", "64x?xf16", 256), ("b", "?x16xf16", 16), ("c", "64x16xf32", 16))}  # fmt: skip
    view = {name: f"!nv_tileaa.tiled_view<[{tile}], {memref[name]}>" for name, tile in (
        ("a", "64, 64"), ("b", "64, 16"), ("c", "64, 16"))}  # fmt: skip
    inside = "nv_tileaa.inbounds = array<i1: true, true>"
    place = {"a": "%zero, %k", "b": "%k, %zero"}
    tile = {"a": "tensor<64x64xf16, #sa>", "b": "tensor<64x16xf16, #sb>"}
    ring = {name: f"!nv_tileas.buffer<{stages}, {tile[name]}>" for name in "ab"}
    held = {"a": "tensor<64x64xf16, #rows>", "b": "tensor<64x16xf16, #columns>"}

    desc = {"a": f"!nv_tileas.tma_desc<{view['a']}, box = [64, 64], order = [1, 0], swizzle = 128>",
            "b": f"!nv_tileas.tma_desc<{view['b']}, box = [64, 16], order = [1, 0], swizzle = 32>"}  # fmt: skip

    def descriptor(name: str) -> str:
        return f"%d{name} = nv_tileas.make_tma_desc %v{name} : {view[name]} -> {desc[name]}" if kind == "tma" else ""

    def load(name: str, number: int, layout: str) -> str:
        if kind == "tma":
            coords = f"{desc[name]}, (i32, i32)"
            return f"nv_tileas.async.tma_load %d{name}[{place[name]}] into %q buffer = {number} : {coords}"
        if kind == "cp_async":
            atom = f"atom = #nv_tileas.copy_atom<cp_async, 8>, layout = {layout}"
            return (
                f"nv_tileas.async.tiled_load %v{name}[{place[name]}] into %r{name}[%s : i32] {{{atom}, {inside}}}"
                f" : {view[name]}, (i32, i32), {ring[name]}"
            )
        return f"""%l{name}, %t{name} = nv_tileas.tiled_load %v{name}[{place[name]}] {{{inside},
          atom = #nv_tileas.copy_atom<ld_global, 8>}} : {view[name]}, (i32, i32) -> {held[name]}, {TOKEN}
        {PIPE}.producer_write %l{name} into %q buffer = {number} : {held[name]}"""

    total = "tensor<64x16xf32, #sum>"
    flying = f"!nv_tileas.in_flight<{total}>"
    loop = "scf.for %k = %zero to %n step %one iter_args"

    def consumer(out: str) -> str:
        return f"""{{
      %start = arith.constant dense<0.0> : tensor<64x16xf32> as {total}
      %i0 = {PIPE}.create_iterator %c : !nv_tileas.consumer_token
      %last, %sum = {loop}(%i = %i0, %acc = %start) -> ({iterator}, {total}) : i32 {{
        %q = {PIPE}.consumer_wait %c, %i
        %s = {PIPE}.get_stage %i : i32
        %x = nv_tileas.copy %ra[%s : i32] : {ring["a"]} -> {tile["a"]}
        %y = nv_tileas.copy %rb[%s : i32] : {ring["b"]} -> {tile["b"]}
        %f = nv_tileas.async.to_async %acc : ({total}) -> {flying}
        %g = nv_tileas.async.dot %x, %y, %f {{atom = #nv_tileas.mma_atom<"wgmma_m64n16k16_f32_f16_f16_ss">}}
          : {tile["a"]}, {tile["b"]} -> {flying}
        nv_tileas.async.commit_dots
        %d = nv_tileas.async.future_wait %g {{pending = 0 : i32}} : ({flying}) -> {total}
        %r = {PIPE}.consumer_release %q
        %j = {PIPE}.inc_iter %i
        scf.yield %j, %d : {iterator}, {total}
      }}
      %t = nv_tileas.tiled_store %sum, {out}[%zero, %zero] {{atom = #nv_tileas.copy_atom<st_global, 1>}}
        : {total}, {view["c"]}, (i32, i32) -> {TOKEN}
      {PIPE}.yield
    }}"""

    producer = "bulk_load" if kind == "tma" else kind
    regions = ", ".join(consumer(out) for out in ("%vc", "%vd")[:groups])
    counts, ones = ", ".join(["4"] * groups + ["1"]), ", ".join(["1"] * (groups + 1))
    return f"""
#sum = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]],
  warp = [[16, 0], [32, 0]]>
#rows = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [4, 0], [8, 0], [16, 0], [32, 0]],
  lane = [[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]], warp = []>
#columns = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [16, 0], [32, 0]],
  lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = []>
#sa = #nv_tileas.shared<offset = [{shared_a}]>
#sb = #nv_tileas.shared<offset = [{shared_b}]>
module {{
  nv_tileaa.func @k(%pa: {half}, %pb: {half}, %pc: {single}, %pd: {single}, %n: i32) attributes {{
      kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90",
      nv_tileas.block_warps = {4 * groups + 1} : i32}} {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %size = arith.constant 256 : i32
    %a = nv_tileas.assume #nv_tileaa.div_by<16>, %pa : {half}
    %b = nv_tileas.assume #nv_tileaa.div_by<16>, %pb : {half}
    %ma = nv_tileas.make_memref %a, sizes = [%size], strides = [] : {half}, (i32), () -> {memref["a"]}
    %mb = nv_tileas.make_memref %b, sizes = [%size], strides = [] : {half}, (i32), () -> {memref["b"]}
    %mc = nv_tileas.make_memref %pc, sizes = [], strides = [] : {single}, (), () -> {memref["c"]}
    %md = nv_tileas.make_memref %pd, sizes = [], strides = [] : {single}, (), () -> {memref["c"]}
    %va = nv_tileas.block_tile %ma : {view["a"]}
    %vb = nv_tileas.block_tile %mb : {view["b"]}
    %vc = nv_tileas.block_tile %mc : {view["c"]}
    %vd = nv_tileas.block_tile %md : {view["c"]}
    {descriptor("a")}
    {descriptor("b")}
    %ra = nv_tileas.alloc_tensor : {ring["a"]}
    %rb = nv_tileas.alloc_tensor : {ring["b"]}
    %p, %c = {PIPE}.create_pipeline %ra, %rb stages {stages} producer = {producer} consumer = wgmma
      : {ring["a"]}, {ring["b"]}
    {PIPE}.agent_switch num_agents_per_group = [{ones}] num_warps = [{counts}] {regions}, {{
      %i0 = {PIPE}.create_iterator %p : !nv_tileas.producer_token
      %last = {loop}(%i = %i0) -> ({iterator}) : i32 {{
        %q = {PIPE}.producer_acquire %p, %i
        %s = {PIPE}.get_stage %i : i32
        {load("a", 0, "#rows")}
        {load("b", 1, "#columns")}
        %r = {PIPE}.producer_commit %q
        %j = {PIPE}.inc_iter %i
        scf.yield %j : {iterator}
      }}
      {PIPE}.yield
    }}
    nv_tileas.dealloc_tensor %ra : {ring["a"]}
    nv_tileas.dealloc_tensor %rb : {ring["b"]}
    nv_tileaa.return
  }}
}}
"""
