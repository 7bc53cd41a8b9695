"""A server of Bazel's HTTP cache that refuses each request that its protocol does not allow.

`/cas/SHA256` has the bytes of that digest, `/ac/SHA256` an ActionResult whose output files are inline or in /cas
(https://bazel.build/remote/caching#http-caching).  A body that is cut off is not stored.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tileiras.build.store.messages import Damaged, output_file


class StrictServer:
    """`files` has the stored bytes by path, `wrong` the refused requests; a reply to a PUT waits `latency` seconds."""

    def __init__(self, latency: float = 0.0) -> None:
        self.latency = latency
        self.files: dict[str, bytes] = {}
        self.wrong: list[str] = []
        self.cut = 0
        """Bodies that were cut off."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:  # noqa: N802
                data = outer.files.get(self.path) if self._is_path() else None
                if data is None:
                    return self._reply(404)
                self._reply(200, data)

            do_HEAD = do_GET  # noqa: N815

            def do_PUT(self) -> None:  # noqa: N802
                size = int(self.headers.get("Content-Length", "0"))
                body = self.rfile.read(size)
                if not self._is_path() or "Content-Length" not in self.headers or "Host" not in self.headers:
                    return self._refuse("no path or no length")
                if len(body) < size:
                    outer.cut += 1
                    self.close_connection = True
                    return None
                why = outer.objection(self.path, body)
                if why:
                    return self._refuse(why)
                time.sleep(outer.latency)
                outer.files[self.path] = body
                return self._reply(201)

            def _is_path(self) -> bool:
                return re.fullmatch(r"/(ac|cas)/[0-9a-f]{64}", self.path) is not None

            def _refuse(self, why: str) -> None:
                outer.wrong.append(f"{self.command} {self.path}: {why}")
                self._reply(400)

            def _reply(self, status: int, data: bytes = b"") -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def objection(self, path: str, body: bytes) -> str:
        """The reason for refusing bytes; empty if they are what their path states."""
        _, kind, name = path.split("/")
        if kind == "cas":
            return "" if hashlib.sha256(body).hexdigest() == name else "another digest"
        try:
            file = output_file(body)
        except Damaged as error:
            return str(error)
        if file.contents is not None:
            sound = hashlib.sha256(file.contents).hexdigest() == file.digest and len(file.contents) == file.size
            return "" if sound else "inline bytes of another digest"
        return "" if f"/cas/{file.digest}" in self.files else "an output file that is not in /cas"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
