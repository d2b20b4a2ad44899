"""Plots of the results. The same results always give the same bytes."""
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
    """Draws a bar per path and figure: the ratio of the median to the bound's, and the range of rounds."""
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


def medians(panels):
    """Draws {option: {path: [(value, times)]}}: a panel per option, medians with the 10th to 90th
    percentile."""
    figure, axes = pyplot.subplots(1, len(panels) + 1, sharey=True,
                                   figsize=(2.3 * len(panels) + 1.5, 4))
    colours = {path: f"C{number}" for number, path in enumerate(next(iter(panels.values())))}
    for axis, (option, paths) in zip(axes, panels.items()):
        for number, (path, points) in enumerate(paths.items()):
            at = [slot + 0.8 * ((number + 0.5) / len(paths) - 0.5) for slot in range(len(points))]
            middle = [times["median"] / 1e3 for _, times in points]
            spread = [[(times["median"] - times["p10"]) / 1e3 for _, times in points],
                      [(times["p90"] - times["median"]) / 1e3 for _, times in points]]
            axis.errorbar(at, middle, yerr=spread, fmt="o", markersize=3, capsize=2, label=path,
                          color=colours[path])
        values = [value for value, _ in next(iter(paths.values()))]
        axis.set_xticks(range(len(values)), values)
        axis.set_title(option)
    axes[0].set_yscale("log")
    axes[0].set_ylabel("round trip, us: median, 10 % to 90 %")
    axes[-1].axis("off")
    axes[-1].legend(*axes[0].get_legend_handles_labels(), loc="center", frameon=False)
    return figure


def histograms(times):
    """Draws {name: result of a client} as the share of messages in each bucket."""
    figure, axis = pyplot.subplots(figsize=(8, 3.5))
    for name, result in times.items():
        shown = [(least / 1e3, 100 * count / result["messages"])
                 for least, count in result["buckets"]]
        axis.step([least for least, _ in shown], [share for _, share in shown], where="post",
                  label=name, linewidth=1)
    axis.set_xscale("log")
    axis.set_xlabel("round trip, us")
    axis.set_ylabel("% of messages")
    axis.legend(frameon=False)
    return figure
