"""Passes and pipelines.

A pass is a class named as on the command line; its options are annotated class attributes with defaults:

    class FuseFMA(Pass):
        name = "fuse-fma"
        anchor = "cuda_tile.module"
        max_uses: int = 1

        def run(self, op, context): ...

An option with several fields is spelled `{key=value ...}`; the class of its default has `parse`, which raises
ValueError with the accepted text, and `str` as its inverse.

The table `PASSES` of `tileiras/passes/__init__.py` has the module of each pass.

A pass that cannot do its work, although the program is correct, fails softly: it emits a remark with the reason, sets
the bit of its status word and returns (`signal_soft_failure`).  The manager clears the words before a run and records
them after every pass; a pass added `after` another is skipped if that one has failed softly.  Soft failures do not
affect the exit code.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from tileiras.diagnostics import CompileError, Diagnostic, DiagnosticEngine, ExitCode, FilePosition
from tileiras.support.named_tuple import NamedTuple

from .attributes import VerifyError
from .operation import Operation
from .pass_anchors import MODULE, collect_names, restore, targets
from .pass_instrumentation import PassInstrumentation, VerifyEach, instrumented
from .registry import lookup_operation
from .traits import IsolatedFromAbove, SymbolTable

AnalysisT = TypeVar("AnalysisT")


class Pass:
    """One transformation of the operations called `anchor` (of any operation when empty)."""

    name: ClassVar[str] = ""
    anchor: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    """The precondition of the pass, ..."""
    establishes: ClassVar[str] = ""
    """... its postcondition, ..."""
    keeps: ClassVar[str] = ""
    """... and the properties that it preserves: for `docs/passes.md`."""

    optional: ClassVar[bool] = False
    """Whether the result is correct without the pass, if slower."""
    schedules: ClassVar[bool] = False
    """Whether a stage omits the pass where loads must not run ahead."""

    accepts: ClassVar[Mapping[str, range]] = {}
    """Option -> its valid values, for numbers with restrictions."""

    preserves_analyses: ClassVar[bool] = False
    """Whether analysis results from before the pass are valid after it."""

    adds_operations: ClassVar[bool] = True
    """Whether the pass may introduce operations or attributes with names that were not in the IR."""

    introduces: ClassVar[tuple[str, ...] | None] = None
    """Among the names by which passes are found, those that the pass may introduce; None: any."""

    SOFT_FAILURE = 4
    """Bit of the status word: the pass has not done its work."""

    STATUS_OFFSET = 40
    """Place of the status word, of 32 bits, in the documented object of a pass."""

    def __init__(self, **options: Any) -> None:
        self.object = bytearray(Pass.STATUS_OFFSET + 8)
        """The memory of the documented object: the status word is at `STATUS_OFFSET`, the bytes before it are free."""
        self.path: tuple[str, ...] = ()
        """The anchors that a textual pipeline nests the pass in, outermost first."""
        self._after = ""
        defaults = self.options()
        for key, value in options.items():
            field = key.replace("-", "_")
            if field not in defaults:
                raise CompileError.at(None, f"pass '{self.name}' has no option '{key}'", ExitCode.CONFIGURATION)
            setattr(self, field, _fitting(self.name, key, value, defaults[field], self.accepts.get(field)))

    @classmethod
    @functools.cache
    def options(cls) -> Mapping[str, Any]:
        """Option name -> default."""
        annotations = [base.__dict__.get("__annotations__", {}) for base in reversed(cls.__mro__)]
        return {
            name: getattr(cls, name)
            for each in annotations
            for name, type in each.items()
            if not str(type).startswith("ClassVar")
        }

    def spelled(self) -> str:
        """The pass in a textual pipeline, with the options that differ from their defaults."""
        items = []
        for name, default in self.options().items():
            value = getattr(self, name)
            if value != default:
                items.append(f"{name.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}")
        return f"{self.name}{{{' '.join(items)}}}" if items else self.name

    def pipeline(self) -> str:
        """The textual pipeline that runs this pass alone, where it runs."""
        inner = () if self.anchor in ("", MODULE) else (self.anchor,)
        text = self.spelled()
        for anchor in reversed(self.path or (MODULE, *inner)):
            text = f"{anchor}({text})"
        return text

    def verify_input(self, op: Operation, context: "PassContext") -> None:
        """Check the part of `needs` that the verifier does not check; errors go to `context.engine`.

        Called by the manager if it verifies between passes: hand-written text may violate any precondition.
        """

    def run(self, op: Operation, context: "PassContext") -> None:
        """Change `op` in place; errors go to `context.engine` or are raised as CompileError."""
        raise TypeError(f"pass '{self.name}' does not implement 'run'")

    def after(self, name: str) -> "Pass":
        """This pass, which depends on the work of the pass `name`: it is skipped if that one failed softly."""
        self._after = name
        return self

    @property
    def state(self) -> int:
        """The status word: cleared before a run; bits only accumulate in it."""
        return int.from_bytes(self.object[self.STATUS_OFFSET : self.STATUS_OFFSET + 4], "little")

    def clear_state(self) -> None:
        self.object[self.STATUS_OFFSET : self.STATUS_OFFSET + 4] = bytes(4)

    def signal_soft_failure(self, context: "PassContext", reason: Diagnostic) -> None:
        """Emit the diagnostic with the reason, unless the pass has emitted it before, then set the bit."""
        if not context.engine.has_emitted(reason):
            context.engine.emit(reason)
        self.object[self.STATUS_OFFSET] |= self.SOFT_FAILURE


def _fitting(name: str, key: str, value: Any, default: Any, accepted: range | None) -> Any:
    """A value of the default's type, which text may spell otherwise; raises CompileError (code 2) for another."""
    if isinstance(default, str) and type(value) is int:
        return str(value)
    kind = {bool: "true or false", int: "an integer", str: "text"}.get(type(default), "")
    if not kind and not isinstance(value, type(default)):
        try:
            return type(default).parse(str(value))
        except ValueError as error:
            kind = str(error)
    elif type(value) is type(default) and (accepted is None or value in accepted):
        return value
    if accepted is not None:
        is_dense = accepted.step == 1  # of any length
        kind += f" from {accepted[0]} to {accepted[-1]}" if is_dense else ", one of " + ", ".join(map(str, accepted))
    message = f"'{value}' value invalid for option '{key}' of pass '{name}'; expected {kind}"
    raise CompileError.at(None, message, ExitCode.CONFIGURATION)


class PassContext:
    """State shared by passes: diagnostics, analyses, and data of the pipeline's owner (target, options)."""

    __slots__ = ("engine", "data", "soft_failures", "_analyses")

    def __init__(self, engine: DiagnosticEngine | None = None, data: object | None = None) -> None:
        self.engine = engine if engine is not None else DiagnosticEngine()
        self.data = data
        self.soft_failures: set[str] = set()
        """Passes of this run that failed softly."""
        self._analyses: dict[tuple[type, Operation], Any] = {}

    def analysis(self, kind: type[AnalysisT], op: Operation, make: Callable[[], AnalysisT]) -> AnalysisT:
        """The analysis of this kind of `op`, made unless an earlier pass made it and it still holds."""
        result = self._analyses.get((kind, op))
        if result is None:
            result = self._analyses[kind, op] = make()
        return result

    def forget_analyses(self) -> None:
        """The IR has changed."""
        self._analyses.clear()


class PassWhereFound(NamedTuple):
    """A pass that is constructed, and its file loaded, only for IR that contains its operations."""

    construct: Callable[[], Pass | None]
    """Constructs the pass; None if it is omitted."""
    names: tuple[str, ...]
    """The pass has no effect if no operation has one of these names, or an attribute of such a name; one that ends in a
    point stands for all names of a dialect.  Empty: it is constructed for all IR."""

    def is_among(self, names: set[str]) -> bool:
        """Whether one of the names is among those that were found."""
        if not names.isdisjoint(self.names):
            return True
        dialects = tuple([name for name in self.names if name.endswith(".")])
        return bool(dialects) and any(name.startswith(dialects) for name in names)


class PassManager:
    """Runs passes in order on an operation.

    `verify_each` checks the IR after every pass, and a pass that fails, or leaves invalid IR, leaves its input
    unchanged: the manager keeps a copy.  `instrumentation` watches, and sees passes that have nothing to do as well.
    """

    def __init__(
        self,
        passes: Sequence[Pass | PassWhereFound],
        *,
        verify_each: bool = True,
        instrumentation: Sequence[PassInstrumentation] = (),
    ) -> None:
        self.verify_each = verify_each
        self.instrumentation = [VerifyEach(), *instrumentation] if verify_each else list(instrumentation)
        self.passes = list(passes)
        if self.instrumentation:
            created = (item if isinstance(item, Pass) else item.construct() for item in passes)
            self.passes = [item for item in created if item is not None]

    def run(self, op: Operation, context: PassContext | None = None) -> None:
        """Raise CompileError (code 5) when a pass fails or leaves invalid IR behind."""
        context = context if context is not None else PassContext()
        context.soft_failures.clear()
        context.forget_analyses()
        result: set[str] = set()
        for each in self.passes:
            item: Pass | None
            if isinstance(each, Pass):
                item = each
            else:
                if each.names:
                    if not result:
                        collect_names(op, result)
                    if not each.is_among(result):
                        continue
                item = each.construct()
                if item is None:
                    continue
            item.clear_state()
            if item._after in context.soft_failures:
                continue
            self._run_pass(item, op, context)
            if item.introduces is None and item.adds_operations:
                result.clear()
            elif item.introduces and result:
                result.update(item.introduces)
            if not item.preserves_analyses:
                context.forget_analyses()
            if item.state & Pass.SOFT_FAILURE:
                context.soft_failures.add(item.name)

    def _run_pass(self, item: Pass, op: Operation, context: PassContext) -> None:
        before = op.clone() if self.verify_each else None
        try:
            if self.instrumentation:
                with instrumented(item.name, op, self.instrumentation, item.pipeline()):
                    self._run_on_targets(item, op, context)
            else:
                self._run_on_targets(item, op, context)
        except Exception:
            # Behind the instrumentation, which prints the output of a failed pass.
            if before is not None:
                restore(op, before)
                context.forget_analyses()
            raise

    def _run_on_targets(self, item: Pass, op: Operation, context: PassContext) -> None:
        for target in targets(item, op):
            if self.verify_each:
                item.verify_input(target, context)
                context.engine.raise_if_errors(ExitCode.COMPILE_FAILURE)
            try:
                item.run(target, context)
            except VerifyError as error:
                context.engine.error(error.location or target.location, error.message)
                text = f"'{item.name}' pass failed; per-op verifier may have fired"
                context.engine.error(target.location, text)
            except CompileError:
                raise
            except Exception as error:
                # Names the pass for handlers of the error; Python prints it below the traceback.
                error.add_note(f"in pass '{item.name}'")
                raise
        context.engine.raise_if_errors(ExitCode.COMPILE_FAILURE)


Pipelines = Mapping[str, Callable[[str], list[Pass]]]
"""Name of a pipeline -> function that builds its passes from the text between its braces."""


def parse_pipeline(
    text: str, lookup: Callable[[str], type[Pass]], pipelines: Pipelines | None = None, source: str = "<pass-pipeline>"
) -> list[Pass]:
    """The passes of a textual pipeline, `anchor(pass{key=value ...},pipeline{key=value ...})`.

    Raises CompileError (code 2) for an unknown pass or option, an anchor that cannot stand where it does, or a mistake
    in the text: at its place in `source`, or without one where that is empty.
    """
    return _PipelineParser(text, source, lookup, pipelines or {}).run()


class _Place:
    """A place in the text of a pipeline."""

    __slots__ = ("_position",)

    def __init__(self, source: str, text: str, at: int) -> None:
        line = text.count("\n", 0, at)
        column = at - (text.rfind("\n", 0, at) + 1)
        self._position = FilePosition(source, line + 1, column + 1, text.split("\n")[line])

    def resolve(self) -> FilePosition:
        return self._position


class _PipelineParser:
    """Reads one textual pipeline."""

    def __init__(self, text: str, source: str, lookup: Callable[[str], type[Pass]], pipelines: Pipelines) -> None:
        self.text = text
        self.source = source
        self.lookup = lookup
        self.pipelines = pipelines
        self.at = 0
        self.passes: list[Pass] = []

    def run(self) -> list[Pass]:
        self._list(())
        if self._peek():
            raise self._error(self.at, f"expected end of pipeline, got '{self.text[self.at :]}'")
        return self.passes

    def _error(self, at: int, message: str) -> CompileError:
        place = _Place(self.source, self.text, at) if self.source else None
        return CompileError.at(place, message, ExitCode.CONFIGURATION)

    @contextlib.contextmanager
    def _place_errors(self, at: int) -> Iterator[None]:
        """Add the place in the text to errors of passes and pipelines, which do not know it."""
        try:
            yield
        except CompileError as error:
            if self.source:
                place = _Place(self.source, self.text, at)
                diagnostics = [d if d.location is not None else d.relocate(place, d.notes) for d in error.diagnostics]
                raise CompileError(diagnostics, error.code) from None
            raise

    def _peek(self) -> str:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _list(self, path: tuple[str, ...]) -> None:
        """The elements of a pipeline inside the anchors of `path`."""
        while True:
            self._element(path)
            if self._peek() != ",":
                return
            self.at += 1

    def _element(self, path: tuple[str, ...]) -> None:
        self._peek()
        start = self.at
        match = re.compile(r"[\w.$-]+").match(self.text, start)
        if match is None:
            raise self._error(start, f"expected a pass name at '{self.text[start:]}'")
        name = match[0]
        self.at = match.end()
        braces = self._braces() if self._peek() == "{" else None
        if self._peek() == "(":
            if braces is not None:
                raise self._error(start, f"the operation '{name}' has no options")
            self._nested(name, start, path)
        elif name in self.pipelines:
            if path not in ((), (MODULE,)):
                message = f"pipeline '{name}' anchored on '{MODULE}' added to pipeline anchored on '{path[-1]}'"
                raise self._error(start, message)
            with self._place_errors(start):
                self.passes += self.pipelines[name](braces[1] if braces else "")
        else:
            with self._place_errors(start):
                entry = self.lookup(name)
            item = self._construct(entry, start, braces)
            if path and item.anchor not in ("", path[-1]):
                message = f"pass '{name}' anchored on '{item.anchor}' added to pipeline anchored on '{path[-1]}'"
                raise self._error(start, message)
            item.path = path
            self.passes.append(item)

    def _braces(self) -> tuple[int, str]:
        """The start of the text in braces, and the text; values of options may have braces as well."""
        depth = 0
        for match in re.compile("[{}]").finditer(self.text, self.at):
            depth += 1 if match[0] == "{" else -1
            if depth == 0:
                start, self.at = self.at + 1, match.end()
                return start, self.text[start : match.start()]
        raise self._error(self.at, "expected '}' after the options")

    def _nested(self, name: str, start: int, path: tuple[str, ...]) -> None:
        op_class = lookup_operation(name)
        if op_class is None:
            raise self._error(start, f"unknown pipeline anchor '{name}'")
        if not op_class.has_trait(IsolatedFromAbove):
            raise self._error(start, "nested pipeline anchor must be IsolatedFromAbove")
        around = lookup_operation(path[-1]) if path else None
        # Modules of kernels contain functions; the parent of any other module is a builtin.module.
        module = op_class.has_trait(SymbolTable)
        if around is not None and (not around.has_trait(SymbolTable) or module and path[-1] != MODULE):
            raise self._error(start, f"'{name}' cannot stand in '{path[-1]}', on which the pipeline is anchored")
        opened = self.at
        self.at += 1
        if self._peek() != ")":
            self._list((*path, name))
        if self._peek() != ")":
            raise self._error(opened, f"expected ')' after the passes of '{name}'")
        self.at += 1

    def _construct(self, pass_class: type[Pass], start: int, braces: tuple[int, str] | None) -> Pass:
        options: dict[str, Any] = {}
        inside, text = braces or (start, "")
        for word in re.finditer(r"(?:\{[^{}]*\}|\S)+", text):
            key, result, value = word[0].partition("=")
            if not key:
                raise self._error(inside + word.start(), f"expected the name of an option at '{word[0]}'")
            if value in ("true", "false") or not result:
                options[key] = value != "false"
            else:
                options[key] = int(value) if re.fullmatch(r"-?[0-9]+", value) else value
            at = inside + word.start()
            if value.startswith("{"):
                for field in re.finditer(r"[^\s{}]+", value):
                    with self._place_errors(at + len(key) + 1 + field.start()):
                        pass_class(**{key: field[0]})
            with self._place_errors(at):
                pass_class(**{key: options[key]})
        with self._place_errors(start):
            return pass_class(**options)
