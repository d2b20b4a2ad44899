"""The time to build programs and tests from a fresh clone, and the sources that cost most.

Without compiler cache, and with the linker of the compiler, whatever is installed.
"""
import collections
import os
import pathlib
import re
import resource
import subprocess
import tempfile
import time

import tables

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGURE = ("cmake", "--preset", "release", "-Wno-dev", "-D", "IPOIB_CCACHE=OFF",
             "-D", "IPOIB_MOLD=OFF", "-B")
# A step of the build, and the targets that the steps before have not built.
STEPS = (("programs", ("programs",)), ("tests", ()))
MOST_EXPENSIVE = 10


def timed(command):
    """Runs a command in the project's folder; returns its wall and CPU time in seconds."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return {"wall": wall, "CPU": sum(getattr(after, kind) - getattr(before, kind)
                                     for kind in ("ru_utime", "ru_stime"))}


def compilations(log):
    """Returns {object: wall time in seconds} from the text of a .ninja_log."""
    found = {}
    for line in log.splitlines()[1:]:
        begin, end, _, output, *_ = line.split("\t")
        if output.endswith(".o"):
            found[output] = (int(end) - int(begin)) / 1000
    return found


def source(output):
    """Returns the source of an object; merged sources are numbered."""
    folder, target, rest = re.fullmatch(r"(.*)/CMakeFiles/(.*?)\.dir/(.*)\.o", output).groups()
    merged = re.fullmatch(r"Unity/unity_(\d+)_c(?:xx)?\.cx?x?", rest)
    return f"{target}, merged source {merged[1]}" if merged else f"{folder}/{rest}"


def measure(_):
    with tempfile.TemporaryDirectory(prefix="ipoibd-build-") as folder:
        steps = {"configure": timed([*CONFIGURE, folder])}
        jobs = str(os.cpu_count())
        for name, targets in STEPS:
            steps[name] = timed(["cmake", "--build", folder, "--parallel", jobs,
                                 *(("--target", *targets) if targets else ())])
        log = (pathlib.Path(folder) / ".ninja_log").read_text(encoding="utf-8")
    by_time = collections.Counter({source(output): seconds
                                   for output, seconds in compilations(log).items()})
    return {"steps": steps, "processors": os.cpu_count(), "sources": len(by_time),
            "most expensive": dict(by_time.most_common(MOST_EXPENSIVE))}


def text(measured):
    steps = [[name, *(f"{times[kind]:.0f}" for kind in ("wall", "CPU"))]
             for name, times in measured["steps"].items()]
    sources = [[name, f"{seconds:.1f}"] for name, seconds in measured["most expensive"].items()]
    return (tables.table(["step", "wall s", "CPU s"], steps) +
            f"\nOn {measured['processors']} processors, one step after the other. "
            f"The most expensive of {measured['sources']} compilations, while others ran beside:\n\n" +
            tables.table(["source", "wall s"], sources))


def pictures(_, __):
    return {}
