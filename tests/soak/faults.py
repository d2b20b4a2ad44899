"""The faults of scripts/soak: what there is, and a random choice from a seed.

A round is a list of faults with their times. Nothing here touches a process: actions.py does.
"""

import dataclasses
import itertools
import random

ROUND_SECONDS = 8  # all faults of a round have ended by then
FEWEST, MOST = 4, 9  # faults of a round
SM = "softib-sm"
DEFAULT, RED = "0x7fff", "0x0001"
MTUS, RATES = (2048, 4096), (10, 20, 40)
FIRST_FREE_LID, LAST_LID = 0x100, 0xbfff
MOST_SWITCHES = 1024  # with a topology, each has one of the last LIDs


@dataclasses.dataclass(frozen=True)
class Fault:
    kind: str
    target: str  # a host, SM, "subnet", a switch, or the two ends of a cable
    begin: float  # seconds since the begin of the round
    end: float  # of its repair; the same as `begin` for a change that needs none
    detail: tuple = ()  # words, such as the arguments of softib set

    def __str__(self):
        return " ".join([f"{self.target}: {self.kind}", *map(str, self.detail)])


@dataclasses.dataclass(frozen=True)
class Kind:
    weight: int
    where: str  # what has such faults: "host", "sm", "any" (a host or the SM), "subnet", "cable" or "switch"
    parts: tuple  # what it occupies of its target: other faults of these wait for its end
    lasts: bool = True  # it ends by a repair
    asks: bool = True  # it and its repair need a subnet process that responds


# The parts of a host. A failed HCA occupies all: its daemon cannot start, and `softib set` refuses.
PARTS = ("daemon", "port", "lid", "pkeys", "link", "mtu")
KINDS = {
    "daemon killed": Kind(2, "host", ("daemon",), asks=False),
    "daemon ended": Kind(2, "host", ("daemon",), asks=False),
    "daemon stopped": Kind(3, "host", ("daemon",), asks=False),
    "neighbours flushed": Kind(2, "host", ("daemon",), lasts=False, asks=False),
    "interface down": Kind(1, "host", ("daemon",), asks=False),
    "port": Kind(4, "any", ("port",)),
    "HCA failed": Kind(2, "host", PARTS),
    "LID": Kind(3, "any", ("lid",), lasts=False),
    "MTU of the port": Kind(1, "host", ("mtu",)),
    "P_Key moved": Kind(2, "host", ("pkeys",), lasts=False),
    "membership": Kind(3, "host", ("pkeys",)),
    "link": Kind(6, "any", ("link",)),
    "SM restarts": Kind(3, "sm", ("sm",), lasts=False),
    "subnet process killed": Kind(2, "subnet", ("process",), asks=False),
    "subnet process stopped": Kind(2, "subnet", ("process",), asks=False),
    "group parameters": Kind(2, "subnet", ("process",), asks=False),
    # Only of subnets of many switches.
    "cable down": Kind(10, "cable", ("cable",)),
    "cable flaps": Kind(5, "cable", ("cable",), lasts=False),
    "switch absent": Kind(5, "switch", ("switch",)),
    "switch reset": Kind(5, "switch", ("switch",), lasts=False),
}


def is_free(faults, new):
    """Returns whether `new` can be added: nothing else occupies its parts, and whoever needs the
    subnet process finds it."""
    for other in faults:
        overlap = new.begin <= other.end and other.begin <= new.end
        kinds = KINDS[new.kind], KINDS[other.kind]
        if overlap and new.target == other.target and set(kinds[0].parts) & set(kinds[1].parts):
            return False
        for asking, away in ((new, other), (other, new)):
            if away.target == "subnet" and KINDS[asking.kind].asks and any(
                    away.begin <= time <= away.end for time in (asking.begin, asking.end)):
                return False
    return True


class Generator:
    """Chooses the faults of one round after the other; the same for the same seed, hosts, cables (pairs of
    ends, as words) and switches."""

    def __init__(self, seed, hosts, cables=(), switches=()):
        self.random = random.Random(f"faults/{seed}")
        self.hosts = list(hosts)
        self.targets = {"host": self.hosts, "any": [*self.hosts, SM], "sm": [SM], "subnet": ["subnet"],
                        "cable": list(cables), "switch": list(switches)}
        self.kinds = {name: kind for name, kind in KINDS.items() if self.targets[kind.where]}
        last = LAST_LID - MOST_SWITCHES if switches else LAST_LID
        self.lids = itertools.cycle(self.random.sample(range(FIRST_FREE_LID, last), 10000))
        # This host's daemon is never ended, so that its descriptors and memory can be compared.
        self.steady = self.random.choice(self.hosts)

    def round(self):
        """Returns the faults of the next round, by the time at which they begin."""
        faults = []
        wanted = self.random.randint(FEWEST, MOST)
        while len(faults) < wanted:
            new = self.fault()
            if new is not None and is_free(faults, new):
                faults.append(new)
        return sorted(faults, key=lambda fault: (fault.begin, fault.target, fault.kind))

    def fault(self):
        """Returns a fault; None instead of one that ends the daemon that runs all the time."""
        choice = self.random
        name = choice.choices(list(self.kinds), [kind.weight for kind in self.kinds.values()])[0]
        kind = KINDS[name]
        target = choice.choice(self.targets[kind.where])
        begin = round(choice.uniform(0, ROUND_SECONDS - 2), 2)
        end = round(min(begin + choice.choice((0.1, 0.5, 1, 2, 4)) * choice.uniform(0.5, 1.5),
                        ROUND_SECONDS), 2) if kind.lasts else begin
        detail = self.detail(name, target)
        if target == self.steady and name in ("daemon killed", "daemon ended"):
            return None
        return Fault(name, target, begin, end, detail)

    def detail(self, name, target):
        choice = self.random
        if name == "port":
            return (choice.choice(("down",) if target == SM else ("down", "down", "init", "armed")),)
        if name == "LID":
            return (hex(next(self.lids)),)
        if name == "MTU of the port":
            return (choice.choice((2048, 4096)),)
        if name == "P_Key moved":
            return (choice.choice((DEFAULT, RED)), choice.randrange(12))
        if name == "membership":
            return choice.choice(((RED, "none"), (RED, "limited"), (DEFAULT, "limited")))
        if name == "link":
            return self.link_faults()
        if name == "group parameters":
            return ("mtu", choice.choice(MTUS), "rate", choice.choice(RATES))
        return ()

    def link_faults(self):
        choice, out = self.random, []
        values = {"loss": (1, 5, 20, 60), "duplicate": (5, 30), "reorder": (5, 30), "delay": (1, 20, 200)}
        for name in choice.sample(sorted(values), choice.randint(1, 3)):
            out += [name, choice.choice(values[name])]
        return tuple(out)


def actions(faults):
    """Returns (time, fault, whether it is its repair), in the order in which they happen."""
    out = [(fault.begin, fault, False) for fault in faults]
    out += [(fault.end, fault, True) for fault in faults if KINDS[fault.kind].lasts]
    return sorted(out, key=lambda action: (action[0], action[2], action[1].target, action[1].kind))
