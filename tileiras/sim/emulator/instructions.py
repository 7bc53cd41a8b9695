"""All families of instructions: loading a family registers its decoders."""

# ruff: noqa: F401

from __future__ import annotations

from .arithmetic import bits, compare, conversion, floating, integer, lanes
from .async_copies import async_copy, bulk_copy, map_proxy, mbarrier, tensor_copy
from .errors import EmulationError
from .launch import control, launch_control
from .memory import atomics, loads, matrix
from .order import barrier, cluster
from .ptx.decoder import Decoder
from .ptx.module import Function, Module
from .ptx.path_data import without_effect
from .ptx.program import Program
from .tensor_core import mma, tcgen05, tcgen05_copy, tcgen05_mma, tcgen05_transfer, warpgroups, wgmma, wmma


def entry_of(module: Module, entry: str) -> Function:
    """The entry of a name; raises EmulationError."""
    function = module.functions.get(entry)
    if function is None or not function.is_entry or function.body is None:
        names = ", ".join(module.entries) or "none"
        raise EmulationError(f"no entry '{entry}' in the PTX; entries: {names}")
    return function


def decode(module: Module, entry: str, farther: bool = False, path_alone: bool = False) -> Program:
    """Decode an entry to its program; raises EmulationError for constructs that cannot be decoded.

    ``farther``: approximate instructions return the farther neighbour of the exact result. ``path_alone``: nothing is
    computed that decides neither paths nor addresses."""
    function = entry_of(module, entry)
    return Decoder(module, function, farther, without_effect(function) if path_alone else frozenset()).decode()
