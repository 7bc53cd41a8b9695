"""The language server: a session of an editor with the process, and the diagnostics of a document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CHECKOUT = EXAMPLES.parent


class Editor:
    """The client's side of a session (Language Server Protocol 3.17, "Base Protocol")."""

    def __init__(self, *words: str) -> None:
        command = [sys.executable, "-m", "tileiras", "language-server", *words]
        environment = {
            **os.environ, "PYTHONPATH": str(CHECKOUT), "TILEIRAS_CACHE_DIR": "off", "TILEIRAS_SERVER": "off",
        }  # fmt: skip
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        self.watchdog = threading.Timer(120, self.process.kill)
        self.watchdog.start()
        self.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        self.tell("initialized", {})

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self.process.stdin.flush()

    def tell(self, method: str, params: Any) -> None:
        self._send({"method": method, **({} if params is None else {"params": params})})

    def ask(self, method: str, params: Any) -> Any:
        self._send({"id": 1, "method": method, **({} if params is None else {"params": params})})
        while True:
            message = self.read()
            if message.get("id") == 1:
                return message["result"]

    def read(self) -> dict[str, Any]:
        size = 0
        while line := self.process.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        return json.loads(self.process.stdout.read(size))

    def diagnostics(self) -> list[dict[str, Any]]:
        while True:
            message = self.read()
            if message.get("method") == "textDocument/publishDiagnostics":
                return message["params"]["diagnostics"]

    def open(self, text: str) -> list[dict[str, Any]]:
        document = {"uri": "file:///k.mlir", "languageId": "mlir", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})
        return self.diagnostics()

    def change(self, text: str) -> list[dict[str, Any]]:
        params = {"textDocument": {"uri": "file:///k.mlir", "version": 2}, "contentChanges": [{"text": text}]}
        self.tell("textDocument/didChange", params)
        return self.diagnostics()

    def close(self) -> int:
        self.ask("shutdown", None)
        self.tell("exit", None)
        return self.process.wait(timeout=60)

    def end(self) -> None:
        self.watchdog.cancel()
        self.process.kill()


def test_a_session_shows_errors_while_they_are_there():
    text = (EXAMPLES / "saxpy.mlir").read_text()
    editor = Editor()
    try:
        assert editor.open(text) == []
        name = next(word for word in text.split() if word.startswith("%") and f"{word} = " in text)
        broken = text.replace(f"{name} = ", "%other = ", 1)
        (error, *_) = editor.change(broken)
        line, start = error["range"]["start"]["line"], error["range"]["start"]["character"]
        assert error["severity"] == 1 and error["source"] == "tileiras" and "undeclared" in error["message"]
        assert broken.splitlines()[line][start : error["range"]["end"]["character"]] == name
        assert editor.change(text) == []
        assert editor.close() == 0
    finally:
        editor.end()


def test_a_target_adds_the_diagnostics_of_the_compilation():
    editor = Editor("--gpu-name=sm_90")
    try:
        result = editor.open((EXAMPLES / "saxpy.mlir").read_text())
        assert result and {each["severity"] for each in result} == {3}  # remarks
        call = "cuda_tile.module @m {\n  entry @k() {\n    preview$call @f() : () -> ()\n    return\n  }\n}\n"
        first, *_ = editor.open(call)
        assert first["severity"] == 1 and first["range"]["start"] == {"line": 2, "character": 4}
        assert editor.close() == 0
    finally:
        editor.end()
