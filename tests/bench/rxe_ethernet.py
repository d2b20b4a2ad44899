"""Tables of the part "rxe" with soft RoCE ports of the kernel (rdma_rxe), in one virtual machine: connections by
the RDMA CM beside those between two emulated HCAs, and streams beside those between two emulated RoCE ports.

In the guest, this file is the program (in_guest.py).
"""
import os
import pathlib
import subprocess

import in_guest
import roce
import verbs

PATIENCE = 240  # seconds for everything except the measurements
PATIENCE_OF_A_ROUND = 60
CONNECTIONS = 200
ADDRESS = "10.9.0.1"


def measure(options):
    """Returns microseconds of a connection, and Gb/s of streams: {"set_up": {"rdma_rxe": [...], "softib": [...]},
    "streams": {"rdma_rxe": {"ib_write_bw": [...]}, "softib": ...}}."""
    limit = PATIENCE + options.rounds * (PATIENCE_OF_A_ROUND + 2 * len(roce.STREAMS) * (options.seconds + 10))
    return in_guest.measure(__file__, options, limit,
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


def measure_streams(softib, rounds, seconds):
    measured = {"rdma_rxe": {}, "softib": {}}
    with roce.Ports(softib) as ports:
        for _ in range(rounds):
            for name, options in roce.STREAMS.items():
                more = (*options, "-D", str(seconds), "-f", "0")
                for of, output in (("rdma_rxe", verbs.play(verbs.SoftPorts, name, "-x", "0", *more)[1]), ("softib", ports.play(name, *more))):
                    measured[of].setdefault(name, []).append(verbs.of_bandwidth(output)[0])
            print("streams", measured, flush=True)
    return measured


def measure_in_guest(rounds, seconds):
    import machine

    softib = pathlib.Path(os.environ["IPOIB_BIN"]) / "softib"
    machine.make_ports(len(verbs.SoftPorts.DEVICES))
    machine.ip("addr", "add", f"{ADDRESS}/24", "dev", "p0")
    measured = {"rdma_rxe": [], "softib": []}
    with verbs.Subnet(softib, "--log", "warning") as subnet:
        for _ in range(rounds):
            measured["rdma_rxe"].append(kernels_connection())
            measured["softib"].append(verbs.cmtime(subnet, CONNECTIONS))
            print("cmtime", {of: took[-1] for of, took in measured.items()}, flush=True)
    return {"set_up": measured, "streams": measure_streams(softib, rounds, seconds)}


if __name__ == "__main__":
    in_guest.main(measure_in_guest)
