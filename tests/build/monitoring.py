"""The monitor of builds, as seen by tests."""

from __future__ import annotations

import os
import time
from typing import Any

from tileiras.build.watch.monitor import client, endpoint


def facts(kind: bytes = endpoint.STATUS) -> dict[str, Any]:
    return client.facts(kind) or {"checkouts": []}


def stop() -> None:
    """End the monitor, and wait for it."""
    pid = facts(endpoint.STOP).get("pid")
    until = time.monotonic() + 20
    while pid is not None and os.path.exists(f"/proc/{pid}") and time.monotonic() < until:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
        time.sleep(0.02)
