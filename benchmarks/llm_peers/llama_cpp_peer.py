"""llama.cpp's own server on a GGUF file, one thread, asked over HTTP.

    python -m benchmarks.llm_peers.llama_cpp_peer SERVER FILE

CPU seconds are the server's alone: what this client spends is not llama.cpp's.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from typing import Any

from benchmarks.cpu import descendants, process_cpu_seconds
from benchmarks.llm_peers.worker import Peer, Prompt, run

HOST = "127.0.0.1"
SLOTS, CONTEXT = 16, 1024
START_SECONDS = 120


class LlamaCpp(Peer):
    """16 slots, continuous batching (its default), no prompt cache."""

    def __init__(self, server: str, file: str) -> None:
        self._server, self._file = server, file

    async def start(self) -> None:
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            self._port = probe.getsockname()[1]
        size = ["--parallel", str(SLOTS), "--ctx-size", str(SLOTS * CONTEXT)]
        one = ["--threads", "1", "--threads-batch", "1", "--threads-http", "2"]
        command = [self._server, "--model", self._file, "--host", HOST, "--port", str(self._port), *size, *one]
        silent = {"stdout": asyncio.subprocess.DEVNULL, "stderr": asyncio.subprocess.DEVNULL}
        self._process = await asyncio.create_subprocess_exec(*command, **silent)
        await asyncio.wait_for(self._ready(), START_SECONDS)

    async def _ready(self) -> None:
        while not await self._healthy():
            if self._process.returncode is not None:
                raise RuntimeError(f"llama-server ended with {self._process.returncode}")
            await asyncio.sleep(0.1)

    async def _healthy(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection(HOST, self._port)
        except OSError:
            return False
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        status = await reader.readline()
        writer.close()
        return b" 200 " in status

    def versions(self) -> str:
        told = subprocess.run([self._server, "--version"], capture_output=True, text=True, check=False)
        words = (told.stdout + told.stderr).split()
        return f"llama.cpp build {words[words.index('version:') + 1]}" if "version:" in words else "llama.cpp"

    async def stream(self, prompt: Prompt, count: int) -> AsyncGenerator[list[int], None]:
        reader, writer = await self._ask(prompt, count, stream=True)
        try:
            async for line in reader:
                if line.startswith(b"data: {"):
                    event = json.loads(line[6:])
                    if event["tokens"]:
                        yield event["tokens"]
                    if event.get("stop"):
                        return
        finally:
            writer.close()  # leaving frees the slot

    async def _whole(self, prompt: Prompt, count: int) -> list[int]:
        """Without streaming, which only costs."""
        reader, writer = await self._ask(prompt, count, stream=False)
        document = (await reader.read()).partition(b"\r\n\r\n")[2]
        writer.close()
        tokens: list[int] = json.loads(document)["tokens"]
        return tokens

    async def _ask(self, prompt: Prompt, count: int, *, stream: bool) -> tuple[Any, asyncio.StreamWriter]:
        body = json.dumps(
            {
                "prompt": list(prompt),
                "n_predict": count,
                "temperature": 0,
                "samplers": ["temperature"],
                "ignore_eos": True,
                "cache_prompt": False,
                "return_tokens": True,
                "stream": stream,
            }
        ).encode()
        reader, writer = await asyncio.open_connection(HOST, self._port, limit=2**24)
        head = f"POST /completion HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
        return reader, writer

    def cpu_seconds(self) -> float:
        return sum(process_cpu_seconds(pid) for pid in descendants(os.getpid()))

    async def close(self) -> None:
        self._process.terminate()
        await self._process.wait()


if __name__ == "__main__":
    run(LlamaCpp(*sys.argv[1:]))
