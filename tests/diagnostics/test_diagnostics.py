"""Diagnostics: engine, handlers, rendering."""

import json
import sys
import threading
import time
from pathlib import Path

import pytest

import tileiras
import tileiras.api
from tileiras import api
from tileiras.diagnostics import CompileError, Diagnostic, DiagnosticEngine, ExitCode, Severity, render, to_json
from tileiras.diagnostics.remarks import Remark
from tileiras.driver.program import Program
from tileiras.ir import FileLineColLoc, parse_module
from tileiras.reasons import Reason

SAXPY = Path(__file__).parents[2] / "examples" / "saxpy.mlir"


def test_a_file_name_that_no_file_can_have_shows_no_source_line():
    error = CompileError.at(FileLineColLoc("a\0b.py", 3, 1), "message")
    assert error.render() == "a\0b.py:3:1: error: message"


def test_the_source_line_of_a_consequence_is_shown_once():
    engine = DiagnosticEngine()
    engine.error(FileLineColLoc("k.mlir", 2, 3), "cause")
    engine.error(FileLineColLoc("k.mlir", 2, 3), "consequence")
    engine.error(FileLineColLoc("k.mlir", 1, 1), "elsewhere")
    assert render(engine.diagnostics, {"k.mlir": "first\n  second\n"}).split("\n") == [
        "k.mlir:2:3: error: cause",
        "  second",
        "  ^",
        "k.mlir:2:3: error: consequence",
        "k.mlir:1:1: error: elsewhere",
        "first",
        "^",
    ]


def test_repeated_messages_are_shown_once():
    engine = DiagnosticEngine()
    for _ in range(2):
        engine.emit(Remark(Reason("pairs.together"), FileLineColLoc("k.mlir", 2, 3)))
    engine.emit(Remark(Reason("pairs.together"), FileLineColLoc("k.mlir", 2, 4)))
    lines = [line for line in render(engine.diagnostics, {}).split("\n") if "pairs.together" in line]
    assert [line.partition(" remark: ")[0] for line in lines] == ["k.mlir:2:3:", "k.mlir:2:4:"]


def test_severity_words_are_those_of_the_emitting_sites():
    """The same text has the word of an operation's error only where it is emitted as one."""
    engine = DiagnosticEngine()
    op = parse_module("module {}")
    text = "'builtin.module' op is wrong"
    items = [engine.error(op.location, text), engine.op_error(op, "is wrong"), engine.warning(None, text)]
    assert {diagnostic.message for diagnostic in items} == {text}
    assert [diagnostic.word for diagnostic in items] == [0x003, 0x103, 0x002]
    assert Diagnostic.note(None, text).word == 0x101 and Remark(Reason("pairs.together"), None).word == 0x004
    moved = items[1].relocate(None, [])
    assert (moved.word, moved.message) == (0x103, text)
    words = [CompileError.at(None, text, code).diagnostics[0].word for code in ExitCode if code]
    assert words == [0x103, 0x503, 0x104, 0x503, 0x103]


def test_the_verifier_reports_operations():
    with pytest.raises(CompileError) as error:
        tileiras.parse(
            "cuda_tile.module @m {\n entry @k() {\n %0 = iota : tile<4xi32>\n"
            " %1 = reshape %0 : tile<4xi32> -> tile<8xi32>\n return\n }\n}"
        )
    assert error.value.diagnostics[0].word == 0x103 and error.value.word == 0x104


def test_a_failure_has_the_severity_word_of_its_exit_code():
    def of(call):
        with pytest.raises(CompileError) as error:
            call()
        return error.value.code, error.value.word

    kernel = "cuda_tile.module @m {\n  entry @k() {\n    return\n  }\n}\n"
    launch = kernel.replace("()", "(%v: tensor_view<8xf32, strides=[1]>)")
    assert of(lambda: api.compile("/no/such/file.mlir", gpu_name="sm_90")) == (1, 0x103)
    assert of(lambda: api.compile(kernel, gpu_name="sm_42")) == (2, 0x503)
    assert of(lambda: api.compile(kernel + "}", gpu_name="sm_90")) == (3, 0x104)
    program = Program.create(kernel.encode(), gpu_name="sm_90")
    program.release()
    assert of(program.compile) == (4, 0x503)
    assert of(lambda: api.compile(launch, gpu_name="sm_90", emit="ptx")) == (5, 0x103)
    assert ExitCode.SUCCESS.word == 0


def test_the_first_handler_that_accepts_a_diagnostic_keeps_it():
    heard = []
    engine = DiagnosticEngine()
    engine.register_handler(lambda d: heard.append(("first", d.message)))
    second = engine.register_handler(lambda d: heard.append(("second", d.message)) or d.severity is Severity.ERROR)
    engine.register_handler(lambda d: heard.append(("third", d.message)))
    engine.warning(None, "w")
    engine.error(None, "e")
    assert heard == [("first", "w"), ("second", "w"), ("third", "w"), ("first", "e"), ("second", "e")]
    assert [d.message for d in engine.diagnostics] == ["w"]
    assert engine.has_errors, "an error that a handler has taken still fails the compilation"
    engine.erase_handler(second)
    engine.error(None, "kept")
    assert [d.message for d in engine.diagnostics] == ["w", "kept"]


def test_a_handler_that_emits_is_refused():
    engine = DiagnosticEngine()
    engine.register_handler(lambda d: engine.warning(None, "again"))
    with pytest.raises(RuntimeError, match="a diagnostic handler emits a diagnostic: again"):
        engine.error(None, "e")


@pytest.fixture
def impatient():
    """Threads switch as often as the interpreter allows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_threads_that_share_an_engine_lose_nothing(impatient):
    engine = DiagnosticEngine()
    inside, value, failures = [], [], []

    def alone(diagnostic):
        inside.append(diagnostic)
        time.sleep(0)
        if inside != [diagnostic]:
            failures.append(diagnostic.message)
        inside.remove(diagnostic)
        if diagnostic.message.endswith("0"):
            value.append(diagnostic.message)
            return True
        return None

    engine.register_handler(alone)

    def work(name):
        try:
            for number in range(200):
                with engine.emit_error(None, f"{name}:{number}") as diagnostic:
                    diagnostic.attach_note(None, "note")
                engine.erase_handler(engine.register_handler(lambda _: None))
        except Exception as error:  # noqa: BLE001
            failures.append(repr(error))

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    entry = [diagnostic.message for diagnostic in engine.diagnostics]
    for result, ours in ((value, lambda number: number % 10 == 0), (entry, lambda number: number % 10)):
        for name in "abcdefgh":
            in_order = [f"{name}:{number}" for number in range(200) if ours(number)]
            assert [message for message in result if message.startswith(name)] == in_order
    assert engine.has_errors and all(len(diagnostic.notes) == 1 for diagnostic in engine.diagnostics)


def test_threads_have_their_own_diagnostics(impatient):
    text = "cuda_tile.module @m {\n  entry @k() {\n    %0 = addf %missing, %nNUMBER : tile<f32>\n    return\n  }\n}\n"
    result = {}

    def work(number):
        heard = []
        source = text.replace("missing", f"m{number}").replace("NUMBER", str(number))
        with pytest.raises(CompileError) as caught:
            tileiras.compile(source, gpu_name="sm_90", handlers=[heard.append], source_name=f"{number}.mlir")
        result[number] = ([d.message for d in caught.value.diagnostics], [d.position.filename for d in heard])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result) == list(range(12))
    for number, (messages, files) in result.items():
        assert messages == ["use of undeclared SSA value name"] * 2 and files == [f"{number}.mlir"] * 2


def test_an_in_flight_diagnostic_is_emitted_once():
    engine = DiagnosticEngine()
    with engine.emit_error(None, "no layout") as building:
        building.append(" for a tile").attach_note(FileLineColLoc("k.mlir", 1, 1), "needed here")
        assert engine.diagnostics == []
    building.report()
    engine.emit_error(None, "abandoned").abandon()
    with pytest.raises(ValueError), engine.emit_error(None, "dropped"):
        raise ValueError
    (result,) = engine.diagnostics
    assert (result.message, [n.message for n in result.notes]) == ("no layout for a tile", ["needed here"])


def test_a_trace_is_a_child_with_the_diagnostics_origin():
    engine = DiagnosticEngine()
    engine.trace = True
    (note,) = engine.error(None, "e").notes
    assert note.message.startswith("diagnostic emitted with trace:\n") and "test_diagnostics.py" in note.message
    assert note.word == 0x104 and engine.diagnostics[0].word == 0x203
    try:
        raise CompileError.at(None, "raised")
    except CompileError as error:
        error.attach_trace()
        error.attach_trace()
        (note,) = error.diagnostics[0].notes
    assert "raise CompileError.at" in note.message


def test_structured_output_has_known_fields_and_nested_notes():
    engine = DiagnosticEngine()
    engine.error(FileLineColLoc("k.mlir", 2, 3), "cause", [Diagnostic.note(None, "why")])
    engine.warning(None, "w")
    assert [json.loads(line) for line in to_json(engine.diagnostics).splitlines()] == [
        {
            "severity": "error", "message": "cause", "file": "k.mlir", "line": 2, "column": 3,
            "notes": [{"severity": "note", "message": "why"}],
        },
        {"severity": "warning", "message": "w"},
    ]  # fmt: skip


NARROW = (
    "cuda_tile.module @m {\n  entry @k(%p: tile<ptr<f8E4M3FN>>) {\n"
    "    %v, %t = load_ptr_tko weak %p : tile<ptr<f8E4M3FN>> -> tile<f8E4M3FN>, token\n    return\n  }\n}\n"
)


@pytest.mark.parametrize("compile", [tileiras.compile, tileiras.api.compile])
def test_the_library_asks_handlers_of_its_caller(compile):
    heard = []
    result = compile(SAXPY, gpu_name="sm_90", emit="tileas", emit_remarks=True, handlers=[heard.append])
    assert [d.message for d in heard] == [d.message for d in result.diagnostics] != []
    taken = compile(SAXPY, gpu_name="sm_90", emit="tileas", emit_remarks=True, handlers=[lambda d: True])
    assert taken.diagnostics == [] and taken.data == result.data
    with pytest.raises(CompileError) as error:
        compile(NARROW, gpu_name="sm_80", handlers=[lambda d: "unsupported type" in d.message])
    assert (error.value.code, error.value.diagnostics) == (5, []), "a failure that was heard of is still one"
