#!/usr/bin/env python3
"""Finds what a run of the tests has left on the machine.

Usage: leftovers.py record FILE
       leftovers.py check FILE FOLDER RUN

`record` writes to FILE what the machine has before the run; nothing of it for a run that a test of another
run has started (IPOIB_TEST_RUN is set), since the tests of that one run beside it. `check` prints what is
there after the run and was not before, and exits with 1 if a test has certainly left it:

- anything in FOLDER, which was empty and was the TMPDIR of the run;
- processes with IPOIB_TEST_RUN=RUN in their environment; those that are just ending have a few seconds;
- in /run, /tmp, /var/tmp and /dev/shm, names that contain ipoib or softib; network namespaces and network
  interfaces with such names, or with names like ib0.

Other new names there are printed, too, since a program that the tests run may have left them. They do not
count as a failure, because any other program of the machine may have.
"""
import json
import os
import pathlib
import re
import sys
import time

SHARED = ("/run", "/tmp", "/var/tmp", "/dev/shm", "/run/netns", "/sys/class/net")
OWN = re.compile(r"ipoib|softib|^ib\d")
SECONDS_TO_END = 5


def names_in(folder):
    """Returns the names in a folder, none if it cannot be read."""
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def processes_of(run):
    """Returns {pid: command line} of the living processes of a run, without this one and those above it."""
    above = set()
    pid = os.getpid()
    while pid > 1:
        above.add(pid)
        pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    mark = f"IPOIB_TEST_RUN={run}".encode()
    found = {}
    for name in names_in("/proc"):
        if not name.isdigit() or int(name) in above:
            continue
        process = pathlib.Path("/proc") / name
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                words = (process / "cmdline").read_bytes().split(b"\0")
                found[int(name)] = b" ".join(words).decode(errors="replace").strip()
        except OSError:
            pass  # has ended, or belongs to somebody else
    return found


def record(file):
    shared = () if os.environ.get("IPOIB_TEST_RUN") else SHARED
    before = {folder: sorted(names_in(folder)) for folder in shared}
    pathlib.Path(file).write_text(json.dumps(before), encoding="utf-8")
    return 0


def check(file, folder, run):
    before = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
    left, others = [f"{folder}/{name}" for name in sorted(names_in(folder))], []
    for shared, names in before.items():
        for name in sorted(names_in(shared) - set(names)):
            path = f"{shared}/{name}"
            if path != folder:
                (left if OWN.search(name) else others).append(path)
    end = time.monotonic() + SECONDS_TO_END
    while (processes := processes_of(run)) and time.monotonic() < end:
        time.sleep(0.05)
    left += [f"process {pid}: {command}" for pid, command in sorted(processes.items())]
    if others:
        print("new on this machine, perhaps not by a test:", *others, sep="\n  ")
    if left:
        print("the tests left behind:", *left, sep="\n  ")
    return 1 if left else 0


if __name__ == "__main__":
    COMMANDS = {("record", 1): record, ("check", 3): check}
    command = COMMANDS.get((sys.argv[1] if len(sys.argv) > 1 else "", len(sys.argv) - 2))
    if command is None:
        sys.exit(__doc__)
    sys.exit(command(*sys.argv[2:]))
