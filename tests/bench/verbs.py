"""Part "verbs": the receive rate of perftest's ib_send_bw between two emulated HCAs."""
import pathlib
import re
import statistics
import sys

import tables

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
from softib_subnet import Subnet, play  # noqa: E402

SIZES = {2048: (2048, 64), 4096: (4096, 64)}  # by the subnet's MTU
POSTED = {"one by one": (), "in lists of 16": ("--post_list", "16")}


def parse(output):
    """Returns Gb/s and millions of messages per second from the row below the headings."""
    row = re.search(r"^ *\d+ +\d+ +[\d.]+ +([\d.]+)\s+([\d.]+)", output, re.M)
    if row is None:
        raise SystemExit(f"ib_send_bw printed no result:\n{output}")
    return float(row[1]), float(row[2])


def measure(options):
    rows = []
    for mtu, sizes in SIZES.items():
        with Subnet(options.programs / "bin" / "softib", "--mtu", str(mtu), "--log",
                    "warning") as subnet:
            for size in sizes:
                for posted, more in POSTED.items():
                    runs = [parse(play(subnet, "ib_send_bw", "-c", "UD", "--report_gbits", "-s",
                                       str(size), "-D", str(options.seconds), "-f", "0", *more)[0])
                            for _ in range(options.rounds)]
                    rows.append({"mtu": mtu, "size": size, "posted": posted,
                                 "Gb/s": [run[0] for run in runs],
                                 "Mmsg/s": [run[1] for run in runs]})
    return rows


def text(measured):
    return tables.table(
        ["ib_send_bw -c UD, posted", "MTU", "bytes", "Gb/s", "million messages/s"],
        [[row["posted"], row["mtu"], row["size"], tables.number(statistics.median(row["Gb/s"])),
          tables.number(statistics.median(row["Mmsg/s"]))] for row in measured])


def pictures(*_):
    return {}
