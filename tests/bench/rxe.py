"""Part "rxe": perftest's programs between two emulated HCAs beside the same between two soft RDMA ports
of the kernel (rdma_rxe), in one virtual machine. The machine is emulated: only ratios count.

In the guest, this file is the program: rxe.py ROUNDS SECONDS FILE
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import tables
import verbs

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 240  # seconds for everything except the measurements
STREAMS = ("ib_write_bw", "ib_read_bw", "ib_send_bw")
DEVICES = {"a": "rxe0", "b": "rxe1"}  # by the names that verbs.play() gives two HCAs


def measure(options):
    limit = PATIENCE + options.rounds * 2 * len(STREAMS) * (options.seconds + 10)
    with tempfile.TemporaryDirectory(dir=options.programs) as folder:
        file = pathlib.Path(folder) / "measured.json"
        subprocess.run(
            [ROOT / "scripts" / "vm", "--infiniband", "--seconds", str(limit), "--", "env",
             f"IPOIB_BIN={options.programs}/bin", "PYTHONDONTWRITEBYTECODE=1", sys.executable,
             __file__, str(options.rounds), str(options.seconds), str(file)],
            check=True, cwd=ROOT)
        return json.loads(file.read_text(encoding="utf-8"))


def text(measured):
    rows = []
    for name in STREAMS:
        theirs, ours = (statistics.median(measured[of][name]) for of in ("rdma_rxe", "softib"))
        rows.append([name, tables.number(theirs), tables.number(ours), f"{ours / theirs:.1f}"])
    return (tables.table(["64 KiB, two processes", "rdma_rxe Gb/s", "softib Gb/s", "ratio"], rows)
            + f"\nMedians of {measured['rounds']} rounds of {measured['seconds']} s in one run.\n")


def pictures(*_):
    return {}


class SoftPorts:
    """The interface of Subnet that verbs.play() needs, for programs on ports of rdma_rxe."""

    @staticmethod
    def start(hca, program, *options, **more):
        return subprocess.Popen([program, "-d", DEVICES[hca], *options], text=True, **more)

    @staticmethod
    def run(hca, program, *options):
        return subprocess.run([program, "-d", DEVICES[hca], *options], check=True, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def measure_in_guest(rounds, seconds):
    sys.path.insert(0, str(ROOT / "tests" / "kernel_peer"))
    import guest

    softib = pathlib.Path(os.environ["IPOIB_BIN"]) / "softib"
    guest.machine.make_ports(len(DEVICES))
    measured = {"rdma_rxe": {}, "softib": {}}
    with verbs.Subnet(softib, "--mtu", "4096", "--log", "warning") as subnet:
        for _ in range(rounds):
            for name in STREAMS:
                for of, ports in (("rdma_rxe", SoftPorts), ("softib", subnet)):
                    speed, _ = verbs.stream(ports, name, seconds)
                    measured[of].setdefault(name, []).append(speed)
                    print(f"{name} {of} {speed}", flush=True)
    return {"rounds": rounds, "seconds": seconds, **measured}


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    pathlib.Path(sys.argv[3]).write_text(
        json.dumps(measure_in_guest(int(sys.argv[1]), int(sys.argv[2]))), encoding="utf-8")
