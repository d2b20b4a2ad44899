"""Connections by the RDMA CM between two programs on an emulated HCA each, beside the same on a soft RoCE port
of the kernel (rdma_rxe), in one virtual machine: a table of the part "rxe".

In the guest, this file is the program (in_guest.py).
"""
import os
import pathlib
import subprocess

import in_guest
import verbs

PATIENCE = 240  # seconds for everything except the measurements
PATIENCE_OF_A_ROUND = 60
CONNECTIONS = 200
ADDRESS = "10.9.0.1"


def measure(options):
    """Returns microseconds of a connection: {"rdma_rxe": [...], "softib": [...]}."""
    return in_guest.measure(__file__, options, PATIENCE + options.rounds * PATIENCE_OF_A_ROUND,
                            "--module", "rdma_ucm", ports="Ethernet")


def is_listening():
    listed = subprocess.run(["rdma", "resource", "show", "cm_id"], check=True, text=True, stdout=subprocess.PIPE)
    return "state LISTEN" in listed.stdout


def kernels_connection():
    server = subprocess.Popen(["cmtime"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        verbs.wait_for("cmtime", is_listening)
        done = subprocess.run(["cmtime", "-s", ADDRESS, "-c", str(CONNECTIONS)], check=True, text=True,
                              stdout=subprocess.PIPE)
    finally:
        server.kill()
        server.wait()
    return verbs.of_cmtime(done.stdout)


def measure_in_guest(rounds, _seconds):
    import machine

    softib = pathlib.Path(os.environ["IPOIB_BIN"]) / "softib"
    machine.make_ports(1)
    machine.ip("addr", "add", f"{ADDRESS}/24", "dev", "p0")
    measured = {"rdma_rxe": [], "softib": []}
    with verbs.Subnet(softib, "--log", "warning") as subnet:
        for _ in range(rounds):
            measured["rdma_rxe"].append(kernels_connection())
            measured["softib"].append(verbs.cmtime(subnet, CONNECTIONS))
            print("cmtime", {of: took[-1] for of, took in measured.items()}, flush=True)
    return measured


if __name__ == "__main__":
    in_guest.main(measure_in_guest)
