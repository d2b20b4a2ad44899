"""Part "costs": microbenchmarks of single parts of the data path."""
import json
import re
import subprocess

import tables

GOOGLE_BENCHMARKS = ("bench_link", "bench_offload", "bench_ring", "bench_trace")
ARGUMENTS = ("--benchmark_format=json", "--benchmark_filter=-^memory")
UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def nanoseconds(row):
    """Returns CPU time per item if a run has several items, else per run."""
    if "items_per_second" in row:
        return 1e9 / row["items_per_second"]
    return row["cpu_time"] * UNITS[row["time_unit"]]


def measure(options):
    rows = []
    for program in GOOGLE_BENCHMARKS:
        output = subprocess.run([options.programs / "tests" / program, *ARGUMENTS],
                              check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        rows += [{"name": row["name"].removesuffix("/manual_time"), "ns": nanoseconds(row)}
                 for row in json.loads(output.stdout)["benchmarks"]]
    output = subprocess.run([options.programs / "tests" / "bench_wire"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    rows += [{"name": f"wire/{row[1]}/{row[2]}", "ns": float(row[3])} for row in
             re.finditer(r"^(\d+) bytes, batches of (\d+): .* (\d+) ns", output, re.M)]
    return rows


def text(measured):
    return tables.table(["what", "ns of CPU"],
                        [[row["name"], tables.number(row["ns"])] for row in measured])


def pictures(*_):
    return {}
