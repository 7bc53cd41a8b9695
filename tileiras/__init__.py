"""tileiras: an open compiler for CUDA Tile IR.

    artifact = tileiras.compile("kernel.mlir", gpu_name="sm_90")
    print(artifact.text)

Names are loaded at first use; `import tileiras` alone loads no submodule.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.api import parse
    from tileiras.build.library import compile
    from tileiras.check.checker import check
    from tileiras.diagnostics import CompileError, Diagnostic
    from tileiras.driver.compilation import Artifact
    from tileiras.driver.program import Program
    from tileiras.report.tuning import tune

_LAZY = {
    "compile": "tileiras.build.library",
    "parse": "tileiras.api",
    "tune": "tileiras.report.tuning",
    "Artifact": "tileiras.driver.compilation",
    "Program": "tileiras.driver.program",
    "CompileError": "tileiras.diagnostics",
    "Diagnostic": "tileiras.diagnostics",
}

_PACKAGES = ("bytecode", "check", "dialects", "ir", "mlir", "runtime", "sim", "targets")
"""Packages of a program's interface, which are attributes without an import: `check` can be called as well."""

_MODULES = {"remarks": "tileiras.diagnostics.remarks"}
"""Documented names of modules in folders."""

__all__ = ["__version__", *_LAZY]


def c_folder() -> str:
    """The folder of `tileiras.h` and `tileiras.c`, the compiler for C programs (`env.TileCompiler` builds it)."""
    import os

    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "c")


def cpp_folder() -> str:
    """The folder of `tileiras.hpp`, which C++ programs with embedded kernels include."""
    import os

    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "cpp")


def cmake_folder() -> str:
    """The folder of the CMake package: `tileiras_DIR` for `find_package(tileiras)`."""
    import os

    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "share", "cmake", "tileiras")


def pkgconfig_folder() -> str:
    """The folder of `tileiras.pc`, for `PKG_CONFIG_PATH`: `dependency('tileiras')` in Meson finds it there."""
    import os

    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "share", "pkgconfig")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_PACKAGES})


def __getattr__(name: str):
    import importlib

    if name in _LAZY:
        value = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
        return value
    try:
        if not name.startswith("_"):
            return importlib.import_module(_MODULES.get(name, f"tileiras.{name}"))
    except ModuleNotFoundError as error:
        if error.name != f"tileiras.{name}":
            raise
    raise AttributeError(f"module 'tileiras' has no attribute '{name}'")
