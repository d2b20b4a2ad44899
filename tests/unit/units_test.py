#!/usr/bin/env python3
"""Checks the units for systemd without a running one: that they are valid, how much they permit, and
that they permit what the daemon needs. Checks the script of their restart, with programs in the place of
systemctl and tail.

Usage: units_test.py UNIT_FOLDER PROGRAM_FOLDER
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS, PROGRAMS = (pathlib.Path(each).resolve() for each in sys.argv[1:])
# The exposure that systemd-analyze computes, in tenths, and which each may have at most.
EXPOSURE = {"ipoibd@.service": 30, "ipoibd-roce@.service": 30, "softib@.service": 15,
            "ipoibd-metrics.service": 15, "ipoibd-textfile.service": 22,
            "ipoibd-wait-online@.service": 20, "ipoibd-restore@.service": 20,
            "ipoibd-handover@.service": 30, "ipoibd-acm.service": 9}
DAEMONS = ("ipoibd@.service", "ipoibd-roce@.service", "ipoibd-handover@.service")
# Given up by the daemon at its start.
FOR_THE_START = {"CAP_SETGID", "CAP_SETPCAP"}


def analyze(*arguments):
    done = subprocess.run(["systemd-analyze", "--no-pager", *map(str, arguments)], text=True,
                          check=False, capture_output=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def text_of(name):
    return (UNITS / name).read_text(encoding="utf-8")


def source(name):
    return (ROOT / "src/daemon/process" / name).read_text(encoding="utf-8")


def units_are_valid():
    with tempfile.TemporaryDirectory() as folder:
        # The programs need not be installed, and their folder may have a blank in its name.
        programs = pathlib.Path(folder) / "bin"
        programs.symlink_to(PROGRAMS)
        for name in EXPOSURE:
            text = re.sub(r"/\S*?bin/(ipoibd|softib|ibarp)\b", rf"{programs}/\1", text_of(name))
            text = re.sub(r"/\S*/libexec/ipoibd/", f"{ROOT}/systemd/", text)
            (pathlib.Path(folder) / name).write_text(text, encoding="utf-8")
        for name in EXPOSURE:
            status, output = analyze("verify", "--man=no", "--recursive-errors=no",
                                     f"{folder}/{name}")
            assert (status, output) == (0, ""), output


def exposure_is_limited():
    for name, most in EXPOSURE.items():
        status, output = analyze("security", "--offline=true", f"--threshold={most}", UNITS / name)
        assert status == 0, f"{name}: {output.splitlines()[-1]}"
        assert analyze("security", "--offline=true", f"--threshold={most - 1}", UNITS / name)[0] != 0, \
            f"{name} permits less than {most}: lower the limit"


def members(group):
    """The system calls of a group such as @system-service."""
    status, output = analyze("syscall-filter", group)
    assert status == 0, output
    found = set()
    for name in re.findall(r"^    (?!#)(\S+)$", output, re.M):
        found |= members(name) if name.startswith("@") else {name}
    return found


def permits_the_system_calls_of_the_daemon():
    needed = set()
    for users, calls in re.findall(r"CallGroup\{\s*(\w+),\s*\"[^\"]*\",\s*\{([^}]*)\}",
                                   source("sandbox_calls.cpp")):
        if users != "subnet":
            needed |= set(re.findall(r'"(\w+)"', calls))
    assert {"ioctl", "openat", "setns"} <= needed, needed
    for name in DAEMONS:
        permitted = set()
        for word in re.search(r"^SystemCallFilter=(.*)$", text_of(name), re.M)[1].split():
            permitted |= members(word) if word.startswith("@") else {word}
        assert needed <= permitted, f"{name} refuses {needed - permitted}"


def has_the_capabilities_that_the_daemon_keeps():
    keeps = re.search(r"^std::vector<unsigned> capabilities_to_keep.*?^}", source("privileges.cpp"),
                      re.M | re.S)[0]
    needed = set(re.findall(r"\bCAP_\w+", keeps))
    # Without a limit of locked memory, and with devices of the kernel.
    needed -= {"CAP_IPC_LOCK", "CAP_DAC_OVERRIDE"}
    assert len(needed) == 3, needed
    for name in DAEMONS:
        for setting in ("AmbientCapabilities", "CapabilityBoundingSet"):
            given = re.search(rf"^{setting}=(.*)$", text_of(name), re.M)[1].split()
            assert set(given) == needed | FOR_THE_START, f"{name}: {setting}={given}"
        assert "\nLimitMEMLOCK=infinity\n" in text_of(name)


# What systemctl does in the tests of the script.
SYSTEMCTL = """#!/bin/sh
echo "$@" >>"$CALLS"
if [ "$1" = list-jobs ]; then cat "$JOBS"; fi
if [ "$1" = start ]; then exit "$STARTS"; fi
"""


def calls_of_restart(step, jobs, main_pid="1234", starts=0):
    """What the script runs when systemd has these jobs, but list-jobs."""
    unit = r"ipoibd-roce@my\x2ddevice:1.service"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        calls = folder / "calls"
        calls.touch()
        (folder / "jobs").write_text("".join(f"{job.replace('UNIT', unit)}\n" for job in jobs),
                                     encoding="utf-8")
        for program, text in (("systemctl", SYSTEMCTL), ("tail", '#!/bin/sh\necho tail "$@" >>"$CALLS"\n')):
            (folder / program).write_text(text, encoding="utf-8")
            (folder / program).chmod(0o755)
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "CALLS": str(calls),
                       "JOBS": str(folder / "jobs"), "MAINPID": main_pid, "STARTS": str(starts)}
        subprocess.run([ROOT / "systemd/restart", step, unit], env=environment, check=False, timeout=60)
        lines = calls.read_text(encoding="utf-8").splitlines()
        return [line for line in lines if not line.startswith("list-jobs")]


RESTARTED = "1234 UNIT          restart running"
HANDOVER = r"ipoibd-handover@my\x2ddevice:1.service"


def restart_hands_over():
    assert calls_of_restart("give", [RESTARTED]) == \
        [f"start {HANDOVER}", "tail --pid=1234 -f /dev/null"]
    assert calls_of_restart("give", [RESTARTED], starts=1) == [f"start {HANDOVER}"]
    assert calls_of_restart("end", [RESTARTED]) == []


def stop_is_for_good():
    for jobs in ([], ["1234 UNIT stop running"], ["1234 UNIT start waiting"],
                 ["1234 other-UNIT restart running"]):
        assert calls_of_restart("give", jobs) == [], jobs
        assert calls_of_restart("end", jobs) == [f"--no-block stop {HANDOVER}"], jobs
    assert calls_of_restart("give", [RESTARTED], main_pid="") == [], "the daemon has ended by itself"


if shutil.which("systemd-analyze") is None:
    print("skipped: systemd-analyze is not installed")
    sys.exit(77)
for test in (units_are_valid, exposure_is_limited, permits_the_system_calls_of_the_daemon,
             has_the_capabilities_that_the_daemon_keeps, restart_hands_over, stop_is_for_good):
    print(test.__name__, flush=True)
    test()
