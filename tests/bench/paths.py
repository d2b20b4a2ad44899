"""Part "paths": tunnels and their upper bound, side by side (setting.py). TCP is measured with each
of figures.CONGESTION_CONTROLS."""
import figures
import tables
from setting import BOUND, Setting

SECONDS = 4  # of a stream: loss-based congestion control takes the first second to fill the path

# Tables and plots: name, first word of their figures.
GROUPS = (("paths", ("TCP", "CPU")), ("paths-others", (str(figures.STREAMS), "UDP", "RTT")))


def measure(options):
    with Setting(options.programs / "tests" / "bench_tun_pump") as setting:
        paths = [setting.veth(), setting.vxlan(), setting.pump(), setting.fastd(),
                 *setting.variants()]
        default = figures.default_congestion_control(paths[0])
        measured = figures.measure(paths, options.rounds, options.seconds,
                                   [*figures.with_each_control(paths[0]), *figures.OTHERS])
    return {"bound": BOUND, "rounds": options.rounds, "seconds": options.seconds,
            "default": default, "paths": measured}


def grouped(measured):
    """Yields (name, results of that group)."""
    for name, words in GROUPS:
        yield name, {**measured, "paths": {
            path: {figure: values for figure, values in of_path.items()
                   if figure.split()[0] in words}
            for path, of_path in measured["paths"].items()}}


def text(measured):
    default = measured["default"]
    return "\n".join(tables.ratios(group) for _, group in grouped(measured)) + (
        "\nThe columns name the congestion control of TCP: `cubic` is the default of most machines, "
        f"`{default}` that of the measured one.\n"
        + tables.medians(measured))


def pictures(measured, plots):
    return {name: plots.ratios(group) for name, group in grouped(measured)}
