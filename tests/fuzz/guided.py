"""`make fuzz` where atheris is installed: inputs are drawn by bytes, which libFuzzer changes to reach new code.

`python -m tests.fuzz.guided TARGET SEED SECONDS FOLDER [FILE]`: for so long, with what is worth keeping in FOLDER; or
once with the bytes of FILE, which is how one that failed is repeated. Its exit code is not 0 where an input failed.
"""

import sys
from pathlib import Path
from random import Random
from typing import Self

import atheris

with atheris.instrument_imports(include=["allocator", "cel", "scheduler"]):
    from tests.fuzz.run import MEMORY, TARGETS

LONGEST = 4096  # bytes of an input


class DrawnFrom(Random):
    """Draws what the bytes say; after their end, as chance has it that follows from them."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._bits, self._left = int.from_bytes(data, "little"), 8 * len(data)

    def __new__(cls, _: bytes) -> Self:
        """As one without a seed, which takes no bytes from its own class."""
        return super().__new__(cls)

    def getrandbits(self, k: int, /) -> int:
        """The next bits."""
        if self._left < k:
            return super().getrandbits(k)
        found, self._bits, self._left = self._bits & ((1 << k) - 1), self._bits >> k, self._left - k
        return found

    def random(self) -> float:
        """A number in [0, 1)."""
        return self.getrandbits(53) / (1 << 53)


def main() -> None:
    """The program."""
    name, seed, seconds, folder, *files = sys.argv[1:]
    target = TARGETS[name]

    def one(data: bytes) -> None:
        target.is_taken(target.draw(DrawnFrom(data)))

    Path(folder).mkdir(parents=True, exist_ok=True)
    limits = {"max_total_time": round(float(seconds)), "timeout": target.longest_s, "rss_limit_mb": MEMORY >> 20}
    sizes = {"max_len": LONGEST, "len_control": 0, "print_final_stats": 1}
    flags = {**limits, **sizes, "seed": seed, "artifact_prefix": f"{folder}/failed-"}
    atheris.Setup([sys.argv[0], *(f"-{key}={value}" for key, value in flags.items()), *(files or [folder])], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
