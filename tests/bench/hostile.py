"""Part "hostile": what two hosts do while a third one, or a station, attacks one of them in all the ways
of tests/netns/attacks.py, as a ratio to the same without an attack: TCP, or what the attack is aimed at
(tests/netns/others.py).

Each attack is measured next to the same without it. Absolute values do not matter: the attacker, too,
uses one of the machine's processors.
"""
import contextlib
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "netns"))
import attacks  # noqa: E402
import hosts  # noqa: E402
import others  # noqa: E402
import streams  # noqa: E402
import tables  # noqa: E402
from hosts import wait_until  # noqa: E402
from idle import gbps  # noqa: E402

SECONDS = 2
MEASURES = {
    "TCP": lambda scene, seconds: gbps((scene.neighbour, scene.victim), 0, seconds),
    "resolutions": lambda scene, seconds: others.resolutions(scene.victim, seconds),
    "joins": lambda scene, seconds: others.joins(scene.neighbour, seconds),
}


def without(attack, scene):
    """What there is without the attack, too."""
    return scene.broadcasts(attack.rate, 10**9) if attack.to_broadcasts else contextlib.nullcontext()


def measure_on(subnet, options):
    left, right, hostile, bridge = (subnet.host(name) for name in ("left", "right", "hostile", "bridge"))
    for number, host in enumerate((left, right, hostile), 1):
        host.start(address=f"10.44.0.{number}/16")
    bridge.start("--ethernet", address="10.44.0.4/16")
    scenes = {at_station: attacks.Scene(victim, left, hostile)
              for at_station, victim in ((False, right), (True, bridge))}
    wait_until(lambda: left.reaches("10.44.0.2"), "the hosts reach each other")
    server = hosts.Process(right.command("iperf3", "--server"), right.log, None)
    found = {attack.name: [] for attack in attacks.ATTACKS}
    try:
        wait_until(lambda: ":5201" in right.run("ss", "-ltn").stdout, "iperf3 listens")
        others.prepare(left)
        echo = streams.start(left, others.ECHO, subnet.folder, "echo")
        try:
            for measure_one in MEASURES.values():  # to warm up
                measure_one(scenes[False], options.seconds)
            for number in range(1, options.rounds + 1):
                for attack in attacks.ATTACKS:
                    scene, measure_one = scenes[attack.at_station], MEASURES[attack.measured]
                    with without(attack, scene):
                        alone = measure_one(scene, options.seconds)
                    if alone == 0:
                        raise SystemExit(f"no {attack.measured} without {attack.name}")
                    with attacks.under(attack, scene):
                        found[attack.name].append(measure_one(scene, options.seconds) / alone)
                print(f"round {number}: " + ", ".join(
                    f"{name} {values[-1]:.2f}" for name, values in found.items()), flush=True)
        finally:
            echo.end()
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
    rows = [[f"{attack.name}: {attack.what}", attack.rate, attack.measured,
             f"{statistics.median(measured['ratios'][attack.name]):.2f}"]
            for attack in attacks.ATTACKS if attack.name in measured["ratios"]]
    return (f"Medians of {measured['rounds']} rounds of {measured['seconds']} s in one run.\n\n"
            + tables.table(["attack", "messages in a second", "of", "ratio"], rows))


def pictures(*_):
    return {}
