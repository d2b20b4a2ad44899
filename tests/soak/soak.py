#!/usr/bin/env python3
"""Hosts on an emulated subnet with random faults. scripts/soak runs this and has the description.

The programs are in the folder IPOIB_BIN.

Usage: soak.py --seconds N --seed S --hosts N [--topology T] [--hostile]
"""

import argparse
import contextlib
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import actions
import attackers
import checks
import faults
import hosts
import peer

# Seconds after the end of the attackers until no process may have more than it is to have.
PAUSE_AFTER_ATTACKS = 10


class Interrupted(Exception):
    """A signal ends the run."""


class Signals:
    """Remembers the first signal, so that it ends the run only where check() is called, and nothing is
    left half done."""

    def __init__(self):
        self.number = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.remember)

    def remember(self, number, _):
        self.number = self.number or number

    def check(self):
        if self.number is not None:
            raise Interrupted

    def sleep(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, 0.1))


class Soak:
    def __init__(self, setting, seed, signals, hostile=None):
        self.setting = setting
        self.hostile = hostile  # the attackers, if there are any
        self.signals = signals
        self.generator = faults.Generator(seed, setting.hosts, setting.cables, setting.switches)
        self.names = [None, *setting.hosts]  # by number
        self.logs = checks.Logs(setting.subnet.folder)
        self.bound = checks.stated_bound()
        self.wanted = checks.paths(len(setting.hosts), len(actions.INTERFACES), len(peer.CHANNELS))
        self.started = time.monotonic()
        self.rounds, self.faults, self.longest = 0, 0, 0
        self.statuses = {}

    def say(self, text):
        print(f"{time.monotonic() - self.started:8.1f} s  {text}", flush=True)

    def run(self, seconds):
        """Returns the findings; ends after the first round that has any."""
        findings = self.check()
        while not findings and (self.rounds == 0 or
                                time.monotonic() - self.started + faults.ROUND_SECONDS <= seconds):
            self.rounds += 1
            if self.hostile:
                self.say(f"attacks: {', '.join(self.hostile.begin())}")
            findings = self.cause(self.generator.round()) + self.check()
        return findings

    def cause(self, chosen):
        """Lets the faults of a round happen. Whatever happens meanwhile, all are repaired."""
        begin = time.monotonic()
        for when, fault, is_repair in faults.actions(chosen):
            self.signals.sleep(begin + when - time.monotonic())
            self.setting.assert_running()
            self.say(f"{fault}: ends" if is_repair else str(fault))
            if is_repair:
                self.setting.repair(fault)
            else:
                self.faults += 1
                self.setting.begin(fault)
        out, self.setting.findings = self.setting.findings, []
        return out

    def check(self):
        """Waits until all hosts reach each other, and returns findings."""
        self.setting.begin_epoch(self.rounds)
        findings = self.wait_for_paths()
        if not findings:
            findings = self.wait_for_transfers()
        for number, status in self.statuses.items():
            findings += [f"{self.names[number]}: {text}" for text in status["wrong"]]
        if not findings:
            findings = self.grown()
        return findings + self.setting.watch.ended() + self.logs.faults()

    def grown(self):
        """Measures the processes; after attacks, when the connections to the attackers have ended."""
        if not self.hostile:
            return self.setting.watch.grown()
        self.hostile.end()
        end = time.monotonic() + PAUSE_AFTER_ATTACKS
        while (findings := self.setting.watch.grown()) and time.monotonic() < end:
            self.hostile.show_gone()
            self.signals.sleep(0.5)
        return findings

    def wait_for_paths(self):
        most = self.bound / peer.INTERVAL
        while True:
            self.statuses = self.setting.statuses()
            late = checks.unreached(self.statuses, self.wanted, most)
            if late:
                return [f"{self.name(path)}: not reached after {self.bound} s" for path in late]
            lost = checks.outages(self.statuses, self.wanted)
            if None not in lost.values():
                break
            self.signals.sleep(peer.INTERVAL)
        path = max(lost, key=lost.get)
        outage = lost[path] * peer.INTERVAL
        self.longest = max(self.longest, outage)
        self.say(f"round {self.rounds}: all pairs reach each other"
                 + (f", the last after {outage:.1f} s: {self.name(path)}" if outage else ""))
        return []

    def name(self, path):
        receiver, sender, interface, channel = path
        return (f"{self.names[sender]} to {self.names[receiver]}, {peer.CHANNELS[channel]}, "
                f"{actions.INTERFACES[interface]}")

    def wait_for_transfers(self):
        try:
            hosts.wait_until(self.has_transfers, "transfers")
            return []
        except AssertionError:
            return [f"{self.names[sender]} to {self.names[receiver]}: no transfer is completed"
                    for sender, receiver in checks.without_transfer(self.statuses)]

    def has_transfers(self):
        self.statuses = self.setting.statuses()
        return not checks.without_transfer(self.statuses) or any(
            status["wrong"] for status in self.statuses.values())

    def summary(self):
        if self.hostile:
            print(self.hostile.summary())
        total = {name: sum(status[name] for status in self.statuses.values())
                 for name in ("transfers", "bytes", "broken")}
        print(f"{self.faults} faults in {self.rounds} rounds, {time.monotonic() - self.started:.0f} s; "
              f"all pairs reached each other after at most {self.longest:.1f} s (bound {self.bound} s)")
        print(f"{total['transfers']} TCP transfers with {total['bytes'] / 2**20:.0f} MiB; "
              f"{total['broken']} broken connections")
        watch = self.setting.watch
        print(f"{'process':12} {'descriptors':>16} {'KiB of memory':>20}")
        for name in sorted(name for name in watch.first if not name.endswith(".peer")):
            pairs = ["not checked" if now is None else f"{before} -> {now}"
                     for before, now in zip(watch.first[name], watch.last[name])]
            print(f"{name:12} {pairs[0]:>16} {pairs[1]:>20}")


def keep_logs(folder):
    """Returns a new folder with the logs."""
    kept = pathlib.Path(tempfile.mkdtemp(prefix="ipoibd-soak-"))
    for log in folder.glob("*.log"):
        shutil.copy(log, kept)
    return kept


def show_state(setting):
    """Writes what the daemons and the subnet know into logs."""
    for host in setting.hosts.values():
        with open(setting.subnet.folder / f"{host.name}.state.log", "w", encoding="utf-8") as log:
            log.write(host.run("ip", "addr", check=False).stdout)
            for interface in actions.INTERFACES:
                for command in ("info", "show", "groups", "stats", "trace"):
                    done = host.run("timeout", "3", hosts.program("ibarp"), command, "-i", interface,
                                    check=False)
                    log.write(f"--- ibarp {command} -i {interface}\n{done.stdout}{done.stderr}")
                    if done.returncode == 124:
                        log.write("the daemon does not respond\n")
                        break
    shown = setting.subnet.run_softib("show", "--wide")
    (setting.subnet.folder / "show.log").write_text(shown.stdout + shown.stderr, encoding="utf-8")


def soak(wanted, signals):
    """Returns the exit status."""
    if wanted.hostile:
        attackers.limit_descriptors()
    with contextlib.ExitStack() as stack:
        setting = stack.enter_context(actions.Setting(wanted.hosts, wanted.seed, signals.check, wanted.topology))
        hostile = stack.enter_context(attackers.Attackers(setting, wanted.seed)) if wanted.hostile else None
        run = Soak(setting, wanted.seed, signals, hostile)
        print(f"begun at {time.strftime('%H:%M:%S')}, {wanted.hosts} hosts; "
              f"the daemon of {run.generator.steady} runs all the time", flush=True)
        try:
            findings = run.run(wanted.seconds)
        except (AssertionError, OSError, ValueError, subprocess.SubprocessError) as error:
            signals.check()  # Ctrl-C also ends programs that were just running
            findings = [*setting.findings, str(error)]
        finally:
            run.summary()
        for finding in findings:
            print(f"FAULT: {finding}")
        if findings:
            show_state(setting)
            print(f"logs: {keep_logs(setting.subnet.folder)}")
    print(f"{'failed' if findings else 'passed'}: seed {wanted.seed}", flush=True)
    return 1 if findings else 0


def main():
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--hosts", type=int, required=True)
    parser.add_argument("--topology")
    parser.add_argument("--hostile", action="store_true")
    wanted = parser.parse_args()
    signals = Signals()
    print(f"starting {wanted.hosts} hosts on an emulated subnet", flush=True)
    try:
        return soak(wanted, signals)
    except (Interrupted, subprocess.SubprocessError):
        if signals.number is None:
            raise
        print(f"interrupted: seed {wanted.seed}", flush=True)
        return 128 + signals.number


if __name__ == "__main__":
    sys.exit(main())
