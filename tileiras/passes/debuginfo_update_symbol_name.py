"""`debuginfo-update-symbol-name`: renames a symbol and, in the debug information, the function that it was made from.

    symbol-to-rename=module::kernel new-name=mangled   ->   entry @mangled, linkageName = "mangled"

`scope` names the operation in which the debug information is renamed, by default the whole module; it has to enclose
the symbol.  With `update-uses`, references to the symbol follow.  Debuggers identify a kernel by its linkage name, so
a pass that mangles names has to change both.
"""

from __future__ import annotations

from typing import Any

from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Severity
from tileiras.dialects.cuda_tile import DILoc, DISubprogramAttr
from tileiras.ir import (
    Attribute,
    CallSiteLoc,
    FusedLoc,
    Location,
    NameLoc,
    OpaqueLoc,
    Operation,
    Pass,
    StringAttr,
    SymbolRefAttr,
    SymbolTable,
)
from tileiras.ir.pass_manager import PassContext


class UpdateSymbolName(Pass):
    name = "debuginfo-update-symbol-name"
    needs = "a symbol of the name given"
    establishes = "the new name, in linkage names of scopes as well"
    keeps = "everything else"

    symbol_to_rename: str = ""
    new_name: str = ""
    scope: str = ""
    update_uses: bool = False

    def run(self, op: Operation, context: PassContext) -> None:
        if not self.new_name:
            message = f"pass '{self.name}' needs a value for option 'new-name'"
            raise CompileError.at(None, message, ExitCode.CONFIGURATION)
        targets = []
        for path in (str(self.scope), str(self.symbol_to_rename)):
            target = op if not path and path == self.scope else _lookup(op, path.split("::"))
            if target is None:
                reference = "::".join(f"@{part}" for part in path.split("::"))
                context.engine.error(op.location, f"could not find symbol op with name '{reference}'")
                return
            targets.append(target)
        scope, symbol = targets
        if symbol.parent_op is not None and not scope.is_ancestor_of(symbol):
            message = "attempted to update symbol names in a scope that did not enclose the symbol itself"
            note = Diagnostic(Severity.NOTE, scope.location, "scope defined here")
            context.engine.emit(Diagnostic(Severity.ERROR, symbol.location, message, [note]))
            return
        update_symbol_name(symbol, str(self.new_name), scope, update_uses=bool(self.update_uses))


def update_symbol_name(symbol: Operation, new_name: str, scope: Operation, *, update_uses: bool = False) -> None:
    """Rename `symbol`, and inside `scope` the linkage name of the subprogram that it belongs to."""
    old_name = symbol.attributes["sym_name"].value  # type: ignore[attr-defined]
    table = symbol.parent_op
    if update_uses and table is not None:
        for user in table.walk():
            for key, value in user.attributes.items():
                if isinstance(value, SymbolRefAttr) and value.root == old_name and _table_of(user) is table:
                    user.attributes[key] = SymbolRefAttr(new_name, value.nested)
    symbol.attributes["sym_name"] = StringAttr(new_name)
    location = symbol.location
    if not isinstance(location, DILoc) or not isinstance(location.scope, DISubprogramAttr):
        return
    old = location.scope
    new = DISubprogramAttr(old.file, old.line, old.subprogram_name, new_name, old.compile_unit, old.scope_line)
    for op in scope.walk():
        op.location = _in_location(op.location, old, new)
        op.attributes = {key: _in_attribute(value, old, new) for key, value in op.attributes.items()}
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    argument.location = _in_location(argument.location, old, new)


def _table_of(op: Operation) -> Operation | None:
    """The symbol table in which the references of `op` are looked up."""
    parent = op.parent_op
    while parent is not None and not parent.has_trait(SymbolTable):
        parent = parent.parent_op
    return parent


def _lookup(op: Operation, path: list[str]) -> Operation | None:
    """The operation that a path of symbols leads to; the first one may be `op` itself or stand in it."""
    symbol = op.attributes.get("sym_name")
    at: Operation | None = op
    if isinstance(symbol, StringAttr) and symbol.value == path[0]:
        path = path[1:]
    for name in path:
        inner = [x for region in at.regions for block in region.blocks for x in block.operations] if at else []
        at = next((x for x in inner if getattr(x.attributes.get("sym_name"), "value", None) == name), None)
    return at


def _in_location(location: Location, old: Attribute, new: Attribute) -> Location:
    if isinstance(location, DILoc):
        return DILoc(location.source, _in_attribute(location.scope, old, new))
    if isinstance(location, NameLoc):
        return NameLoc(location.name, _in_location(location.child, old, new))
    if isinstance(location, OpaqueLoc):
        return OpaqueLoc(location.handle, _in_location(location.fallback, old, new))
    if isinstance(location, CallSiteLoc):
        return CallSiteLoc(_in_location(location.callee, old, new), _in_location(location.caller, old, new))
    if isinstance(location, FusedLoc):
        metadata = None if location.metadata is None else _in_attribute(location.metadata, old, new)
        return FusedLoc([_in_location(inner, old, new) for inner in location.locations], metadata)
    return location


def _in_attribute(value: Any, old: Attribute, new: Attribute) -> Any:
    """The attribute, or tuple of parameters, with `new` wherever `old` is."""
    if value is old:
        return new
    if isinstance(value, tuple):
        return tuple(_in_attribute(item, old, new) for item in value)
    if isinstance(value, Location):
        return _in_location(value, old, new)
    if isinstance(value, Attribute):
        parameters = value.values
        changed = _in_attribute(parameters, old, new)
        return value if changed == parameters else type(value).intern(changed)
    return value
