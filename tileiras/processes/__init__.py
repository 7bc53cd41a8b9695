"""Processes of one user: how they are started, guarded and ended."""

_FILES = ("helper", "programs", "sockets", "workers")
"""Files that are loaded when one of their names is used (as by `tileiras.support.lazy`, which is not loaded for this
package: every command loads it)."""


def __getattr__(name: str) -> object:
    if name in _FILES:
        return __import__(f"{__name__}.{name}", fromlist=("",))
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
