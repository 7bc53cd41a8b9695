"""A server of the HTTP cache protocol that delays replies, as a distant one does, and counts requests."""

from __future__ import annotations

import asyncio
import threading


class DelayingServer:
    """Answers each request `latency` seconds after its arrival, also if many are on their way.

    `closes_after` is the number of replies of a connection.  `round_trips` counts the times that a client waits: from
    the first request on its way until the last reply.  Clock and sockets are used by the loop alone: a function of this
    file that used them would count as a part of a module that is exported in the same process.
    """

    def __init__(self, latency: float, closes_after: int = 0) -> None:
        self.latency = latency
        self.closes_after = closes_after
        self.files: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.round_trips = 0
        self._under_way = 0
        self._loop = asyncio.new_event_loop()

        async def listen() -> None:
            server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(listen(), self._loop).result(10)

    def reset(self) -> None:
        self.requests.clear()
        self.round_trips = 0

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _end(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sender = asyncio.create_task(self._send(waiting, writer))
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                method, path, _ = head[0].split(" ")
                length = next((int(line[15:]) for line in head if line.lower().startswith("content-length:")), 0)
                body = await reader.readexactly(length)
                self.requests.append(f"{method} {path}")
                if self._under_way == 0:
                    self.round_trips += 1
                self._under_way += 1
                waiting.put_nowait((self._loop.time() + self.latency, self._answer(method, path, body)))
        except (asyncio.IncompleteReadError, ConnectionError):
            waiting.put_nowait((0.0, b""))
            await sender

    def _answer(self, method: str, path: str, body: bytes) -> bytes:
        if method == "PUT":
            self.files[path] = body
            return b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
        entry = self.files.get(path)
        status = b"404 Not Found" if entry is None else b"200 OK"
        return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, len(entry or b"")) + (entry or b"")

    async def _send(self, waiting: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        sent = 0
        while True:
            due, reply = await waiting.get()
            if not reply:
                return
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            sent += 1
            self._under_way -= 1
            writer.write(reply)
            if sent == self.closes_after:
                writer.close()
                self._under_way -= waiting.qsize()
                return
