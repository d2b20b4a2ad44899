"""Part "rxe": perftest's programs between two emulated HCAs beside the same between two soft RDMA ports
of the kernel (rdma_rxe), in one virtual machine; and cmtime and RoCE ports likewise, in another one
(rxe_ethernet.py). The machine is emulated: only ratios count.

In the guest, this file is the program (in_guest.py).
"""
import os
import pathlib
import statistics

import in_guest
import rxe_ethernet
import tables
import verbs

PATIENCE = 240  # seconds for everything except the measurements
STREAMS = ("ib_write_bw", "ib_read_bw", "ib_send_bw")


def measure(options):
    limit = PATIENCE + options.rounds * 2 * len(STREAMS) * (options.seconds + 10)
    return {**in_guest.measure(__file__, options, limit), **rxe_ethernet.measure(options)}


def set_up_row(set_up, number, name):
    theirs, ours = (statistics.median(took[number] for took in set_up[of]) for of in ("rdma_rxe", "softib"))
    return [name, tables.number(theirs), tables.number(ours), f"{theirs / ours:.1f}"]


def stream_row(measured, name):
    theirs, ours = (statistics.median(measured[of][name]) for of in ("rdma_rxe", "softib"))
    return [name, tables.number(theirs), tables.number(ours), f"{ours / theirs:.1f}"]


def text(measured):
    headings = ["rdma_rxe Gb/s", "softib Gb/s", "ratio"]
    return (tables.table(["64 KiB, two processes", *headings], [stream_row(measured, name) for name in STREAMS]) + "\n"
            + tables.table(["64 KiB, RoCE ports", *headings],
                           [stream_row(measured["streams"], name) for name in measured["streams"]["softib"]]) + "\n"
            + tables.table(["RDMA CM", "rdma_rxe us", "softib us", "connections a second, ratio"],
                           [set_up_row(measured["set_up"], number, name)
                            for number, name in enumerate(("cmtime, all steps", "cmtime, connect"))])
            + f"\nMedians of {measured['rounds']} rounds of {measured['seconds']} s in one run.\n")


def pictures(*_):
    return {}


def measure_in_guest(rounds, seconds):
    import guest

    softib = pathlib.Path(os.environ["IPOIB_BIN"]) / "softib"
    guest.machine.make_ports(len(verbs.SoftPorts.DEVICES))
    measured = {"rdma_rxe": {}, "softib": {}}
    with verbs.Subnet(softib, "--mtu", "4096", "--log", "warning") as subnet:
        for _ in range(rounds):
            for name in STREAMS:
                for of, ports in (("rdma_rxe", verbs.SoftPorts), ("softib", subnet)):
                    speed, _ = verbs.stream(ports, name, seconds)
                    measured[of].setdefault(name, []).append(speed)
                    print(f"{name} {of} {speed}", flush=True)
    return {"rounds": rounds, "seconds": seconds, **measured}


if __name__ == "__main__":
    in_guest.main(measure_in_guest)
