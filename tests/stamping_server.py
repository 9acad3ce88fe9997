"""A server whose events carry the time at which they were written: what a client adds to each can be seen.

python tests/stamping_server.py EVENTS GAP_S      prints its port; serves until it is killed
"""

from __future__ import annotations

import asyncio
import sys
import time

PADDING = "x" * 200
"""So that an event is as long as vLLM's."""


async def serve(events: int, gap_s: float) -> None:
    """Answer every request with so many events, so far apart."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(events):
            await asyncio.sleep(gap_s)
            data = f'data: {{"at": {time.perf_counter()}, "padding": "{PADDING}"}}\n\n'.encode()
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
