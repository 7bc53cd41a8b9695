"""Kernels of nv_tileaa and nv_tileas as text with parameters."""

from __future__ import annotations

from collections.abc import Sequence

from tests.kernels.views import dense_strides
from tileiras.layout.linear_layout import LinearLayout

SPEC = '{kernel_spec = #nv_tileaa.kernel_spec<numWarps = %d, numCtas = 1>, target_spec = "sm_90"}'

TOKEN = "!nv_tileaa.mem_token"


def encoding(layout: LinearLayout) -> str:
    """A layout as the encoding attribute's text."""
    parts = []
    for name, bases in layout.to_coordinates().items():
        if name != "block":
            listed = ", ".join("[" + ", ".join(map(str, basis)) + "]" for basis in bases)
            parts.append(f"{name} = [{listed}]")
    return f"#nv_tileas.linear<{', '.join(parts)}>"


def tensor(shape: Sequence[int], element: str, layout: LinearLayout) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{element}, {encoding(layout)}>"


def memref(shape: Sequence[int], element: str) -> str:
    """The type of a dense row-major array."""
    strides = ", ".join(map(str, dense_strides(shape)))
    return f"!nv_tileaa.memref<{'x'.join(map(str, shape))}x{element}, strides = [{strides}]>"


def tiled(shape: Sequence[int], element: str) -> tuple[str, str, str]:
    """The type of a view of such an array as one tile, and the indices of that tile with their types."""
    view = f"!nv_tileaa.tiled_view<[{', '.join(map(str, shape))}], {memref(shape, element)}>"
    return view, ", ".join(["%z"] * len(shape)), ", ".join(["i32"] * len(shape))


def copy_kernel(
    shape: Sequence[int], element: str, source: LinearLayout, target: LinearLayout, *, warps: int = 4
) -> str:
    """Loads a dense row-major tile in one layout, converts it, and stores it from the other."""
    array = memref(shape, element)
    view, zeros, types = tiled(shape, element)
    a, b = tensor(shape, element, source), tensor(shape, element, target)
    return f"""
builtin.module {{
  nv_tileaa.func @copy(%a: !nv_tileaa.ptr<{element}>, %b: !nv_tileaa.ptr<{element}>) attributes {SPEC % warps} {{
    %z = arith.constant 0 : i32
    %ma = nv_tileas.make_memref %a, sizes = [], strides = [] : !nv_tileaa.ptr<{element}>, (), () -> {array}
    %mb = nv_tileas.make_memref %b, sizes = [], strides = [] : !nv_tileaa.ptr<{element}>, (), () -> {array}
    %va = nv_tileas.block_tile %ma : {view}
    %vb = nv_tileas.block_tile %mb : {view}
    %x, %t = nv_tileas.tiled_load %va[{zeros}] {{atom = #nv_tileas.copy_atom<ld_global, 1>}}
      : {view}, ({types}) -> {a}, {TOKEN}
    %y = nv_tileas.convert_layout %x : {a} -> {b}
    %s = nv_tileas.tiled_store %y, %vb[{zeros}] {{atom = #nv_tileas.copy_atom<st_global, 1>}}
      : {b}, {view}, ({types}) -> {TOKEN}
    nv_tileaa.return
  }}
}}
"""


def kernel(inputs: Sequence[Sequence[int]], output: Sequence[int], body: str, element: str = "i32") -> str:
    """Loads dense tiles %x0, %x1, ... of the shapes `inputs`, runs `body`, and stores its %out of shape `output`."""
    pointer = f"!nv_tileaa.ptr<{element}>"
    lines, shapes = ["%z = arith.constant 0 : i32"], [*inputs, output]
    for i, shape in enumerate(shapes):
        view, zeros, types = tiled(shape, element)
        tile = f"tensor<{'x'.join(map(str, shape))}x{element}>"
        lines += [
            f"%m{i} = nv_tileaa.make_memref %p{i}, sizes = [], strides = []"
            f" : {pointer}, (), () -> {memref(shape, element)}",
            f"%v{i} = nv_tileaa.block_tile %m{i} : {view}",
        ]
        if i < len(inputs):
            lines.append(f"%x{i}, %t{i} = nv_tileaa.tiled_load %v{i}[{zeros}] : {view}, ({types}) -> {tile}, {TOKEN}")
        else:
            lines.append(body)
            lines.append(f"%done = nv_tileaa.tiled_store %out, %v{i}[{zeros}] : {tile}, {view}, ({types}) -> {TOKEN}")
    text = "\n".join([*lines, "nv_tileaa.return"])
    parameters = ", ".join(f"%p{i}: {pointer}" for i in range(len(shapes)))
    return f"builtin.module {{ nv_tileaa.func @kernel({parameters}) attributes {SPEC % 4} {{\n{text}\n}} }}"


def elementwise(source: str, target: str, body: str, count: int = 256) -> str:
    """Apply `body`, from %x to %y, to a dense array; SOURCE and TARGET stand for the tiles' types."""
    types = [f"tensor<{count}x{element}>" for element in (source, target)]
    (va, at, index), (vb, _, _) = (tiled((count,), element) for element in (source, target))
    ma, mb = (memref((count,), element) for element in (source, target))
    pa, pb = (f"!nv_tileaa.ptr<{element}>" for element in (source, target))
    body = body.replace("SOURCE", types[0]).replace("TARGET", types[1])
    return f"""
builtin.module {{
  nv_tileaa.func @kernel(%a: {pa}, %b: {pb}) attributes {SPEC % 4} {{
    %z = arith.constant 0 : i32
    %ma = nv_tileaa.make_memref %a, sizes = [], strides = [] : {pa}, (), () -> {ma}
    %mb = nv_tileaa.make_memref %b, sizes = [], strides = [] : {pb}, (), () -> {mb}
    %va = nv_tileaa.block_tile %ma : {va}
    %vb = nv_tileaa.block_tile %mb : {vb}
    %x, %t = nv_tileaa.tiled_load %va[{at}] : {va}, ({index}) -> {types[0]}, {TOKEN}
    {body}
    %s = nv_tileaa.tiled_store %y, %vb[{at}] : {types[1]}, {vb}, ({index}) -> {TOKEN}
    nv_tileaa.return
  }}
}}
"""
