"""Whole functions of libdevice: long mixtures of every kind of arithmetic, held to NumPy."""

import numpy as np
import pytest

from tileiras.codegen import libdevice
from tileiras.sim import emulate

N = 512
X = np.random.default_rng(0).uniform(0.05, 20, N)
Y = np.random.default_rng(1).uniform(-3, 3, N)
SIGNED = np.random.default_rng(2).uniform(-12, 12, N)
UNIT = np.random.default_rng(3).uniform(-0.99, 0.99, N)

#: libdevice name without its type suffix -> (NumPy function, arguments, error in units of the last place)
FUNCTIONS = {
    "exp": (np.exp, (SIGNED,), 2),
    "log": (np.log, (X,), 2),
    "sin": (np.sin, (SIGNED,), 2),
    "cos": (np.cos, (SIGNED,), 2),
    "tan": (np.tan, (UNIT,), 4),
    "tanh": (np.tanh, (SIGNED,), 2),
    "pow": (np.power, (X, Y), 8),
    "atan2": (np.arctan2, (Y, X), 4),
    "sinh": (np.sinh, (Y,), 4),
    "log1p": (np.log1p, (X,), 2),
    "expm1": (np.expm1, (UNIT,), 2),
    "cbrt": (np.cbrt, (SIGNED,), 2),
    "fmod": (np.fmod, (SIGNED, X), 0),
    "hypot": (np.hypot, (X, Y), 3),
    "asin": (np.arcsin, (UNIT,), 4),
}


def kernel_ir(function: str, type_: str, arguments: int) -> str:
    """A kernel that applies a function to arrays, an element per thread."""
    pointers = ", ".join(f"ptr addrspace(1) %p{i}" for i in range(arguments + 1))
    loads = "".join(
        f"  %q{i} = getelementptr {type_}, ptr addrspace(1) %p{i}, i32 %i\n"
        f"  %v{i} = load {type_}, ptr addrspace(1) %q{i}\n"
        for i in range(arguments)
    )
    values = ", ".join(f"{type_} %v{i}" for i in range(arguments))
    return f"""
declare {type_} @{function}({", ".join([type_] * arguments)})
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
define ptx_kernel void @k({pointers}) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %m = mul i32 %b, 128
  %i = add i32 %m, %t
{loads}  %r = call {type_} @{function}({values})
  %o = getelementptr {type_}, ptr addrspace(1) %p{arguments}, i32 %i
  store {type_} %r, ptr addrspace(1) %o
  ret void
}}
"""


@pytest.fixture
def link_library(compile_ir):
    """A function from a libdevice function to PTX."""
    result = libdevice.find()
    if result is None:
        pytest.skip("no libdevice")

    def make(function: str, type_: str, arguments: int) -> str:
        closure = result.closure([function])
        kernel = kernel_ir(function, type_, arguments)
        # The definition is in the closure: the kernel's declaration of it goes.
        kernel = "\n".join(line for line in kernel.splitlines() if f"declare {type_} @{function}" not in line)
        return compile_ir(closure + "\n" + kernel)

    return make


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(link_library, name, bits):
    reference, sources, ulps = FUNCTIONS[name]
    dtype = np.dtype(f"f{bits // 8}")
    sources = [s.astype(dtype) for s in sources]
    out = np.zeros(N, dtype)
    ptx = link_library(f"__nv_{name}{'f' if bits == 32 else ''}", "float" if bits == 32 else "double", len(sources))
    emulate(ptx, "k", N // 128, [*sources, out], block=128)
    expected = reference(*(s.astype(np.longdouble) for s in sources)).astype(dtype)
    error = np.abs(out.astype(np.longdouble) - expected) / np.spacing(np.abs(expected))
    assert error.max() <= ulps, (error.max(), [s[error.argmax()] for s in sources])
