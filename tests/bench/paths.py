"""Part "paths": tunnels and their upper bound, side by side (setting.py)."""
import figures
import tables
from setting import BOUND, Setting


def measure(options):
    with Setting(options.programs / "tests" / "bench_tun_pump") as setting:
        paths = [setting.veth(), setting.vxlan(), setting.pump(), setting.fastd(),
                 *setting.variants()]
        measured = figures.measure(paths, options.rounds, options.seconds)
    return {"bound": BOUND, "rounds": options.rounds, "seconds": options.seconds,
            "paths": measured}


def text(measured):
    return tables.ratios(measured)


def pictures(measured, plots):
    return {"paths": plots.ratios(measured)}
