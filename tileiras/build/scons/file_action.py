"""The SCons action that writes files from artifacts of kernels: those that no stage makes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import SCons.Action

from tileiras.build.scons.sessions import session
from tileiras.diagnostics import CompileError
from tileiras.pipeline import Stage


class FileAction(SCons.Action.FunctionAction):
    """Writes the targets of a command; `row` names the modules of its code.

    Its signature consists of that code and of `facts(env)`, for the reason given in `StageAction`.
    """

    def __init__(self, row: Stage, write: Callable[[Any, Any, Any], int | None], facts: Callable[[Any], str]) -> None:
        """`write` takes targets, sources and the environment; it returns an exit code or raises CompileError."""
        self.row = row
        self._write = write
        self._facts = facts
        super().__init__(self._execute, {})

    def get_presig(self, target: Any, source: Any, env: Any, executor: Any = None) -> bytes:
        return f"tileiras:{self.row.name}:{session(env).code.fingerprint(self.row)}:{self._facts(env)}".encode()

    def strfunction(self, target: Any, source: Any, env: Any, executor: Any = None) -> str:
        return f"  {self.row.name.upper():<8} {target[0]}"

    def _execute(self, target: Any, source: Any, env: Any) -> int:
        try:
            return self._write(target, source, env) or 0
        except CompileError as error:
            sys.stderr.write(error.render() + "\n")
            return error.code
