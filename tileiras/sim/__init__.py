"""Running kernels without a GPU: the cuda_tile interpreter and the PTX emulator.

``interpret`` says what a cuda_tile module means, ``emulate`` what a PTX text does; both take their arguments the same
way and share :class:`Memory`.  The names are resolved on first use, so that importing ``tileiras`` stays cheap and
the emulator can be used without any of the compiler being loaded.
"""

from tileiras.lazy import lazy_names

_LAZY = {
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
    "interpret",
]

__getattr__ = lazy_names(__name__, globals(), _LAZY)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
