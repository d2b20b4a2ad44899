"""Part "kernel": two ipoibd beside two interfaces of the Linux kernel's ib_ipoib, on the soft
InfiniBand ports of one virtual machine (tests/kernel_peer/guest.py), and the TUN pump, which shows
the cost of TUN devices there without InfiniBand. The machine is emulated: only ratios count.

In the guest, this file is the program (in_guest.py).
"""
import contextlib
import pathlib
import signal

import figures
import in_guest
import setting
import tables

PATIENCE = 120  # seconds for everything except the measurements
KERNEL = "ib_ipoib"
OURS = {"ipoibd": (), "ipoibd event": ("--poll", "event")}  # name: options
PATHS = 2 + len(OURS)
PORTS = 1 + 2 * (1 + len(OURS))  # the SA has the first
FIGURES = (figures.tcp, figures.tcp_of_many, figures.ping)


def measure(options):
    limit = PATIENCE + options.rounds * len(FIGURES) * PATHS * (options.seconds + 2)
    return in_guest.measure(__file__, options, limit, "--module", KERNEL)


def text(measured):
    return tables.ratios(measured) + "\n" + tables.medians(measured)


def pictures(measured, plots):
    return {"kernel": plots.ratios(measured)}


def connect(guest, at_end, name, ends, net, processes=()):
    """Returns the path between two hosts that have an interface."""
    for number, host in enumerate(ends, 1):
        host.run("ip", "addr", "add", f"10.{net}.0.{number}/24", "dev", "ib0")
    address = f"10.{net}.0.2"
    guest.wait_until(lambda: ends[0].reaches(address), f"{name} connects")
    server = guest.Process(ends[1].command("iperf3", "--server"), f"/tmp/iperf{net}.log", None)
    at_end.callback(server.end)
    guest.wait_until(lambda: ":5201" in ends[1].run("ss", "-ltn").stdout, "iperf3 listens")
    path = figures.Path(name, *(host.namespace for host in ends), address, processes)
    at_end.callback(path.signal, signal.SIGCONT)
    return path


def kernel_path(guest, at_end, subnet):
    ends = [guest.KernelHost(subnet, f"kernel{port}", f"ib{port}") for port in (1, 2)]
    for host in ends:
        at_end.callback(host.close)
    return connect(guest, at_end, KERNEL, ends, 43)


def pump_path(guest, at_end, subnet):
    ends = [guest.hosts.Host(subnet, f"pumped{end}") for end in (1, 2)]
    for host in ends:
        at_end.callback(host.close)
    program = pathlib.Path(guest.program("ipoibd")).parents[1] / "tests" / "bench_tun_pump"
    pump = setting.start_pump(at_end, program, ends)
    return connect(guest, at_end, setting.BOUND, ends, 42, [pump.pid])


def our_path(guest, at_end, subnet, number, name):
    """Starts ipoibd on the next two ports."""
    ends = [guest.UserSpaceHost(subnet, f"ours{port}", f"rxe{port}")
            for port in (2 * number + 1, 2 * number + 2)]
    for host in ends:
        at_end.callback(host.close)
        host.start(*OURS[name])
    return connect(guest, at_end, name, ends, 43 + number, [host.daemon.pid for host in ends])


def measure_in_guest(rounds, seconds):
    import guest

    with contextlib.ExitStack() as at_end:
        subnet = guest.machine.Guest()
        at_end.callback(guest.start_subnet(PORTS).end)
        paths = [kernel_path(guest, at_end, subnet), pump_path(guest, at_end, subnet)]
        paths += [our_path(guest, at_end, subnet, number, name)
                  for number, name in enumerate(OURS, 1)]
        return {"bound": KERNEL, "rounds": rounds, "seconds": seconds,
                "paths": figures.measure(paths, rounds, seconds, FIGURES)}


if __name__ == "__main__":
    in_guest.main(measure_in_guest)
