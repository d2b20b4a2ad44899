"""What was measured, as pictures; made anew from the same figures, they are the same octets."""
import statistics

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "ipoibd", "svg.fonttype": "none", "font.size": 9,
                            "axes.spines.top": False, "axes.spines.right": False,
                            "figure.constrained_layout.use": True})
from matplotlib import pyplot  # noqa: E402

LESS_IS_BETTER = ("CPU", "RTT")


def save(figure, path):
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def ratios(measured):
    """A bar for each path and figure: the median's ratio to the bound's, and the rounds' spread."""
    paths, bound = measured["paths"], measured["paths"][measured["bound"]]
    names = list(bound)
    figure, axes = pyplot.subplots(1, len(names), sharey=True, squeeze=False,
                                   figsize=(2.2 * len(names), 0.9 + 0.3 * len(paths)))
    for axis, name in zip(axes[0], names):
        one = statistics.median(bound[name])
        rows = [(at, [value / one for value in figures[name]])
                for at, figures in enumerate(paths.values()) if name in figures]
        middle = [statistics.median(values) for _, values in rows]
        spread = [[at - min(values) for at, (_, values) in zip(middle, rows)],
                  [max(values) - at for at, (_, values) in zip(middle, rows)]]
        axis.barh([at for at, _ in rows], middle, xerr=spread, height=0.6, color="#7a9cc6",
                  ecolor="#333333", capsize=2)
        axis.axvline(1, color="#aa3333", linewidth=1)
        axis.set_title(name + ("\n(less is better)" if name.startswith(LESS_IS_BETTER) else "\n"))
    axes[0][0].set_yticks(range(len(paths)), list(paths))
    axes[0][0].invert_yaxis()
    figure.supxlabel(f"ratio to {measured['bound']}, median and range of the rounds")
    return figure
