"""Part "ethernet": Ethernet interfaces (--ethernet), with the host's address on the TAP, on a bridge of
which the TAP is a port, and of a station (a network namespace) behind that bridge, beside a TUN."""
import figures
import tables
from setting import MTU, Setting

SECONDS = 4  # as in the part "paths"
BOUND = "TUN"


def bridge(host, number):
    """Makes the TAP a port of a bridge that has its address."""
    host.run("ip", "addr", "flush", "dev", "ib0")
    host.bridge("ib0", mtu=MTU)
    host.run("ip", "addr", "add", f"10.44.0.{number}/24", "dev", "br0")


def station(host, number):
    """Returns a host behind the bridge."""
    behind = host.subnet.host(f"behind-{host.name}")
    host.add_port("to", behind, mtu=MTU)
    behind.run("ip", "addr", "add", f"10.44.0.{10 + number}/24", "dev", "eth0")
    behind.run("ip", "link", "set", "eth0", "up")
    return behind


def paths(setting):
    yield setting.ipoibd(BOUND, MTU + 4, ())
    yield setting.ipoibd("TAP", MTU + 4, ("--ethernet",))
    daemons = setting.daemons("bridge", MTU + 4, ("--ethernet",))
    for number, host in enumerate(daemons, 1):
        bridge(host, number)
    yield setting.between("bridge", daemons, "10.44.0.2", daemons)
    stations = [station(host, number) for number, host in enumerate(daemons, 1)]
    yield setting.between("station", stations, "10.44.0.12", daemons)


def measure(options):
    with Setting(None) as setting:
        measured_paths = list(paths(setting))
        of_one_stream = [each for each in figures.with_each_control(measured_paths[0])
                         if each.func is figures.tcp]
        measured = figures.measure(measured_paths, options.rounds, options.seconds,
                                   [*of_one_stream, figures.udp_1400, figures.ping])
    return {"bound": BOUND, "rounds": options.rounds, "seconds": options.seconds, "paths": measured}


def text(measured):
    return tables.ratios(measured) + "\n" + tables.medians(measured)


def pictures(*_):
    return {}
