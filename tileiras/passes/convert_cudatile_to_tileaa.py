"""`convert-cudatile-to-tileaa`: every `cuda_tile.module` inside becomes its functions and globals in nv_tileaa."""

from __future__ import annotations

from tileiras.analysis.module_attributes import module_chip
from tileiras.diagnostics import CompileError, Diagnostic
from tileiras.ir import Operation, Pass, Symbol
from tileiras.ir.pass_manager import PassContext
from tileiras.lowering.cuda_tile_to_tileaa import TargetSpec, convert_to_tileaa
from tileiras.targets import TARGETS
from tileiras.targets.cpu import is_cpu


class ConvertCudaTileToTileAA(Pass):
    name = "convert-cudatile-to-tileaa"
    anchor = "builtin.module"
    needs = "a verified `cuda_tile.module` in the module"
    establishes = "`nv_tileaa`, arith, math, scf; no `cuda_tile`; tiles are tensors, views pointers with sizes"
    keeps = "locations, names of kernels"

    compute_capability: str = ""
    """The GPU, or the CPU; empty for that of the module's attributes."""
    num_warps: int = 0
    num_ctas: int = 0

    @property
    def target(self) -> TargetSpec:
        return TargetSpec(self.compute_capability, self.num_warps or None, self.num_ctas or None)

    def run(self, op: Operation, context: PassContext) -> None:
        block = op.regions[0].block
        target = self.target._replace(gpu_name=self.compute_capability or module_chip(op))
        if target.gpu_name not in TARGETS and not is_cpu(target.gpu_name):
            raise CompileError.at(op.location, "invalid or missing --compute-capability option")
        # The names of the modules are dropped.
        result = [inner for inner in block.operations if inner.name != "cuda_tile.module"]
        names = {symbol.attributes.get("sym_name"): symbol for symbol in result if symbol.has_trait(Symbol)}
        for inner in block.operations:
            if inner.name == "cuda_tile.module":
                converted = convert_to_tileaa(inner, target, context.engine)
                op.attributes.update(converted.attributes)
                for symbol in list(converted.regions[0].block.operations):
                    if not symbol.has_trait(Symbol):
                        continue  # operations outside of functions are not executed
                    first = names.setdefault(symbol.sym_name, symbol)
                    if first is not symbol:
                        # Each module was a separate symbol table.
                        name = symbol.sym_name.value
                        note = Diagnostic.note(first.location, "see existing symbol definition here")
                        raise CompileError.at(symbol.location, f"redefinition of symbol named '{name}'", notes=[note])
                    block.insert_before(symbol.detach(), inner)
                inner.erase()
