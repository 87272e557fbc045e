"""A server that answers as llama-server or SGLang does, in steps of a fixed length.

Before each event it states when the event is due, in seconds since the request (": at 0.06"): on
its clock a client measures the same on every machine.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys

STEP_S = 0.02


async def serve(engine: str, port: int, k: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()
            writer.close()
            return
        lines = head.lower().split(b"\r\n")
        size = next(int(x.split(b":")[1]) for x in lines if x.startswith(b"content-length"))
        body = json.loads(await reader.readexactly(size))
        length = body.get("n_predict") or body["sampling_params"]["max_new_tokens"]
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

        def send(event: object) -> None:
            text = b": at %.9f\n\ndata: " % (STEP_S * cycles) + json.dumps(event).encode() + b"\n\n"
            writer.write(b"%x\r\n" % len(text) + text + b"\r\n")

        ids: list[int] = []
        cycles = 0
        while len(ids) < length:
            await asyncio.sleep(STEP_S)
            take = min(1 + (k if cycles else 0), length - len(ids))
            cycles += 1
            new = [random.randrange(300) for _ in range(take)]
            ids += new
            if engine == "llama-server":
                for one in new:
                    send({"tokens": [one], "stop": False})
            else:
                send({"output_ids": new, "meta_info": {"completion_tokens": len(ids)}})
            await writer.drain()
        if engine == "llama-server":
            timings = {"predicted_n": length, "predicted_ms": 1e3 * STEP_S * cycles}
            timings |= {"draft_n": k * (cycles - 1), "draft_n_accepted": length - cycles}
            send({"tokens": [], "stop": True, "timings": timings | {"prompt_n": 1}})
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
