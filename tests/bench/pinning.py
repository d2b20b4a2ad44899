"""Part "pinning": two ipoibd whose interface threads are pinned to CPUs (--cpu), beside two whose
threads the kernel's scheduler places.

All other threads of the machine, as those of iperf3, stay where the scheduler puts them.
"""
import os

import figures
import tables
from setting import Setting

SECONDS = 4  # as in the part "paths"
BOUND = "not pinned"


def variants(cpus):
    """Yields name and the options of the two daemons."""
    yield BOUND, (), ()
    for kind in ("adaptive", "event"):
        poll = ("--poll", kind)
        if kind != "adaptive":
            yield f"{BOUND}, {kind}", poll, poll
        if len(cpus) > 1:
            yield (f"on two CPUs, {kind}",
                   *((*poll, "--cpu", str(cpu)) for cpu in (cpus[0], cpus[1])))
        yield f"on one CPU, {kind}", *(2 * ((*poll, "--cpu", str(cpus[0])),))


def measure(options):
    cpus = sorted(os.sched_getaffinity(0))
    with Setting(None) as setting:
        paths = [setting.ipoibd(name, 2048, *of_each) for name, *of_each in variants(cpus)]
        of_one_stream = [each for each in figures.with_each_control(paths[0])
                         if each.func is figures.tcp]
        measured = figures.measure(paths, options.rounds, options.seconds,
                                   [*of_one_stream, figures.udp_1400, figures.ping])
    return {"bound": BOUND, "rounds": options.rounds, "seconds": options.seconds,
            "CPUs": len(cpus), "paths": measured}


def text(measured):
    return (tables.ratios(measured) + f"\nOn {measured['CPUs']} CPUs, with --poll adaptive unless the "
            "name says otherwise. " + tables.medians(measured))


def pictures(*_):
    return {}
