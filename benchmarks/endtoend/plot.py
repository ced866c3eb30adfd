"""Bound pods over time: start-up, slope and how even it is, all contenders beside each other."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.endtoend.figures import Run


def plot(runs: Sequence[Run], names: Mapping[str, str], path: Path) -> None:
    """Write one panel for each size and kind of pods, one curve for each run, as one SVG.

    names: of the contenders, by column.
    """
    mpl.use("svg")
    panels = list(dict.fromkeys((run.size, run.asks) for run in runs))
    figure, axes = plt.subplots(1, len(panels), figsize=(4 * len(panels), 3.6), squeeze=False)
    for axis, (size, asks) in zip(axes[0], panels, strict=True):
        for index, (column, name) in enumerate(names.items()):
            curves = [run.bound_s for run in runs if (run.size, run.asks, run.column) == (size, asks, column)]
            for number, times in enumerate(curves):
                label = "" if number else name
                axis.plot(times, range(1, len(times) + 1), color=f"C{index}", alpha=0.7, label=label or "_nolegend_")
        axis.set_title(f"{size}\n{asks}")
        axis.set_xlabel("s since the program's start")
        axis.set_ylim(bottom=0)
        axis.grid(visible=True, alpha=0.3)
    axes[0][0].set_ylabel("bound pods")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
