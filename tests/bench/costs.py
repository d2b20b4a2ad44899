"""Part "costs": what parts of the data path cost alone, by microbenchmarks."""
import json
import re
import subprocess

import tables

GOOGLE_BENCHMARKS = ("bench_link", "bench_offload", "bench_ring", "bench_trace")
ARGUMENTS = ("--benchmark_format=json", "--benchmark_filter=-^memory")
UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def nanoseconds(row):
    """Of CPU for each item, where a run has several, else for each run."""
    if "items_per_second" in row:
        return 1e9 / row["items_per_second"]
    return row["cpu_time"] * UNITS[row["time_unit"]]


def measure(options):
    rows = []
    for program in GOOGLE_BENCHMARKS:
        said = subprocess.run([options.programs / "tests" / program, *ARGUMENTS],
                              check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        rows += [{"name": row["name"].removesuffix("/manual_time"), "ns": nanoseconds(row)}
                 for row in json.loads(said.stdout)["benchmarks"]]
    said = subprocess.run([options.programs / "tests" / "bench_wire"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    rows += [{"name": f"wire/{row[1]}/{row[2]}", "ns": float(row[3])} for row in
             re.finditer(r"^(\d+) octets, batches of (\d+): .* (\d+) ns", said, re.M)]
    return rows


def text(measured):
    return tables.table(["what", "ns of CPU"],
                        [[row["name"], tables.number(row["ns"])] for row in measured])


def pictures(*_):
    return {}
