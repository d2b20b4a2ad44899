"""Part "hostile": TCP between two hosts while a third one attacks the receiver in all the ways of
tests/netns/attacks.py, as a ratio to the speed without an attack.

Each attack is measured next to a stream without it. Absolute values do not matter: the attacker, too,
uses one of the machine's processors.
"""
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "netns"))
import attacks  # noqa: E402
import hosts  # noqa: E402
import tables  # noqa: E402
from hosts import wait_until  # noqa: E402
from idle import gbps  # noqa: E402

SECONDS = 2
# How long an attack may last: until it has begun, and as long as a stream.
MARGIN = 60


def rises(attack, scene, before):
    now = scene.counters()
    return any(now[name] > before[name] for name in attack.rises)


def attacked(attack, scene, ends, seconds):
    before = scene.counters()
    with attacks.under(attack, scene, attack.rate * (seconds + MARGIN)) as attacker:
        wait_until(lambda: rises(attack, scene, before), f"{attack.name} has begun")
        speed = gbps(ends, 0, seconds)
        if not attacker.is_running():
            raise SystemExit(f"{attack.name} has ended early: {attacker.output()}")
        return speed


def measure_on(subnet, options):
    left, right, hostile = (subnet.host(name) for name in ("left", "right", "hostile"))
    for number, host in enumerate((left, right, hostile), 1):
        host.start(address=f"10.44.0.{number}/16")
    scene = attacks.Scene(right, left, hostile)
    wait_until(lambda: left.reaches("10.44.0.2"), "the hosts reach each other")
    server = hosts.Process(right.command("iperf3", "--server"), right.log, None)
    found = {attack.name: [] for attack in attacks.ATTACKS}
    try:
        wait_until(lambda: ":5201" in right.run("ss", "-ltn").stdout, "iperf3 listens")
        gbps((left, right), 0, options.seconds)  # to warm up
        for number in range(1, options.rounds + 1):
            for attack in attacks.ATTACKS:
                alone = gbps((left, right), 0, options.seconds)
                found[attack.name].append(attacked(attack, scene, (left, right), options.seconds)
                                          / alone)
            print(f"round {number}: " + ", ".join(
                f"{name} {values[-1]:.2f}" for name, values in found.items()), flush=True)
    finally:
        server.end()
    return {"rounds": options.rounds, "seconds": options.seconds, "ratios": found}


def measure(options):
    subnet = hosts.Subnet("--log", "error")
    try:
        return measure_on(subnet, options)
    finally:
        subnet.close()


def text(measured):
    rows = [[f"{attack.name}: {attack.what}", attack.rate,
             f"{statistics.median(measured['ratios'][attack.name]):.2f}"]
            for attack in attacks.ATTACKS if attack.name in measured["ratios"]]
    return (f"Medians of {measured['rounds']} rounds of {measured['seconds']} s in one run.\n\n"
            + tables.table(["attack", "messages in a second", "ratio"], rows))


def pictures(*_):
    return {}
