"""The documented body of a diagnostic, as handlers in C read it."""

import ctypes

import pytest

from tileiras.diagnostics import Diagnostic, DiagnosticEngine, Severity
from tileiras.diagnostics.body import Argument, Body, body_of
from tileiras.driver.program import c_create
from tileiras.ir import FileLineColLoc, Pass, PassManager, parse_module, print_op
from tileiras.ir.pass_manager import PassContext


def arguments(body: Body) -> list[int | str]:
    result = []
    for number in range(body.size):
        each = Argument.from_address(body.arguments + number * ctypes.sizeof(Argument))
        result.append(each.value if each.kind == 2 else ctypes.string_at(each.value, each.length).decode())
    return result


def test_the_layout_is_the_documented_one():
    assert ctypes.sizeof(Body) == 208 and ctypes.sizeof(Argument) == 24
    places = {"location": 0, "word": 0x10, "arguments": 0x18, "size": 0x20, "capacity": 0x24, "inline": 0x28,
              "strings": 0x88, "notes": 0xA0, "sink": 0xB8, "alive": 0xC8}  # fmt: skip
    assert {name: getattr(Body, name).offset for name in places} == places


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 9])
def test_four_arguments_are_inline_and_more_are_not(count):
    fragments = [number if number % 2 else f"text {number}" for number in range(count)]
    body, held = body_of(Diagnostic(Severity.WARNING, FileLineColLoc("k.mlir", 2, 3), fragments))
    inline = body.arguments == ctypes.addressof(body) + 0x28
    assert inline == (count <= 4) and held and arguments(body) == fragments
    assert [slot.kind for slot in body.inline] == (
        [2 if n % 2 else 5 for n in range(count)] + [1] * (4 - count) if inline else [0] * 4
    )
    assert (body.word, body.alive, body.size, body.capacity) == (2, 1, count, max(4, count))


def test_errors_have_the_operation_as_argument_and_notes_bodies():
    op = parse_module("module {}", "k.mlir")
    note = Diagnostic.note(None, "here")
    body, held = body_of(Diagnostic.of_operation(op, "is wrong", [note]))
    assert arguments(body) == ["'", "builtin.module", "' op ", "is wrong"] and body.word == 0x103
    child = Body.from_address(ctypes.c_uint64.from_address(body.notes.begin).value)
    assert body.notes.size == 1 and child.word == 0x101 and arguments(child) == ["here"] and held


def test_functions_of_the_library_give_a_body_per_diagnostic():
    code, _, text, ((address, line, held),) = c_create(b"", 0)
    body = Body.from_address(address)
    assert code and "".join(map(str, arguments(body))) in text and line == text and held
    assert body.word in (0x503, 0x104)


# ---- the status word of a pass ---------------------------------------------------------------------------------------


class Reluctant(Pass):
    name = "reluctant"

    def run(self, op, context):
        self.signal_soft_failure(context, context.engine.warning(op.location, "no room"))
        self.signal_soft_failure(context, Diagnostic(Severity.REMARK, op.location, "no room either"))


def test_the_bit_is_at_its_offset_and_set_by_diagnostics_only():
    engine, item = DiagnosticEngine(), Reluctant()
    word = ctypes.c_uint32.from_buffer(item.object, 40)
    word.value = 0xF8
    PassManager([item]).run(parse_module("module {}"), PassContext(engine))
    assert word.value == item.state == 4
    assert [diagnostic.message for diagnostic in engine.diagnostics] == ["no room", "no room either"]
    with pytest.raises(TypeError):
        item.signal_soft_failure(PassContext(engine))


class HalfDone(Pass):
    name = "half-done"

    def run(self, op, context):
        for inner in op.regions[0].operations:
            inner.erase()
        op.attributes["done"] = op.attributes["sym_name"]
        context.engine.error(op.location, "cannot go on")


def test_a_failing_pass_leaves_its_input_unchanged():
    module = parse_module("module @m { module @inner {} }")
    before = print_op(module)
    with pytest.raises(Exception, match="cannot go on"):
        PassManager([HalfDone()]).run(module)
    assert print_op(module) == before
