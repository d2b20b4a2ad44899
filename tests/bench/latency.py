"""Part "latency": round-trip times of messages (latency/latency_bench.cpp), on verbs directly and
through the daemon, with one option varied at a time."""
import json
import os
import pathlib
import subprocess
import sys

import tables
from setting import Setting

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
from softib_subnet import Subnet  # noqa: E402

# The values of each option; the first one is the baseline.
UDP = {"poll": ("event", "busy"), "burst": (1, 8, 64), "pause": (0, 100, 1000),
       "size": (64, 1024, 2000)}
VERBS = {**UDP, "inline": ("no", "yes"), "signal": (1, 16)}
BASELINE = "baseline"


def variations(values):
    """Yields (name, {option: value}): the baseline, then each other value of each option."""
    first = {option: choices[0] for option, choices in values.items()}
    yield BASELINE, first
    for option, choices in values.items():
        for value in choices[1:]:
            yield f"{option} {value}", {**first, option: value}


def arguments(options):
    out = []
    for option, value in options.items():
        if option != "inline":
            out += [f"--{option}", str(value)]
        elif value == "yes":
            out.append("--inline")
    return out


def exchange(program, transport, server, client, options, peer=None, environment=None):
    """Returns the client's result; `server` and `client` are command prefixes, e.g. ip netns exec."""
    common = arguments(options)
    running = subprocess.Popen([*server, program, transport, "server", *common], text=True,
                               stdout=subprocess.PIPE, env=environment)
    try:
        address = running.stdout.readline().strip()
        done = subprocess.run([*client, program, transport, "client", "--peer", peer or address,
                               *common], check=True, text=True, stdout=subprocess.PIPE,
                              env=environment)
        return json.loads(done.stdout)
    finally:
        running.terminate()
        running.wait()
        running.stdout.close()


def measure_verbs(program, softib, seconds):
    with Subnet(softib, "--log", "warning") as subnet:
        return {name: exchange(program, "verbs", subnet.command("server"), subnet.command("client"),
                               {**options, "seconds": seconds}, environment=subnet.environment)
                for name, options in variations(VERBS)}


def measure_path(program, path, seconds):
    with path.running():
        return {name: exchange(program, "udp", ["ip", "netns", "exec", path.far],
                               ["ip", "netns", "exec", path.namespace],
                               {**options, "seconds": seconds}, peer=path.address)
                for name, options in variations(UDP)}


def measure(options):
    program = os.fspath(options.programs / "tests" / "bench_latency")
    measured = {"verbs": measure_verbs(program, options.programs / "bin" / "softib",
                                       options.seconds)}
    with Setting(options.programs / "tests" / "bench_tun_pump") as setting:
        paths = [setting.veth(), setting.pump(), *setting.variants()]
        for path in paths:
            path.stop()
        for path in paths:
            measured[path.name] = measure_path(program, path, options.seconds)
    return measured


def text(measured):
    def cell(times):
        if times is None:
            return "-"
        low, middle, high = (tables.number(times[name] / 1e3) for name in ("p10", "median", "p90"))
        return f"{middle} ({low} to {high})"

    return tables.table(["us", *measured],
                        [[name, *(cell(path.get(name)) for path in measured.values())]
                         for name, _ in variations(VERBS)])


def pictures(measured, plots):
    panels = {}
    for option, choices in VERBS.items():
        panels[option] = {
            path: [(value, rows.get(f"{option} {value}", rows[BASELINE])) for value in choices]
            for path, rows in measured.items() if f"{option} {choices[1]}" in rows}
    lines = {path: rows[BASELINE] for path, rows in measured.items()}
    return {"latency": plots.medians(panels), "latency-histograms": plots.histograms(
        {**lines, "verbs, poll busy": measured["verbs"]["poll busy"]})}
