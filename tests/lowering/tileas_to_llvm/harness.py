"""From nv_tileas text to PTX that the emulator runs, without the stages in between that have tests of their own."""

from tests.tileas_stage import LAYOUTS, PIPELINED, PLACED, through
from tileiras.codegen import admission, llvm_pipeline
from tileiras.codegen.target_machine import processor
from tileiras.ir import parse_module, print_op, verify
from tileiras.lowering.llvm_to_ir import translate_module
from tileiras.lowering.tileas_to_llvm import convert_tileas_to_llvm
from tileiras.targets import target

SPEC = '{kernel_spec = #nv_tileaa.kernel_spec<numWarps = %d, numCtas = 1>, target_spec = "sm_90"}'


def lower(text: str, gpu: str = "sm_90", stages: int = 1, **options):
    """The module, of nv_tileas or nv_tileaa operations, in the llvm dialect and verified; with more than one of
    `stages` its loops are pipelined."""
    module = parse_module(text, "test.mlir")
    if "tensor<" in text and "nv_tileas.linear" not in text:
        through(module, LAYOUTS, gpu)
    if stages > 1:
        through(module, PIPELINED, gpu, from_="tileas-mark-short-loops", num_stages=stages)
    through(module, PLACED, gpu, from_="tileas-assign-launch-bounds")
    convert_tileas_to_llvm(module, target(gpu), **options)
    verify(module)
    return module


def llvm_text(text: str, gpu: str = "sm_90") -> str:
    return print_op(lower(text, gpu))


def ptx(text: str, gpu: str = "sm_90", **options) -> str:
    """PTX for a module whose functions need no libdevice."""
    ir = translate_module(lower(text, gpu, **options), gpu)
    needs = admission.check(ir, processor(gpu))
    row = processor(gpu if gpu[-1] in "af" else gpu + needs.letter)
    return llvm_pipeline.compile_to_ptx(ir, row, opt_level=3, required_ptx=needs.ptx).text


def encoding(layout) -> str:
    """A layout as the encoding attribute's text."""
    parts = []
    for name, bases in layout.to_coordinates().items():
        if name != "block":
            listed = ", ".join("[" + ", ".join(map(str, basis)) + "]" for basis in bases)
            parts.append(f"{name} = [{listed}]")
    return f"#nv_tileas.linear<{', '.join(parts)}>"


def tensor(shape, element: str, layout) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{element}, {encoding(layout)}>"


def copy_kernel(shape, element: str, source, target_layout, *, body: str = "", warps: int = 4) -> str:
    """Loads a dense row-major tile in one layout, converts it, and stores it from the other."""
    size = "x".join(map(str, shape))
    strides = []
    step = 1
    for n in reversed(shape):
        strides.insert(0, str(step))
        step *= n
    memref = f"!nv_tileaa.memref<{size}x{element}, strides = [{', '.join(strides)}]>"
    view = f"!nv_tileaa.tiled_view<[{', '.join(map(str, shape))}], {memref}>"
    zeros = ", ".join(["%z"] * len(shape))
    types = ", ".join(["i32"] * len(shape))
    a, b = tensor(shape, element, source), tensor(shape, element, target_layout)
    return f"""
builtin.module {{
  nv_tileaa.func @copy(%a: !nv_tileaa.ptr<{element}>, %b: !nv_tileaa.ptr<{element}>) attributes {SPEC % warps} {{
    %z = arith.constant 0 : i32
    %ma = nv_tileas.make_memref %a, sizes = [], strides = [] : !nv_tileaa.ptr<{element}>, (), () -> {memref}
    %mb = nv_tileas.make_memref %b, sizes = [], strides = [] : !nv_tileaa.ptr<{element}>, (), () -> {memref}
    %va = nv_tileas.block_tile %ma : {view}
    %vb = nv_tileas.block_tile %mb : {view}
    %x, %t = nv_tileas.tiled_load %va[{zeros}] {{atom = #nv_tileas.copy_atom<ld_global, 1>}}
      : {view}, ({types}) -> {a}, !nv_tileaa.mem_token
    %y = nv_tileas.convert_layout %x : {a} -> {b}
    %s = nv_tileas.tiled_store %y, %vb[{zeros}] {{atom = #nv_tileas.copy_atom<st_global, 1>}}
      : {b}, {view}, ({types}) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }}
}}
"""


def memref(shape, element):
    strides, step = [], 1
    for n in reversed(shape):
        strides.insert(0, str(step))
        step *= n
    return f"!nv_tileaa.memref<{'x'.join(map(str, shape))}x{element}, strides = [{', '.join(strides)}]>"


def kernel(inputs, output, body, element="i32"):
    """Loads dense tiles %x0.. of the shapes `inputs`, runs `body`, and stores its %out of shape `output`."""
    lines = []
    parameters = [f"%p{i}: !nv_tileaa.ptr<{element}>" for i in range(len(inputs) + 1)]
    for i, shape in enumerate([*inputs, output]):
        view = f"!nv_tileaa.tiled_view<[{', '.join(map(str, shape))}], {memref(shape, element)}>"
        zeros, types = ", ".join(["%z"] * len(shape)), ", ".join(["i32"] * len(shape))
        tile = f"tensor<{'x'.join(map(str, shape))}x{element}>"
        lines.append(
            f"%m{i} = nv_tileaa.make_memref %p{i}, sizes = [], strides = []"
            f" : !nv_tileaa.ptr<{element}>, (), () -> {memref(shape, element)}\n"
            f"%v{i} = nv_tileaa.block_tile %m{i} : {view}"
        )
        if i < len(inputs):
            lines.append(f"%x{i}, %t{i} = nv_tileaa.tiled_load %v{i}[{zeros}] : {view}, ({types}) -> {tile}, TOKEN")
        else:
            store = f"%done = nv_tileaa.tiled_store %out, %v{i}[{zeros}] : {tile}, {view}, ({types}) -> TOKEN"
    text = "\n".join(["%z = arith.constant 0 : i32", *lines, body, store, "nv_tileaa.return"])
    text = text.replace("TOKEN", "!nv_tileaa.mem_token")
    signature = f"@kernel({', '.join(parameters)}) attributes {SPEC % 4}"
    return f"builtin.module {{ nv_tileaa.func {signature} {{\n{text}\n}} }}"


def elementwise(source: str, target: str, body: str, count: int = 256) -> str:
    """Applies `body`, from %x to %y, to a dense array."""

    def names(element, which):
        memref = f"!nv_tileaa.memref<{count}x{element}, strides = [1]>"
        return memref, f"!nv_tileaa.tiled_view<[{count}], {memref}>", f"!nv_tileaa.ptr<{element}>", which

    (ma, va, pa, _), (mb, vb, pb, _) = names(source, "a"), names(target, "b")
    body = body.replace("SOURCE", f"tensor<{count}x{source}>").replace("TARGET", f"tensor<{count}x{target}>")
    return f"""
builtin.module {{
  nv_tileaa.func @kernel(%a: {pa}, %b: {pb}) attributes {SPEC % 4} {{
    %z = arith.constant 0 : i32
    %ma = nv_tileaa.make_memref %a, sizes = [], strides = [] : {pa}, (), () -> {ma}
    %mb = nv_tileaa.make_memref %b, sizes = [], strides = [] : {pb}, (), () -> {mb}
    %va = nv_tileaa.block_tile %ma : {va}
    %vb = nv_tileaa.block_tile %mb : {vb}
    %x, %t = nv_tileaa.tiled_load %va[%z] : {va}, (i32) -> tensor<{count}x{source}>, !nv_tileaa.mem_token
    {body}
    %s = nv_tileaa.tiled_store %y, %vb[%z] : tensor<{count}x{target}>, {vb}, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }}
}}
"""
