"""A headless Chromium without a network, driven over its DevTools protocol: pages from disk, their console, scripts.

The protocol goes over a pair of pipes (`--remote-debugging-pipe`), JSON messages that each end in a NUL, so that no
other program and no port takes part.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--disable-dev-shm-usage", "--remote-debugging-pipe",
    # All names and addresses are refused: a request of the page is an error in its console.
    "--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9",
)  # fmt: skip


_START = """
import os, sys
# The browser reads descriptor 3 and writes descriptor 4; neither may be closed before both are moved.
ends = [os.dup(os.dup(os.dup(int(end)))) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def program() -> str | None:
    """The path of a Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


class Browser:
    """One browser with one page; `console` has the errors and warnings of the page."""

    def __init__(self, profile: Path, dark: bool = False) -> None:
        path = program()
        assert path is not None
        commands, self._commands = os.pipe()
        self._replies, replies = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(commands), str(replies), path, *FLAGS, f"--user-data-dir={profile}",
             "about:blank"],
            pass_fds=(commands, replies), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(commands)
        os.close(replies)
        self._pending = b""
        self._number = 0
        self._session: str | None = None
        self.console: list[str] = []
        self.requests: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self._call("Emulation.setDeviceMetricsOverride", width=1500, height=1000, deviceScaleFactor=1, mobile=False)
        if dark:
            self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])

    def open(self, path: Path) -> None:
        """Loads a file, until its `load` event."""
        self.console.clear()
        self.requests.clear()
        self._loaded = False
        self._call("Page.navigate", url=path.resolve().as_uri())
        while not self._loaded:
            self._note(self._receive())

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page; raises RuntimeError with the exception that the expression threw."""
        result = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:2000])
        return result["result"].get("value")

    def click(self, selector: str) -> None:
        """Click in the middle of the first element that a selector matches, scrolled into view."""
        place = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            " return [b.left + Math.min(b.width / 2, 60), b.top + b.height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def key(self, name: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def screenshot(self, path: Path) -> None:
        data = self._call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        self._session = None
        try:
            self._send("Browser.close", {})
            self._process.wait(20)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._replies)

    # ---- the protocol ------------------------------------------------------------------------------------------------

    def _send(self, method: str, parameters: dict[str, Any]) -> int:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        return self._number

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = self._send(method, parameters)
        while True:
            message = self._receive()
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            data = os.read(self._replies, 1 << 16)
            if not data:
                raise RuntimeError("the browser is gone")
            self._pending += data
        message, _, self._pending = self._pending.partition(b"\0")
        return json.loads(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, result = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.console.append(str(result["exceptionDetails"].get("exception", result["exceptionDetails"])))
        elif method == "Runtime.consoleAPICalled" and result["type"] in ("error", "warning", "assert"):
            self.console.append(str(result["args"]))
        elif method == "Log.entryAdded" and result["entry"]["level"] in ("error", "warning"):
            self.console.append(result["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(result["request"]["url"])
