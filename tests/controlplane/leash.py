"""Runs a program that ends when its owner does: `python leash.py GRACE_S PROGRAM ARGUMENT...`.

The owner holds the other end of this process's standard input. When it closes that end, or is gone without a word
(kill -9 included), the program gets SIGTERM, and SIGKILL after the grace; where the owner has written the word for it,
SIGKILL at once. The exit code is the program's, or 256 less the signal that ended it. So no orphan is left behind, and
nothing is ever ended by its name or by a number that somebody else may have by then.
"""

import os
import subprocess
import sys
import threading

AT_ONCE = b"9"


def main() -> int:
    """Run the program until it ends or the owner lets go."""
    program = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)
    threading.Thread(target=_end_when_let_go, args=(program, float(sys.argv[1])), daemon=True).start()
    return program.wait() % 256


def _end_when_let_go(program: "subprocess.Popen[bytes]", grace_s: float) -> None:
    # Unbuffered: a thread inside a buffered read would keep the interpreter from exiting.
    if os.read(0, 1) == AT_ONCE:
        program.kill()
        return
    program.terminate()
    try:
        program.wait(grace_s)
    except subprocess.TimeoutExpired:
        program.kill()


if __name__ == "__main__":
    sys.exit(main())
