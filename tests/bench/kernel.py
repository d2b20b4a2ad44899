"""Part "kernel": two ipoibd beside two interfaces of the Linux kernel's ib_ipoib, in one boot of a
virtual machine on whose soft InfiniBand ports both run (tests/kernel_peer/guest.py). All is emulated
there: ratios are what counts.

In the guest, this file is the program: kernel.py ROUNDS SECONDS FILE
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import figures
import tables

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 120  # seconds, for all but what is measured
KERNEL, OURS = "ib_ipoib", "ipoibd"
FIGURES = (figures.tcp, figures.tcp_of_many, figures.ping)


def measure(options):
    limit = PATIENCE + options.rounds * len(FIGURES) * 2 * (options.seconds + 2)
    with tempfile.TemporaryDirectory(dir=options.programs) as folder:
        file = pathlib.Path(folder) / "measured.json"
        subprocess.run(
            [options.kernel_peer / "run.sh", "-t", str(limit), "-m", "ib_ipoib", "-n", "5", "-s",
             "", folder, "env", f"IPOIB_BIN={options.programs}/bin", "PYTHONDONTWRITEBYTECODE=1",
             sys.executable, __file__, str(options.rounds), str(options.seconds), str(file)],
            check=True)
        return json.loads(file.read_text(encoding="utf-8"))


def text(measured):
    return tables.ratios(measured)


def pictures(measured, plots):
    return {"kernel": plots.ratios(measured)}


def start_hosts(guest, at_end):
    """Two with the kernel's interfaces, and two with ours, on ports of their own."""
    subnet = guest.machine.Guest("/run/sa.log")
    kernels = [guest.KernelHost(subnet, f"kernel{i}", f"ib{i}") for i in (1, 2)]
    ours = [guest.UserSpaceHost(subnet, f"ours{i}", f"rxe{i + 2}") for i in (1, 2)]
    for host in (*kernels, *ours):
        at_end.callback(host.close)
    for host in ours:
        host.start()
    for net, pair in ((43, kernels), (44, ours)):
        for number, host in enumerate(pair, 1):
            host.configure("ib0", f"10.{net}.0.{number}/24")
        guest.wait_until(lambda: pair[0].reaches(f"10.{net}.0.2"), f"{pair[0].name} reaches")
        server = guest.Process(pair[1].command("iperf3", "--server"), subnet.folder / "iperf.log",
                               None)
        at_end.callback(server.end)
        guest.wait_until(lambda: ":5201" in pair[1].run("ss", "-ltn").stdout, "iperf3 listens")
    return kernels, ours


def measure_in_guest(rounds, seconds):
    sys.path.insert(0, str(ROOT / "tests" / "kernel_peer"))
    import guest

    with contextlib.ExitStack() as at_end:
        kernels, ours = start_hosts(guest, at_end)
        paths = [figures.Path(KERNEL, *(host.namespace for host in kernels), "10.43.0.2"),
                 figures.Path(OURS, *(host.namespace for host in ours), "10.44.0.2",
                              [host.daemon.pid for host in ours])]
        for path in paths:
            at_end.callback(path.signal, signal.SIGCONT)
        return {"bound": KERNEL, "rounds": rounds, "seconds": seconds,
                "paths": figures.measure(paths, rounds, seconds, FIGURES)}


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    pathlib.Path(sys.argv[3]).write_text(
        json.dumps(measure_in_guest(int(sys.argv[1]), int(sys.argv[2]))), encoding="utf-8")
