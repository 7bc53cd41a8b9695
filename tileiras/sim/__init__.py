"""Running kernels without a GPU: the cuda_tile interpreter and the PTX emulator.

``interpret`` says what a cuda_tile module means, ``emulate`` what a PTX text does; both take their arguments the same
way and share :class:`Memory`.  The names are resolved on first use, so that importing ``tileiras`` stays cheap and
the emulator can be used without any of the compiler being loaded.
"""

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
    "interpret",
]


def __getattr__(name: str):
    submodule = _EXPORTS.get(name)
    if submodule is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"{__name__}.{submodule}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
