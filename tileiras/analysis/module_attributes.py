"""Attributes of modules that say which GPU they are for; a builtin.module and a gpu.module may have them.

    module attributes {nv_tileaa.compute_capability = 90 : i32} { ... }
"""

from __future__ import annotations

from tileiras.diagnostics import CompileError
from tileiras.ir import Attribute, IntegerAttr, Operation, StringAttr, i1, i32
from tileiras.targets import TARGETS

COMPUTE_CAPABILITY = "nv_tileaa.compute_capability"
"""Integer: 10 times the major version and the minor one, 90 for sm_90."""

TARGET_SPEC = "nv_tileaa.target_spec"
"""String: `sm_90`.  Asked when there is no compute capability."""

NVGPUCOMP = "nv_tileaa.libnvvm_use_nvgpucomp"
"""Boolean: a flag for libNVVM in the module's target."""

_OLD_NAMES = ("compute_capability", "compute-capability")
"""Other spellings of the capability; a string such as `sm_90` or a number."""


def module_chip(module: Operation) -> str:
    """The GPU that a module is for by its attributes, such as `sm_90`; empty when it does not say.  A capability of no
    known GPU gives way to `nv_tileaa.target_spec`, as documented.

    Raises CompileError (code 5) for an attribute that names none.
    """
    for name in (COMPUTE_CAPABILITY, *_OLD_NAMES, TARGET_SPEC):
        value = module.attributes.get(name)
        if value is None:
            continue
        integer = isinstance(value, IntegerAttr) and value.type is not i1
        if integer and name != TARGET_SPEC:
            if f"sm_{value.value}" not in TARGETS and TARGET_SPEC in module.attributes:  # type: ignore[attr-defined]
                continue
            return _check(f"sm_{value.value}", name, value, module)  # type: ignore[attr-defined]
        if isinstance(value, StringAttr) and name != COMPUTE_CAPABILITY:
            return _check(value.value, name, value, module)
        raise _wrong(name, value, module)
    return ""


def chip_attributes(chip: str) -> dict[str, Attribute]:
    """The attribute that marks a module as compiled for a GPU such as `sm_90`; `sm_90a` is no number."""
    number = chip.removeprefix("sm_")
    if number.isdigit():
        return {COMPUTE_CAPABILITY: IntegerAttr(int(number), i32)}
    return {TARGET_SPEC: StringAttr(chip)}


def _check(chip: str, name: str, value: Attribute, module: Operation) -> str:
    digits = chip.removeprefix("sm_").rstrip("af")
    if not chip.startswith("sm_") or not digits.isdigit():
        raise _wrong(name, value, module)
    return chip


def _wrong(name: str, value: Attribute, module: Operation) -> CompileError:
    requirement = 'a string such as "sm_90"' if name == TARGET_SPEC else "an integer such as 90"
    return CompileError.at(module.location, f"'{name}' must be {requirement}, got {value}")
