"""A process that occupies a port: `python attacker.py PORT NUMBER plain|tls`, with what to send on standard input.

So many connections are open at the same time, on each of which the text was sent; one that is closed is replaced. Says
`begun` when all were opened once, and goes on until it is killed.
"""

import asyncio
import ssl
import sys
from contextlib import suppress

PAUSE_S = 0.2
"""Before a connection is replaced: an attacker has no more time than the machine."""


async def attack(port: int, number: int, text: bytes, *, is_secure: bool) -> None:
    """Attack until cancelled."""
    tls = None
    if is_secure:
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    opened = 0

    async def occupy() -> None:
        nonlocal opened
        while True:
            with suppress(OSError, EOFError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
                writer.write(text)
                opened += 1
                if opened == number:
                    sys.stdout.write("begun\n")
                    sys.stdout.flush()
                while await reader.read(1 << 16):
                    pass
                writer.close()
            await asyncio.sleep(PAUSE_S)

    await asyncio.gather(*(occupy() for _ in range(number)))


if __name__ == "__main__":
    _, port_, number_, how = sys.argv
    asyncio.run(attack(int(port_), int(number_), sys.stdin.buffer.read(), is_secure=how == "tls"))
