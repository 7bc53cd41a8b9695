"""Parses PTX text to a module of declarations and instructions (PTX ISA, "Syntax", "State Spaces, Types, and
Variables").

Names are resolved here: registers and variables through nested `{ }` scopes, labels at the end of each function body (a
label may be used before its definition, and inline assembly adds scopes with labels). The parser does not interpret
instructions.
"""

from __future__ import annotations

import struct

from .module import (
    Address,
    Function,
    Group,
    Immediate,
    Instruction,
    Label,
    Module,
    Negated,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
)
from .tokens import TokenReader, number_of
from .types import TYPES, PtxType

_SPACES = ("global", "const", "shared", "local", "param")
_IGNORED_DIRECTIVES = {".pragma", ".loc", ".file", ".section", ".language", ".alias", ".branchtargets"}


class _Scope:
    __slots__ = ("labels", "names", "parent")

    def __init__(self, parent: _Scope | None) -> None:
        self.parent = parent
        self.names: dict[str, object] = {}
        self.labels: dict[str, Label] = {}

    def find(self, name: str) -> object | None:
        scope: _Scope | None = self
        while scope is not None:
            if (entry := scope.names.get(name)) is not None:
                return entry
            scope = scope.parent
        return None

    def find_label(self, name: str) -> Label | None:
        scope: _Scope | None = self
        while scope is not None:
            if (entry := scope.labels.get(name)) is not None:
                return entry
            scope = scope.parent
        return None


class Parser(TokenReader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.module = Module()
        self.scope = _Scope(None)
        self.function: Function | None = None
        self.pending: list[tuple[Symbol, _Scope, int]] = []

    # -- module ----------------------------------------------------------------------------------------------------

    def parse(self) -> Module:
        while self.tokens[self.at][0] != "end":
            self._top_level()
        return self.module

    def _top_level(self) -> None:
        kind, text, position = self.tokens[self.at]
        if text == ".version":
            self.module.version = self.tokens[self.at + 1][1]
            self.at += 2
        elif text == ".target":
            self.at += 1
            self.module.target = self.name()
            while self.accept(","):
                self.name()
        elif text == ".address_size":
            self.at += 2
        elif text in (".visible", ".extern", ".weak", ".common"):
            self.at += 1
        elif text in (".entry", ".func"):
            self.at += 1
            self._function(text == ".entry")
        elif text[1:] in _SPACES and text[0] == ".":
            for variable in self._variables():
                self.module.variables[variable.name] = variable
                self.scope.names[variable.name] = variable
        elif text in (".file", ".loc"):
            line = self.line_of(position)
            while self.tokens[self.at][0] != "end" and self.line_of(self.tokens[self.at][2]) == line:
                self.at += 1
        elif text == ".section":
            while not self.accept("{"):
                self.at += 1
            while not self.accept("}"):
                self.at += 1
        elif text in (".pragma", ".alias") or text == ";":
            self.skip_statement()
        else:
            raise self.error(f"unexpected '{text}' at module level")

    def _function(self, is_entry: bool) -> None:
        results: list[Variable] = []
        while self.tokens[self.at][1] in (".noreturn", ".attribute", ".unified"):
            self.at += 1
        if self.accept("("):
            results = self._parameters()
        function = Function(self.name(), is_entry)
        function.results = results
        if self.accept("("):
            function.params = self._parameters()
        while self.tokens[self.at][1].startswith("."):
            directive = self.name()
            values = []
            while self.tokens[self.at][0] == "number":
                values.append(self.integer())
                if not self.accept(","):
                    break
            if directive in _IGNORED_DIRECTIVES:
                while not (self.peek("{") or self.peek(";") or self.tokens[self.at][1].startswith(".")):
                    self.at += 1
                continue
            function.directives[directive[1:]] = tuple(values)
        earlier = self.module.functions.get(function.name)
        if self.accept(";"):
            if earlier is None:
                self.module.functions[function.name] = function
            return
        self.module.functions[function.name] = function
        self.expect("{")
        self._body(function)

    def _parameters(self) -> list[Variable]:
        parameters = []
        while not self.accept(")"):
            if self.accept(","):
                continue
            hidden = self.accept(".hidden")
            text = self.name()
            if text == ".reg":
                raise self.error("register parameters are not supported")
            if text != ".param":
                raise self.error(f"expected a parameter, found '{text}'")
            parameters.append(self._variable("param"))
            parameters[-1].hidden = hidden
        return parameters

    def _variables(self) -> list[Variable]:
        space = self.name()[1:]
        first = self._variable(space)
        variables = [first]
        self._initialiser(first)
        while self.accept(","):
            more = self._declarator(space, first.type, first.align)
            self._initialiser(more)
            variables.append(more)
        self.expect(";")
        return variables

    def _variable(self, space: str) -> Variable:
        align, type_, vector = 0, None, 1
        while self.tokens[self.at][1].startswith("."):
            directive = self.name()
            if directive == ".align":
                align = self.integer()
            elif directive in (".v2", ".v4"):
                vector = int(directive[2:])
            elif directive[1:] in TYPES:
                type_ = TYPES[directive[1:]]
            elif directive in (".ptr", ".global", ".const", ".shared", ".local", ".param", ".volatile"):
                if directive == ".ptr" and align:
                    pass
                # `.ptr .space .align n` describes the pointee; the parameter's own alignment is its type's.
                while directive == ".ptr" and self.tokens[self.at][1].startswith("."):
                    if self.name() == ".align":
                        self.integer()
            elif directive.startswith(".attribute"):
                self.expect("(")
                while not self.accept(")"):
                    self.at += 1
            else:
                raise self.error(f"unexpected '{directive}' in a declaration")
        if type_ is None:
            raise self.error("a declaration without a type")
        return self._declarator(space, type_, align, vector)

    def _declarator(self, space: str, type_: PtxType, align: int, vector: int = 1) -> Variable:
        name = self.name()
        if self.accept("<"):
            raise self.error("parameterised variable names are only supported for registers")
        size = type_.bytes * vector
        natural = size
        while self.accept("["):
            size *= 0 if self.peek("]") else self.integer()
            self.expect("]")
        return Variable(name, space, type_, size, align or natural)

    def _initialiser(self, variable: Variable) -> None:
        if not self.accept("="):
            return
        data = bytearray()
        element = variable.type.bytes

        def item() -> None:
            if self.accept("{"):
                while not self.accept("}"):
                    item()
                    self.accept(",")
                return
            kind, text, _ = self.tokens[self.at]
            if kind == "name":
                self.at += 1
                if text == "generic":
                    self.expect("(")
                    text = self.name()
                    self.expect(")")
                addend = 0
                while self.peek("+") or self.peek("-"):
                    negative = self.accept("-") or (self.expect("+"), False)[1]
                    addend += -self.integer() if negative else self.integer()
                variable.references.append((len(data), text, addend, element))
                data.extend(bytes(element))
                return
            negative = self.accept("-")
            number = number_of(self.tokens[self.at][1])
            self.at += 1
            data.extend(_encode(number, negative, variable.type))

        item()
        variable.data = bytes(data)
        if not variable.size:
            variable.size = len(data)

    # -- bodies ----------------------------------------------------------------------------------------------------

    def _body(self, function: Function) -> None:
        self.function = function
        function.body = []
        outer = self.scope
        self.scope = _Scope(outer)
        self.pending = []
        for variable in (*function.params, *function.results):
            self.scope.names[variable.name] = variable
        depth = 1
        while depth:
            kind, text, position = self.tokens[self.at]
            if kind == "end":
                raise self.error(f"the body of {function.name} does not end")
            if text == "{":
                self.at += 1
                depth += 1
                self.scope = _Scope(self.scope)
            elif text == "}":
                self.at += 1
                depth -= 1
                self.scope = self.scope.parent
            elif text == ".reg":
                self.at += 1
                self._registers()
            elif text[0] == "." and text[1:] in _SPACES:
                for variable in self._variables():
                    self.scope.names[variable.name] = variable
                    function.variables.append(variable)
            elif text == ".loc":
                line = self.line_of(position)
                while self.line_of(self.tokens[self.at][2]) == line and not self.peek("}"):
                    self.at += 1
            elif text == ".pragma":
                self.skip_statement()
            elif text == ";":
                self.at += 1
            elif kind == "name" and self.tokens[self.at + 1][1] == ":":
                self.at += 2
                self._label(text)
            else:
                function.body.append(self._instruction())
        for symbol, scope, at in self.pending:
            label = scope.find_label(symbol.name)
            if label is None and (entry := self.module.functions.get(symbol.name)) is not None:
                symbol.target = entry
            elif label is not None:
                symbol.target = label
        self.scope = outer

    def _label(self, name: str) -> None:
        label = Label(name)
        label.position = len(self.function.body)
        self.scope.labels[name] = label
        self.function.labels.append(label)
        # `name: .branchtargets L0, L1;` and `name: .callprototype ...;`
        if self.accept(".branchtargets"):
            targets = []
            while not self.accept(";"):
                symbol = Symbol(self.name(), None)
                self.pending.append((symbol, self.scope, self.at))
                targets.append(symbol)
                self.accept(",")
            self.scope.names[name] = Group("{", targets)
        elif self.accept(".callprototype"):
            self.skip_statement()

    def _registers(self) -> None:
        type_ = None
        vector = 1
        while self.tokens[self.at][1].startswith("."):
            directive = self.name()[1:]
            if directive in ("v2", "v4"):
                vector = int(directive[1:])
            elif directive in TYPES:
                type_ = TYPES[directive]
            else:
                raise self.error(f"unknown register type '.{directive}'")
        if vector != 1:
            raise self.error("vector registers are not supported")
        while True:
            name = self.name()
            if self.accept("<"):
                count = self.integer()
                self.expect(">")
                for number in range(count):
                    self._register(f"{name}{number}", type_)
            else:
                self._register(name, type_)
            if not self.accept(","):
                break
        self.expect(";")

    def _register(self, name: str, type_: PtxType) -> None:
        register = Register(name, type_, len(self.function.registers))
        self.function.registers.append(register)
        self.scope.names[name] = register

    def _instruction(self) -> Instruction:
        start = self.tokens[self.at][2]
        guard = None
        if self.accept("@"):
            negated = self.accept("!")
            register = self.scope.find(self.name())
            if not isinstance(register, Register):
                raise self.error("a guard that is not a declared predicate register")
            guard = (register, negated)
        head = self.name().split(".")
        operands: list = []
        while not self.peek(";"):
            operands.append(self._operand())
            if not self.accept(","):
                break
        if not self.peek(";"):
            raise self.error(f"unexpected '{self.tokens[self.at][1]}' in an instruction")
        end = self.tokens[self.at][2]
        self.at += 1
        text = " ".join(self.text[start : end + 1].split())
        return Instruction(head[0], head[1:], operands, guard, self.line_of(start), text)

    def _operand(self):
        operand = self._simple_operand()
        if self.accept("|"):
            operand = Group("|", [operand, self._simple_operand()])
        return operand

    def _simple_operand(self):
        kind, text, _ = self.tokens[self.at]
        if text in ("{", "("):
            self.at += 1
            close = "}" if text == "{" else ")"
            items = []
            while not self.accept(close):
                items.append(self._operand())
                if not self.accept(","):
                    self.expect(close)
                    break
            return Group(text, items)
        if text == "[":
            self.at += 1
            return self._address()
        if text == "!":
            self.at += 1
            return Negated(self._simple_operand())
        if text in ("-", "+"):
            self.at += 1
            number = self._simple_operand()
            if not isinstance(number, Immediate):
                raise self.error("a sign before something that is not a number")
            return Immediate(-number.value) if text == "-" else number
        if kind == "number":
            self.at += 1
            return number_of(text)
        if kind == "name":
            self.at += 1
            return self._resolve_name(text)
        raise self.error(f"unexpected '{text}' in an instruction")

    def _resolve_name(self, text: str):
        if text == "_":
            return Sink()
        result = self.scope.find(text)
        if isinstance(result, Register | Group):
            return result
        if result is None and text.startswith("%"):
            return Special(text)
        symbol = Symbol(text, result)
        if result is None:
            self.pending.append((symbol, self.scope, self.at))
        if self.peek("+") or self.peek("-"):
            negative = self.tokens[self.at][1] == "-"
            self.at += 1
            symbol.offset = -self.integer() if negative else self.integer()
        return symbol

    def _address(self):
        """The inside of `[...]`; with several comma-separated parts (tensor copies) the result is a Group '['."""
        parts: list = []
        while True:
            if self.peek("{"):
                parts.append(self._simple_operand())
            elif self.tokens[self.at][0] == "number" or self.peek("-"):
                parts.append(Address(None, self.integer()))
            else:
                base = self._resolve_name(self.name())
                offset = 0
                while self.peek("+") or self.peek("-"):
                    negative = self.tokens[self.at][1] == "-"
                    self.at += 1
                    offset += -self.integer() if negative else self.integer()
                if isinstance(base, Symbol):
                    offset += base.offset
                    base.offset = 0
                parts.append(Address(base, offset))
            if not self.accept(","):
                break
        self.expect("]")
        return parts[0] if len(parts) == 1 else Group("[", parts)


def _encode(number: Immediate, negative: bool, type_: PtxType) -> bytes:
    if number.float_bits is not None and number.float_bits[0] == type_.bits and not negative:
        return number.float_bits[1].to_bytes(type_.bytes, "little")
    if type_.kind == "float" and type_.bits in (32, 64):
        value = -float(number.value) if negative else float(number.value)
        return struct.pack("<f" if type_.bits == 32 else "<d", value)
    value = -int(number.value) if negative else int(number.value)
    return (value & ((1 << type_.bits) - 1)).to_bytes(type_.bytes, "little")


def parse(text: str) -> Module:
    """Parse PTX text to a module; raises EmulationError with the line of a syntax error."""
    return Parser(text).parse()
