"""Inputs of per-kernel stages: the entries of a module, or the modules of an artifact that is the source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import tileiras
from tileiras.diagnostics import CompileError, ExitCode, Locatable
from tileiras.stages import units
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tileiras.ir import Operation


class KernelInput(NamedTuple):
    """The input of the first per-kernel step."""

    kernel: str
    """Its name; empty for an input with several kernels or without names."""
    kept_as: str
    """The stem of its artifacts; empty for the stem of the source."""
    input: Operation | bytes
    location: Locatable
    """The kernel's location in the source."""


class KernelInputs(ABC):
    """The kernels of a source."""

    names: Sequence[str] = ()
    """Names of all entries, in source order."""

    @abstractmethod
    def units(self) -> list[KernelInput]:
        """One input for each kernel to compile.  A module with one entry may be returned itself, not copied."""

    @property
    @abstractmethod
    def location(self) -> Locatable:
        """Location of the first kernel, or of the module if it has no kernel."""

    @property
    def entry_locations(self) -> dict[str, Locatable]:
        """Name of a kernel -> its location, for kernels with known names."""
        return {}


class ModuleEntries(KernelInputs):
    """The entries of a cuda_tile module, or only the one called `only`.

    Raises CompileError (code 2) if no entry has that name.
    """

    def __init__(self, module: Operation, source_name: str, only: str | None) -> None:
        self._module = module
        self._only = only
        self._entries = units.entries_of(module)
        self.names = list(map(units.entry_name, self._entries))
        if only is not None and only not in self.names:
            raise _no_entry(only, source_name, self.names, module.location)

    def units(self) -> list[KernelInput]:
        result = []
        for name, unit in units.entry_modules(self._module, self._only):
            result.append(KernelInput(name, name, unit, next(op.location for op in units.entries_of(unit))))
        return result

    @property
    def location(self) -> Locatable:
        return self._entries[0].location if self._entries else self._module.location

    @property
    def entry_locations(self) -> dict[str, Locatable]:
        return {units.entry_name(op): op.location for op in self._entries}


class ArtifactModules(KernelInputs):
    """The modules of an artifact.

    Raises CompileError for MLIR that does not verify (code 3), for PTX of another GPU, and if `only` is not the single
    kernel of a module (code 2).
    """

    def __init__(self, source: units.Source, gpu_name: str, only: str | None) -> None:
        items = []
        all_names: list[str] = []
        for piece in units.pieces(source.data, source.kind):
            resumed, location = _artifact_input(source.kind, piece, source.name, gpu_name)
            names = _kernel_names(source.kind, resumed)
            all_names += names
            if only is None or names == [only]:
                items.append(KernelInput(names[0] if len(names) == 1 else "", "", resumed, location))
        if not items:
            raise _no_entry(only, source.name, all_names, location)
        self.names = all_names
        self._units = [unit._replace(kept_as=unit.kernel) for unit in items] if len(items) > 1 else items

    def units(self) -> list[KernelInput]:
        return self._units

    @property
    def location(self) -> Locatable:
        return self._units[0].location


def kernel_inputs(source: units.Source, module: Operation | bytes, gpu_name: str, only: str | None) -> KernelInputs:
    """The kernels of a source, or the one called `only`; `module` is the module read from it, or its bytes."""
    if source.kind in units.ARTIFACTS:
        return ArtifactModules(source, gpu_name, only)
    return ModuleEntries(module, source.name, only)


def _kernel_names(kind: str, module: Operation | bytes) -> list[str]:
    """The names of the kernels of an artifact's module; empty for kinds without a parser for them (PTX, cubin)."""
    if kind.endswith(".mlir"):
        functions = [op for op in module.walk() if op.name in ("nv_tileaa.func", "llvm.func")]
        marks = ("kernel_spec", "nvvm.kernel")
        return [op.attributes["sym_name"].value for op in functions if any(mark in op.attributes for mark in marks)]
    if kind == ".ll":
        return list(tileiras.codegen.kernel_metadata.from_ir(module.decode()))
    return []


def _no_entry(entry: str | None, name: str, names: Sequence[str], location: Locatable | None) -> CompileError:
    message = f"no entry '{entry}' in {name}; it has: {', '.join(names) or 'none'}"
    return CompileError.at(location, message, ExitCode.CONFIGURATION)


def _artifact_input(kind: str, data: bytes, name: str, gpu_name: str) -> tuple[Operation | bytes, Locatable]:
    """The input of the stage that reads the module, and the location of its first kernel.

    Raises CompileError for MLIR that does not verify (code 3), and for PTX of another GPU (code 2).
    """
    if kind.endswith(".mlir"):
        module = tileiras.ir.parse_module(data.decode(), name)
        tileiras.ir.verify(module)
        return module, next(
            (op.location for op in module.walk() if op.regions and op.parent is not None), tileiras.ir.UNKNOWN_LOC
        )
    import re

    target = re.search(rb"^\.target\s+(sm_\d+)", data, re.MULTILINE) if kind == ".ptx" else None
    if target is not None and target[1].decode() != gpu_name:
        raise CompileError.at(None, f"{name} is for {target[1].decode()}, not {gpu_name}", ExitCode.CONFIGURATION)
    head = re.search(rb"^(?:define\b.*\bptx_kernel\b|.*\.entry\b)", data, re.MULTILINE)
    if head is None:
        return data, tileiras.ir.FileLineColLoc(name, 1, 1) if kind == ".ll" else tileiras.ir.UNKNOWN_LOC
    return data, tileiras.ir.FileLineColLoc(name, data.count(b"\n", 0, head.start()) + 1, 1)
