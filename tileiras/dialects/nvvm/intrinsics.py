"""The `llvm.nvvm.*` intrinsics that we emit, as data.

LLVM's own gating is loose: an intrinsic above the target's SM ends the process, some are accepted for an SM whose
ptxas refuses them, and a misspelt name silently becomes a call of an extern function.  So a module is admitted by this
table before LLVM sees it.

Sources: LLVM 22's IntrinsicsNVVM.td for names and signatures; the lowest SM and PTX version are those of the PTX ISA's
"Target ISA Notes" of the instruction each one selects (confirmed by compiling every row with LLVM and assembling it
with ptxas in the tests).
"""

from __future__ import annotations

from collections.abc import Iterator

from tileiras.support.named_tuple import NamedTuple

PREFIX = "llvm.nvvm."

Version = tuple[int, int]

# Effects. "none": depends on nothing but its operands. "convergent": also on which threads of the warp execute it.
# "read"/"write"/"readwrite": memory. "barrier": orders memory between threads, convergent.
EFFECTS = ("none", "convergent", "read", "write", "readwrite", "barrier")


class Intrinsic(NamedTuple):
    """One intrinsic; `result` and `operands` in LLVM's spelling, `p3` short for `ptr addrspace(3)`."""

    name: str
    result: str
    operands: tuple[str, ...]
    sm: str
    """The requirement on the GPU, in the language of `tileiras.targets.requirements`."""
    ptx: tuple[int, int]
    effects: str
    immediates: tuple[int, ...] = ()
    """Positions of operands that must be constants."""


PTX60, PTX62, PTX63, PTX65, PTX70, PTX71, PTX78, PTX80, PTX81, PTX86 = (
    (6, 0), (6, 2), (6, 3), (6, 5), (7, 0), (7, 1), (7, 8), (8, 0), (8, 1), (8, 6),
)  # fmt: skip

ROUNDINGS = ("rn", "rz", "rm", "rp")


POINTER_SPACES = (0, 1, 3, 4, 5, 6, 7, 101)
"""NVPTX's: generic, global, shared, constant, local, tensor memory, a cluster's shared memory, parameters."""


def _moves() -> Iterator[Intrinsic]:
    """Copies that LLVM does not look through; they exist only for these types."""
    for name, type in (("i16", "i16"), ("i32", "i32"), ("i64", "i64"), ("float", "float"), ("double", "double")):
        yield Intrinsic(f"move.{name}", type, (type,), "75", PTX60, "none")
    for space in POINTER_SPACES:
        pointer = f"ptr addrspace({space})" if space else "ptr"
        yield Intrinsic(f"move.ptr.p{space}", pointer, (pointer,), "75", PTX60, "none")


def _special_registers() -> Iterator[Intrinsic]:
    names = [f"{r}.{axis}" for r in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]
    names += ["laneid", "warpid", "nwarpid", "smid", "nsmid", "warpsize"]
    names += [f"lanemask.{c}" for c in ("eq", "le", "lt", "ge", "gt")]
    for name in names:
        yield Intrinsic(f"read.ptx.sreg.{name}", "i32", (), "75", PTX60, "none")
    clusters = [f"{r}.{axis}" for r in ("clusterid", "nclusterid", "cluster.ctaid", "cluster.nctaid") for axis in "xyz"]
    for name in (*clusters, "cluster.ctarank", "cluster.nctarank"):
        yield Intrinsic(f"read.ptx.sreg.{name}", "i32", (), "90", PTX78, "none")
    for name in ("clock64", "globaltimer"):
        yield Intrinsic(f"read.ptx.sreg.{name}", "i64", (), "75", PTX60, "readwrite")


def _synchronization() -> Iterator[Intrinsic]:
    yield Intrinsic("barrier.cta.sync.aligned.all", "void", ("i32",), "75", PTX60, "barrier")
    yield Intrinsic("barrier.cta.sync.aligned.count", "void", ("i32", "i32"), "75", PTX60, "barrier")
    yield Intrinsic("barrier.cta.sync.all", "void", ("i32",), "75", PTX60, "barrier")
    yield Intrinsic("barrier.cta.sync.count", "void", ("i32", "i32"), "75", PTX60, "barrier")
    yield Intrinsic("barrier.cta.arrive.aligned.count", "void", ("i32", "i32"), "75", PTX60, "barrier")
    yield Intrinsic("bar.warp.sync", "void", ("i32",), "75", PTX60, "barrier")
    for order in ("arrive", "arrive.relaxed", "wait"):
        for aligned in ("", ".aligned"):
            ptx = PTX80 if order == "arrive.relaxed" else PTX78
            yield Intrinsic(f"barrier.cluster.{order}{aligned}", "void", (), "90", ptx, "barrier")
    yield Intrinsic("fence.proxy.async", "void", (), "90", PTX80, "barrier")
    yield Intrinsic("fence.proxy.async.shared_cta", "void", (), "90", PTX80, "barrier")
    yield Intrinsic("fence.proxy.async.global", "void", (), "90", PTX80, "barrier")
    yield Intrinsic("fence.mbarrier_init.release.cluster", "void", (), "90", PTX80, "barrier")
    yield Intrinsic("griddepcontrol.wait", "void", (), "90", PTX78, "barrier")
    yield Intrinsic("griddepcontrol.launch.dependents", "void", (), "90", PTX78, "barrier")
    yield Intrinsic("nanosleep", "void", ("i32",), "75", PTX63, "readwrite")
    yield Intrinsic("exit", "void", (), "75", PTX60, "readwrite")


def _warp() -> Iterator[Intrinsic]:
    for mode in ("bfly", "idx", "up", "down"):
        for suffix, type_name in (("i32", "i32"), ("f32", "float")):
            operands = ("i32", type_name, "i32", "i32")
            yield Intrinsic(f"shfl.sync.{mode}.{suffix}", type_name, operands, "75", PTX60, "convergent")
    for kind in ("all", "any", "uni"):
        yield Intrinsic(f"vote.{kind}.sync", "i1", ("i32", "i1"), "75", PTX60, "convergent")
    yield Intrinsic("vote.ballot.sync", "i32", ("i32", "i1"), "75", PTX60, "convergent")
    for bits in (32, 64):
        yield Intrinsic(f"match.any.sync.i{bits}", "i32", ("i32", f"i{bits}"), "75", PTX60, "convergent")
    yield Intrinsic("activemask", "i32", (), "75", PTX62, "convergent")
    for op in ("add", "min", "max", "umin", "umax", "and", "or", "xor"):
        yield Intrinsic(f"redux.sync.{op}", "i32", ("i32", "i32"), "80", PTX70, "convergent")
    for op in ("fmin", "fmax"):
        for nan in ("", ".NaN"):
            targets = "=100f"
            yield Intrinsic(f"redux.sync.{op}{nan}", "float", ("float", "i32"), targets, PTX86, "convergent")
    yield Intrinsic("elect.sync", "{i32, i1}", ("i32",), "90", PTX80, "convergent")


def _mma() -> Iterator[Intrinsic]:
    """mma.sync; operands are the A, B and C fragments in PTX register order."""
    half2, i32, f32, f64 = "<2 x half>", "i32", "float", "double"

    def row(name: str, a: int, b: int, element: str, accumulators: int, accumulator: str, sm: str, ptx: Version):
        operands = (element,) * (a + b) + (accumulator,) * accumulators
        result = "{" + ", ".join([accumulator] * accumulators) + "}"
        return Intrinsic(f"mma.{name}", result, operands, sm, ptx, "convergent")

    yield row("m16n8k8.row.col.f32.f32", 2, 1, half2, 4, f32, "75", PTX65)
    yield row("m16n8k8.row.col.f16.f16", 2, 1, half2, 2, half2, "75", PTX65)
    yield row("m16n8k16.row.col.f32.f32", 4, 2, half2, 4, f32, "80", PTX70)
    yield row("m16n8k16.row.col.f16.f16", 4, 2, half2, 2, half2, "80", PTX70)
    yield row("m16n8k8.row.col.bf16", 2, 1, i32, 4, f32, "80", PTX70)
    yield row("m16n8k16.row.col.bf16", 4, 2, i32, 4, f32, "80", PTX70)
    yield row("m16n8k4.row.col.tf32", 2, 1, i32, 4, f32, "80", PTX70)
    yield row("m16n8k8.row.col.tf32", 4, 2, i32, 4, f32, "80", PTX70)
    for overflow in ("", "satfinite."):
        for bits, k in ((8, 16), (4, 32)):
            for signs in ("s", "u", "su", "us"):
                types = overflow + ".".join(f"{sign}{bits}" for sign in signs)
                yield row(f"m8n8k{k}.row.col.{types}", 1, 1, i32, 2, i32, "75", PTX65)
                yield row(f"m16n8k{k}.row.col.{types}", 2, 1, i32, 4, i32, "80", PTX70)
                yield row(f"m16n8k{2 * k}.row.col.{types}", 4, 2, i32, 4, i32, "80", PTX70)
    yield row("m8n8k4.row.col.f64", 1, 1, f64, 2, f64, "80", PTX70)
    for k, a_count, b_count in ((4, 2, 1), (8, 4, 2), (16, 8, 4)):
        yield row(f"m16n8k{k}.row.col.f64", a_count, b_count, f64, 4, f64, "90", PTX78)
    for a in ("e4m3", "e5m2"):
        for b in ("e4m3", "e5m2"):
            yield row(f"m16n8k32.row.col.f32.{a}.{b}.f32", 4, 2, i32, 4, f32, "89", (8, 4))
            yield row(f"m16n8k16.row.col.f32.{a}.{b}.f32", 2, 1, i32, 4, f32, "89", (8, 7))
            yield row(f"m16n8k32.row.col.f16.{a}.{b}.f16", 4, 2, i32, 2, half2, "89", (8, 7))
            yield row(f"m16n8k16.row.col.f16.{a}.{b}.f16", 2, 1, i32, 2, half2, "89", (8, 7))


def _block_scaled_mma() -> Iterator[Intrinsic]:
    """mma.sync with block scales: A, B and C, then each scale with its byte and thread selectors."""
    scale = ("i32", "i16", "i16")
    operands = ("i32",) * 6 + ("float",) * 4 + scale + scale
    result = "{float, float, float, float}"
    forms = [("m16n8k32", f"mxf8f6f4.scale.1x.f32.{t}.{t}.f32.ue8m0") for t in ("e4m3", "e5m2")]
    forms.append(("m16n8k64", "mxf4.scale.2x.f32.e2m1.e2m1.f32.ue8m0"))
    forms.append(("m16n8k64", "mxf4nvf4.scale.4x.f32.e2m1.e2m1.f32.ue4m3"))
    for shape, types in forms:
        name = f"mma.block.scale.{shape}.row.col.{types}"
        yield Intrinsic(name, result, operands, "=120a,121a", (8, 7), "convergent")


def _matrix_movement() -> Iterator[Intrinsic]:
    for count in (1, 2, 4):
        registers = ("i32",) * count
        result = "i32" if count == 1 else "{" + ", ".join(registers) + "}"
        for trans in ("", ".trans"):
            load = f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.b16.p3"
            yield Intrinsic(load, result, ("p3",), "75", PTX65, "read")
            store = f"stmatrix.sync.aligned.m8n8.x{count}{trans}.b16.p3"
            yield Intrinsic(store, "void", ("p3", *registers), "90", PTX78, "write")
    for count in (1, 2):
        result = "{" + ", ".join(("i32",) * 2 * count) + "}"
        name = f"ldmatrix.sync.aligned.m16n16.x{count}.trans.b8.p3"
        yield Intrinsic(name, result, ("p3",), "=100f,110f,120f", PTX86, "read")


def _async_copies() -> Iterator[Intrinsic]:
    for cache, size in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)):
        name = f"cp.async.{cache}.shared.global.{size}"
        yield Intrinsic(name, "void", ("p3", "p1"), "80", PTX70, "readwrite")
        yield Intrinsic(f"{name}.s", "void", ("p3", "p1", "i32"), "80", PTX70, "readwrite")
    yield Intrinsic("cp.async.commit.group", "void", (), "80", PTX70, "readwrite")
    yield Intrinsic("cp.async.wait.group", "void", ("i32",), "80", PTX70, "readwrite", (0,))
    yield Intrinsic("cp.async.wait.all", "void", (), "80", PTX70, "readwrite")
    yield Intrinsic("cp.async.bulk.commit.group", "void", (), "90", PTX80, "readwrite")
    for suffix in ("", ".read"):
        yield Intrinsic(f"cp.async.bulk.wait.group{suffix}", "void", ("i32",), "90", PTX80, "readwrite", (0,))


def _mbarriers() -> Iterator[Intrinsic]:
    yield Intrinsic("mbarrier.init.shared", "void", ("p3", "i32"), "80", PTX70, "readwrite")
    yield Intrinsic("mbarrier.inval.shared", "void", ("p3",), "80", PTX70, "readwrite")
    yield Intrinsic("mbarrier.arrive.shared", "i64", ("p3",), "80", PTX70, "readwrite")
    scope = "scope.cta.space.cta"
    yield Intrinsic(f"mbarrier.arrive.expect.tx.{scope}", "i64", ("p3", "i32"), "90", PTX80, "readwrite")
    yield Intrinsic(f"mbarrier.test.wait.parity.{scope}", "i1", ("p3", "i32"), "80", PTX71, "readwrite")
    yield Intrinsic(f"mbarrier.try.wait.parity.{scope}", "i1", ("p3", "i32"), "90", PTX78, "readwrite")
    of_cluster = "mbarrier.try.wait.parity.scope.cluster.space.cta"
    yield Intrinsic(of_cluster, "i1", ("p3", "i32"), "90", PTX80, "readwrite")
    yield Intrinsic("cp.async.mbarrier.arrive.noinc.shared", "void", ("p3",), "80", PTX70, "readwrite")


def _arithmetic() -> Iterator[Intrinsic]:
    """Arithmetic with a rounding mode, and f32's flush-to-zero forms."""
    for rounding in ROUNDINGS:
        for op, count in (("add", 2), ("mul", 2), ("fma", 3), ("div", 2), ("sqrt", 1), ("rcp", 1)):
            for flush in ("", ".ftz"):
                name = f"{op}.{rounding}{flush}.f"
                yield Intrinsic(name, "float", ("float",) * count, "75", PTX60, "none")
            yield Intrinsic(f"{op}.{rounding}.d", "double", ("double",) * count, "75", PTX60, "none")
    for flush in ("", ".ftz"):
        for name, count in (("div.approx", 2), ("div.full", 2), ("sqrt.approx", 1), ("rsqrt.approx", 1),
                            ("lg2.approx", 1), ("sin.approx", 1), ("cos.approx", 1)):  # fmt: skip
            # LLVM spells the flushing form of div.full without the type.
            suffix = "" if name == "div.full" else ".f"
            yield Intrinsic(f"{name}{flush}{suffix}", "float", ("float",) * count, "75", PTX60, "none")
        yield Intrinsic(f"ex2.approx{flush}.f32", "float", ("float",), "75", PTX60, "none")
        for op in ("fmin", "fmax"):
            for nan, sm, ptx in (("", "75", PTX60), (".nan", "80", PTX70)):
                yield Intrinsic(f"{op}{flush}{nan}.f", "float", ("float", "float"), sm, ptx, "none")
        yield Intrinsic(f"fabs{flush}.f32" if flush else "fabs.f32", "float", ("float",), "75", PTX60, "none")
    yield Intrinsic("ex2.approx.f16", "half", ("half",), "75", PTX70, "none")
    yield Intrinsic("ex2.approx.f16x2", "<2 x half>", ("<2 x half>",), "75", PTX70, "none")
    yield Intrinsic("rcp.approx.ftz.f", "float", ("float",), "75", PTX60, "none")
    yield Intrinsic("rcp.approx.ftz.d", "double", ("double",), "75", PTX60, "none")
    yield Intrinsic("rsqrt.approx.d", "double", ("double",), "75", PTX60, "none")
    for suffix, type_name in (("i", "i32"), ("ui", "i32"), ("ll", "i64"), ("ull", "i64")):
        yield Intrinsic(f"mulhi.{suffix}", type_name, (type_name, type_name), "75", PTX60, "none")
    yield Intrinsic("prmt", "i32", ("i32", "i32", "i32"), "75", PTX60, "none")


_BLOCK_SCALED = "=100f,110f,120f"
"""Targets with the formats of block-scaled dots."""


def _conversions() -> Iterator[Intrinsic]:
    integers = {"i": "i32", "ui": "i32", "ll": "i64", "ull": "i64"}
    for rounding in ROUNDINGS:
        for flush in ("", ".ftz"):
            yield Intrinsic(f"d2f.{rounding}{flush}", "float", ("double",), "75", PTX60, "none")
            for suffix, type_name in integers.items():
                yield Intrinsic(f"f2{suffix}.{rounding}{flush}", type_name, ("float",), "75", PTX60, "none")
        for suffix, type_name in integers.items():
            yield Intrinsic(f"d2{suffix}.{rounding}", type_name, ("double",), "75", PTX60, "none")
            yield Intrinsic(f"{suffix}2f.{rounding}", "float", (type_name,), "75", PTX60, "none")
            yield Intrinsic(f"{suffix}2d.{rounding}", "double", (type_name,), "75", PTX60, "none")
    for rounding in ("rn", "rz"):
        for relu in ("", ".relu"):
            yield Intrinsic(f"ff2f16x2.{rounding}{relu}", "<2 x half>", ("float", "float"), "80", PTX70, "none")
            yield Intrinsic(f"ff2bf16x2.{rounding}{relu}", "<2 x bfloat>", ("float", "float"), "80", PTX70, "none")
            yield Intrinsic(f"f2bf16.{rounding}{relu}", "bfloat", ("float",), "80", PTX70, "none")
    yield Intrinsic("f2tf32.rna", "i32", ("float",), "80", PTX70, "none")
    yield Intrinsic("f2tf32.rn", "i32", ("float",), "90", PTX78, "none")
    for kind in ("e4m3x2", "e5m2x2"):
        yield Intrinsic(f"ff.to.{kind}.rn", "i16", ("float", "float"), "89", PTX81, "none")
        yield Intrinsic(f"f16x2.to.{kind}.rn", "i16", ("<2 x half>",), "89", PTX81, "none")
        yield Intrinsic(f"{kind}.to.f16x2.rn", "<2 x half>", ("i16",), "89", PTX81, "none")
    # The two 4-bit numbers are in the lower byte.
    yield Intrinsic("ff.to.e2m1x2.rn.satfinite", "i16", ("float", "float"), _BLOCK_SCALED, PTX86, "none")
    yield Intrinsic("e2m1x2.to.f16x2.rn", "<2 x half>", ("i16",), _BLOCK_SCALED, PTX86, "none")
    for rounding in ("rz", "rp"):
        name = f"ff.to.ue8m0x2.{rounding}.satfinite"
        yield Intrinsic(name, "i16", ("float", "float"), _BLOCK_SCALED, PTX86, "none")
    yield Intrinsic("ue8m0x2.to.bf16x2", "<2 x bfloat>", ("i16",), _BLOCK_SCALED, PTX86, "none")


_FAMILIES = (
    _moves,
    _special_registers,
    _synchronization,
    _warp,
    _mma,
    _block_scaled_mma,
    _matrix_movement,
    _async_copies,
    _mbarriers,
    _arithmetic,
    _conversions,
)

INTRINSICS: dict[str, Intrinsic] = {row.name: row for family in _FAMILIES for row in family()}
"""By name without the prefix `llvm.nvvm.`."""
