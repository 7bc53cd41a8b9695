"""Simulation of kernels without a GPU: the cuda_tile interpreter, the PTX emulator, and the clock.

``interpret`` executes a cuda_tile module, ``emulate`` executes PTX, ``estimate`` estimates its time on a GPU; they take
their arguments the same way and share :class:`Memory`. The names are resolved on first use, so that importing
``tileiras`` is fast and the emulator can be used without loading the compiler.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .emulator import EmulationError, emulate
    from .errors import ArgumentMismatch, SimulationError
    from .estimate import estimate
    from .interpreter import InterpreterError, interpret
    from .memory import Memory, MemoryAccessError

_EXPORTS = {
    "interpret": "interpreter",
    "InterpreterError": "interpreter",
    "emulate": "emulator",
    "EmulationError": "emulator",
    "Memory": "memory",
    "MemoryAccessError": "memory",
    "SimulationError": "errors",
    "ArgumentMismatch": "errors",
}

__all__ = [
    "ArgumentMismatch",
    "EmulationError",
    "InterpreterError",
    "Memory",
    "MemoryAccessError",
    "SimulationError",
    "emulate",
    "estimate",
    "interpret",
]


def __getattr__(name: str):
    import importlib

    if name == "estimate":
        return importlib.import_module(f"{__name__}.estimate")  # a callable package
    submodule = _EXPORTS.get(name)
    if submodule is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{submodule}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
