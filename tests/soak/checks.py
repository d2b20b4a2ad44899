"""What scripts/soak checks besides the data: processes that end by themselves, their messages, their
descriptors and memory, and whether all hosts reach each other.

A finding is a sentence that says what is wrong.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "netns"))
import hosts  # noqa: E402

# How much more a process may have than after its first undisturbed moment. The descriptors include
# those of connections that are being made; the memory that of frames that are used for the first
# time: the pools of the two interfaces have 31 MiB.
MORE_DESCRIPTORS = 8
MORE_MEMORY_KIB = 32 * 1024
# A process keeps the wakeup descriptors of others, at most 64 for each, until they disconnect
# (kMaxWakeupFds): one for each interface that was made anew.
KEPT_OF_A_NEW_INTERFACE = (1, 0)

# What a sanitizer, the C library or the C++ runtime says before it ends a process, or instead.
SAYS_FAULT = re.compile(
    r"(Address|Leak|Memory|Thread|UndefinedBehavior)Sanitizer|runtime error: |terminate called"
    r"|Assertion .*failed|stack smashing|double free|malloc\(\): |Traceback \(most recent call")

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/states.md"


def stated_bound():
    """Returns the seconds after which hosts reach each other again, from docs/states.md."""
    section = DOCUMENT.read_text(encoding="utf-8").split("\n## Outage\n")[1].split("\n## ")[0]
    return int(re.search(r"After several of these events.*?at most (\d+) s", section)[1])


class Watch:
    """The processes that run, until forget(): none of them ends by itself, and none grows."""

    def __init__(self, more_descriptors=MORE_DESCRIPTORS, more_memory=MORE_MEMORY_KIB):
        self.more_descriptors, self.more_memory = more_descriptors, more_memory
        self.processes = {}  # name -> Popen
        self.first = {}  # name -> descriptors and KiB at the first undisturbed moment
        self.last = {}
        self.allowed = {}  # name -> how much more of each is allowed since then

    def add(self, name, popen):
        self.processes[name] = popen

    def allow(self, name, more):
        """Allows a process more descriptors and KiB of memory, for something that is known to be
        kept."""
        if name in self.first:
            self.allowed[name] = tuple(map(sum, zip(self.allowed[name], more)))

    def forget(self, name):
        """Must be called before the process is ended. Returns findings about its life so far."""
        out = [finding for finding in self.ended() if finding.startswith(f"{name} ")]
        for table in (self.processes, self.first, self.last, self.allowed):
            table.pop(name, None)
        return out

    def ended(self):
        """Returns a finding for each process that has ended."""
        out = []
        for name, popen in self.processes.items():
            status = popen.poll()
            if status is not None:
                how = f"was killed by signal {-status}" if status < 0 else f"exited with {status}"
                out.append(f"{name} (process {popen.pid}) has ended by itself: it {how}")
        return out

    def grown(self):
        """Measures all processes, at an undisturbed moment. Returns a finding for each that has grown
        beyond the bounds since its first one."""
        out = []
        for name, popen in self.processes.items():
            if popen.poll() is not None:
                continue  # ended() reports it
            self.last[name] = measure(popen.pid)
            first = self.first.setdefault(name, self.last[name])
            bounds = self.allowed.setdefault(name, (self.more_descriptors, self.more_memory))
            for what, before, now, more in zip(("descriptors", "KiB of memory"), first,
                                               self.last[name], bounds):
                if None not in (before, now) and now > before + more:
                    out.append(f"{name} (process {popen.pid}) has grown from {before} to {now} "
                               f"{what}; the bound is {before + more}")
        return out


def measure(pid):
    """Returns the numbers of descriptors and of KiB of memory, None with a sanitizer; both are None of
    a process that has ended."""
    try:
        descriptors = len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))
        return descriptors, None if hosts.has_sanitizer(pid) else hosts.resident_kib(pid)
    except OSError:
        return None, None


class Logs:
    """Reads what processes have written into their logs since the last time."""

    def __init__(self, folder):
        self.folder = folder
        self.read = {}  # path -> bytes read

    def faults(self):
        """Returns a finding for each new line that tells of a fault of a program."""
        out = []
        for path in sorted(self.folder.glob("*.log")):
            with open(path, "rb") as file:
                file.seek(self.read.get(path, 0))
                data = file.read()
            complete = data[:data.rfind(b"\n") + 1]
            self.read[path] = self.read.get(path, 0) + len(complete)
            out += [f"{path.name}: {line}" for line in complete.decode(errors="replace").splitlines()
                    if SAYS_FAULT.search(line)]
        return out


def paths(count, interfaces, channels):
    """Returns (receiver, sender, interface, channel) for all pairs."""
    return [(receiver, sender, interface, channel)
            for receiver in range(1, count + 1) for sender in range(1, count + 1)
            if receiver != sender for interface in range(interfaces) for channel in range(channels)]


def outages(statuses, wanted):
    """`statuses` are those of the peers by host number. Returns path -> beats that were lost before
    the first that arrived; None if none has arrived."""
    heard = {(receiver, *path): number for receiver, status in statuses.items()
             for *path, number in status["heard"]}
    return {path: heard.get(path) for path in wanted}


def unreached(statuses, wanted, most):
    """Returns the paths on which more than `most` beats have been lost."""
    out = []
    for path, number in outages(statuses, wanted).items():
        lost = statuses[path[1]]["beats"] if number is None else number
        if lost > most:
            out.append(path)
    return out


def without_transfer(statuses):
    """Returns (sender, receiver) for the pairs without a transfer that was begun and completed in this
    epoch."""
    return [(sender, int(receiver)) for sender, status in statuses.items()
            for receiver, count in status["completed"].items() if count == 0]
