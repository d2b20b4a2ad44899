"""The attackers of scripts/soak --hostile: those of tests/netns/attacks.py, several at once and all in
turn, against the hosts of the soak."""

import contextlib
import itertools
import random
import resource

import attacks
import checks

AT_ONCE = 4
BRIDGE, FIRST_HOSTILE = 240, 241  # the last bytes of their addresses
DESCRIPTORS = 1024  # the limit of each process: shares of it (docs/security.md) are soon used up
# A connection to a process that has gone is closed when its slot has another process. The attackers have
# up to 20 slots, each with a wakeup descriptor, and a 16th of the limit further ones.
KEPT = 2 * 20 + DESCRIPTORS // 16


def limit_descriptors():
    """For this process and those that it starts."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


class Attackers:
    """`with Attackers(setting, seed):` adds hostile hosts, one for each attack, and one with an Ethernet
    interface to a setting. They are watched as all daemons, but have no faults."""

    def __init__(self, setting, seed):
        self.setting = setting
        setting.watch.more_descriptors = checks.MORE_DESCRIPTORS + KEPT
        self.random = random.Random(f"attacks/{seed}")
        order = self.random.sample(attacks.ATTACKS, len(attacks.ATTACKS))
        self.next = itertools.cycle(order)
        self.running = []
        self.begun, self.ended_early = 0, 0
        self.missed = []  # why some were not carried out as they should
        self.stack = contextlib.ExitStack()
        self.bridge = setting.subnet.host("bridge")
        self.bridge.start("--ethernet", address=f"10.44.0.{BRIDGE}/16")
        self.hostile = [setting.subnet.host(f"hostile{number}") for number in range(1, AT_ONCE + 1)]
        for number, host in enumerate(self.hostile, FIRST_HOSTILE):
            host.start(address=f"10.44.0.{number}/16")
        for host in (*self.hostile, self.bridge):
            setting.watch.add(host.name, host.daemon.popen)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def begin(self):
        """Begins the next attacks, while all hosts are well; returns what they are."""
        out = []
        for attack, hostile in zip(itertools.islice(self.next, AT_ONCE), self.hostile):
            names = self.random.sample(sorted(self.setting.hosts), 2)
            host, neighbour = (self.setting.hosts[name] for name in names)
            victim = self.bridge if attack.at_station else host
            try:
                scene = attacks.Scene(victim, neighbour, hostile)
                process = self.stack.enter_context(attack.start(scene, attack.rate, 10**9))
            except AssertionError as error:  # it has not begun in time, beside the others
                self.missed.append(f"{attack.name}: {error}")
                continue
            self.begun += 1
            self.running.append(process)
            out.append(f"{victim.name}: {attack.name}")
        return out

    def end(self):
        """Ends them. Some have ended because a fault has ended their victim."""
        self.ended_early += sum(not process.is_running() for process in self.running)
        self.running = []
        try:
            self.stack.close()
        except AssertionError as error:
            self.missed.append(str(error))

    def show_gone(self):
        """Lets each daemon notice that the receivers among them have gone."""
        for host in (*self.setting.hosts.values(), self.bridge):
            host.ping("255.255.255.255", "-b", "-I", "ib0", "-c", "1", "-W", "0.1")

    def summary(self):
        begun = f"{self.begun} attacks, {AT_ONCE} at once; {self.ended_early} ended with their victim"
        return "\n".join([begun, *(f"no attack: {reason}" for reason in self.missed)])
