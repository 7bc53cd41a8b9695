"""LLVM target machines for NVPTX: which processors LLVM knows, which PTX version to ask for, and a cache of machines.

LLVM falls back to a default processor, with one line on stderr, if it does not know the requested one, and aborts the
process when the PTX version is below the minimum of the processor.  Both are checked here, against a table, before LLVM
is called.

llvmlite is imported and initialised on first use: importing it costs about 50 ms, too long for `--help`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Locatable
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import peepholes
from tileiras.targets.nvptx import LLVM_PTX_VERSIONS, TRIPLE
from tileiras.targets.sm import TARGETS

if TYPE_CHECKING:
    import llvmlite.binding as llvm

TRIPLES = (TRIPLE, "nvptx-nvidia-cuda")
"""Both of NVPTX's are registered.  A module can only be for the first: `targets.nvptx.triple_error`."""


class Processor(NamedTuple):
    """One GPU code as LLVM's NVPTX back end sees it."""

    chip: str
    llvm_cpu: str
    """The processor LLVM compiles for; differs from `chip` where LLVM 22 has no row for the chip."""
    ptx: tuple[int, int]
    """The lowest PTX version whose `.target` accepts the chip (LLVM aborts below it)."""

    @property
    def number(self) -> int:
        """The SM number without its suffix, `sm_90a` -> 90."""
        return int(self.chip.removeprefix("sm_").rstrip("af"))

    @property
    def suffix(self) -> str:
        """`a` (this chip only), `f` (its family) or nothing (forward compatible)."""
        return self.chip[-1] if self.chip[-1] in "af" else ""


# sm_107 is not in LLVM 22: code for sm_100 is legal on it, and so is code for sm_100f, of whose family it is (PTX ISA,
# ".target"; ptxas assembles both), so it is compiled as those and the module header names the chip.
_LLVM_CPU = {"sm_107": "sm_100", "sm_107f": "sm_100f", "sm_107a": "sm_100f"}

# The lowest versions of the target table are also LLVM's: asked of LLVM 22.1 for every (processor, version) pair.
PROCESSORS: dict[str, Processor] = {
    target.name: Processor(target.name, _LLVM_CPU.get(target.name, target.name), target.ptx)
    for target in TARGETS.values()
}

def processor(chip: str, location: Locatable | None = None) -> Processor:
    """The table row of a GPU code such as `sm_90`; raises CompileError for a code that we do not know."""
    row = PROCESSORS.get(chip)
    if row is None:
        accepted = ", ".join(sorted(PROCESSORS, key=lambda c: (PROCESSORS[c].number, c)))
        raise CompileError.at(
            location,
            f"GPU architecture {chip} is not supported by this version of tileiras. Supported: {accepted}",
            ExitCode.CONFIGURATION,
        )
    return row


class PTXRequirement(NamedTuple):
    """The lowest PTX version that something in a module needs; `remedy` says how to do without it."""

    version: tuple[int, int]
    feature: str
    remedy: str = ""


def ptx_version(
    row: Processor,
    required: Iterable[PTXRequirement] = (),
    requested: tuple[int, int] | None = None,
    location: Locatable | None = None,
) -> tuple[int, int]:
    """The PTX version to print: the lowest that the target and the instructions allow, or the requested one.

    Never taken from the installed ptxas: the same input gives the same PTX on every machine.  Raises CompileError
    (code 2) if the requested version is too low: for the requirement of the newest version, with notes for the others.
    """
    needs = [PTXRequirement(row.ptx, row.chip), *required]
    if requested is None:
        return max(need.version for need in needs)
    # The sort is stable: among equals the target stays first.
    unmet = sorted((need for need in needs if need.version > requested), key=lambda need: need.version, reverse=True)
    if not unmet:
        return requested
    first, *others = dict.fromkeys(unmet)
    notes = [Diagnostic.note(None, first.remedy)] if first.remedy else []
    for need in others:
        remedy = f"; {need.remedy}" if need.remedy else ""
        notes.append(Diagnostic.note(None, "{} needs PTX {}.{} or newer".format(need.feature, *need.version) + remedy))
    message = "PTX version {}.{} does not support {}, which needs {}.{} or newer".format(
        *requested, first.feature, *first.version
    )
    raise CompileError.at(location, message, ExitCode.CONFIGURATION, notes)


def llvm_ptx_feature(version: tuple[int, int]) -> str:
    """The feature string that makes LLVM select for at least `version`, capped at the newest LLVM has."""
    for llvm_version in LLVM_PTX_VERSIONS:
        if llvm_version >= version:
            break
    return "+ptx{}{}".format(*llvm_version)


DISABLED_PASSES = (
    # It queries ScalarEvolution for pairs of integer sums with a common addend: a scan of 256 elements in a thread took
    # it 25 seconds.  In kernels it changes a line or two.  N-ary reassociation makes as many queries.
    "slsr",
    "nary-reassociate",
    # It splits the load of a vector into loads of elements at their uses: from shared memory, several accesses with
    # bank conflicts instead of one without.
    "vector-combine",
    # They search for copies and fills of memory, which kernels do not contain.
    "loop-idiom",
    "memcpyopt",
    # The lowering does not repeat a computation in blocks that dominate each other, and ptxas finds the other
    # cases.  They run four times, three of them during code generation, which takes a sixth less time without them.
    "early-cse",
    "sccp",
    "bdce",
)
"""LLVM's passes that are off, in the optimizer and in code generation."""

_initialized = False


class TargetMachine:
    """The target of a module: the peepholes of its chip and features, and LLVM's machine."""

    __slots__ = ("row", "features", "opt_level", "triple", "peepholes", "_llvm")

    def __init__(self, row: Processor, features: str, opt_level: int, triple: str) -> None:
        self.row = row
        self.features = features
        self.opt_level = opt_level
        self.triple = triple
        self.peepholes = peepholes.select(row.chip, features)
        self._llvm: llvm.TargetMachine | None = None

    @property
    def llvm(self) -> llvm.TargetMachine:
        """LLVM's machine, made at the first use: the process that applies peepholes does not load LLVM."""
        if self._llvm is None:
            initialize()
            try:
                self._llvm = _target(self.triple).create_target_machine(
                    cpu=self.row.llvm_cpu, features=self.features, opt=self.opt_level
                )
            except RuntimeError as error:
                message = f"target machine unavailable; cannot optimize with LLVM: {error}"
                raise CompileError.at(None, message) from None
        return self._llvm


_machines: dict[tuple[str, str, str, int], TargetMachine] = {}


def initialize() -> None:
    """Register LLVM's targets; later calls do nothing."""
    global _initialized
    if _initialized:
        return
    import llvmlite.binding as llvm

    # Loop strength reduction keeps a pointer for every access of a loop that steps through memory: in the kernels'
    # loops, whose registers are full of fragments, these pointers spill.  ptxas shares the remaining addresses.
    llvm.set_option("tileiras", "-disable-lsr")
    llvm.set_option("tileiras", f"-opt-disable={','.join(DISABLED_PASSES)}")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    _initialized = True
    for triple in TRIPLES:
        _target(triple)


def target_machine(row: Processor, features: str, opt_level: int, triple: str = TRIPLE) -> TargetMachine:
    """A target machine, made once per (triple, chip, features, level) and process."""
    key = (triple, row.chip, features, opt_level)
    machine = _machines.get(key)
    if machine is None:
        machine = _machines[key] = TargetMachine(row, features, opt_level, triple)
    return machine


def _target(triple: str) -> Any:
    """LLVM's target; raises CompileError for a triple of another backend than NVPTX."""
    import llvmlite.binding as llvm

    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError as error:
        text = f": {error}"
        target = None
    else:
        text = f": '{triple}' is {target.name}"
    if target is None or target.name not in ("nvptx", "nvptx64"):
        raise CompileError.at(
            None, f"failed to look up NVPTX target for requested triple{text}", ExitCode.CONFIGURATION
        )
    return target
