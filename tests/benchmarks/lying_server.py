"""A peer's program for tests: answers x + 1, except that every fourth answer is the one before it, or a refusal.

python lying_server.py honest|wrong|refusing
"""

from __future__ import annotations

import asyncio
import os
import sys

import numpy as np

MANNER = sys.argv[1]


async def main() -> None:
    count, last = 0, b""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count, last
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            row = np.frombuffer(await reader.readexactly(length), np.float32)
            count += 1
            lie = MANNER != "honest" and count % 4 == 0
            answer = last if lie else (row + 1).astype(np.float32).tobytes()
            last = answer
            status = "429 Too Many Requests" if lie and MANNER == "refusing" else "200 OK"
            writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(answer)}\r\n\r\n".encode() + answer)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", int(os.environ["PEER_PORT"]))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
