#!/usr/bin/env python3
"""ibarp save, whose commands set again what a daemon loses at its end, and ibarp bugreport."""

import json
import os
import stat
import tarfile
import tempfile

import hosts
from hosts import wait_until

IBARP = hosts.program("ibarp")
PIN = "fe80::2:c903:0:77"


class Save(hosts.Pair):
    def setUp(self):
        self.set_up()
        self.left.start("--pkey", "0xffff", address="10.44.0.1/24")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "saved")

    def restart(self):
        self.left.daemon.end()
        self.left.start("--pkey", "0xffff", address="10.44.0.1/24")

    def settings(self):
        show = json.loads(self.left.run(IBARP, "--json", "show", "nud", "permanent,pinned").stdout)
        entries = sorted((each["interface"], each["address"], each.get("pinned_gid", each.get("lladdr")))
                         for each in show)
        return entries, sorted(each["interface"] for each in self.interfaces())

    def interfaces(self):
        return json.loads(self.left.run(IBARP, "--json", "interface").stdout)

    def test_settings_survive_the_daemon(self):
        run = self.left.run
        run(IBARP, "interface", "add", "0x12", "name", "red")
        wait_until(lambda: self.left.link("red"), "the interface is there")
        run(IBARP, "add", "10.44.0.9", "lladdr", "7@fe80::1", "dev", "ib0")
        run(IBARP, "add", "10.44.0.8", "gid", PIN, "dev", "red")
        run(IBARP, "log", "link=debug", "dev", "ib0")
        before = self.settings()
        self.assertEqual(before[1], ["ib0", "red"])
        run(IBARP, "save", "--output", self.file)
        self.restart()
        self.assertEqual(self.settings(), ([], ["ib0"]))
        run(IBARP, "--force", "--batch", self.file)
        self.assertEqual(self.settings(), before)
        self.assertEqual(self.left.ibarp("log")["levels"]["link"], "debug")
        # A second time, and while everything is there, it changes nothing and complains about nothing.
        self.assertEqual(run(IBARP, "--batch", self.file).stderr, "")
        self.assertEqual(self.settings(), before)

    def test_a_name_or_partition_in_use_is_an_error(self):
        self.left.run(IBARP, "interface", "add", "0x12", "name", "red")
        for arguments in ["0x12", "name", "blue"], ["0x13", "name", "red"]:
            done = self.left.run(IBARP, "interface", "replace", *arguments, check=False)
            self.assertEqual(done.returncode, 1, done)
        self.assertEqual(self.left.run(IBARP, "interface", "replace", "0x8012").returncode, 0)

    def test_nothing_is_saved_if_a_daemon_does_not_respond(self):
        self.left.run(IBARP, "save", "--output", self.file)
        with open(self.file, encoding="utf-8") as file:
            before = file.read()
        self.left.kill()
        done = self.left.run(IBARP, "save", "--output", self.file, check=False)
        self.assertEqual(done.returncode, 1)
        with open(self.file, encoding="utf-8") as file:
            self.assertEqual(file.read(), before)

    def test_bugreport(self):
        done = self.left.run(IBARP, "bugreport", "--output", self.file)
        self.assertEqual(done.stdout, self.file + "\n")
        self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode), 0o600)
        with tarfile.open(self.file) as archive:
            texts = {each.name: archive.extractfile(each).read().decode() for each in archive.getmembers()}
        for name in ("README", "versions.txt", "metrics.txt", "ib0/info.json", "ib0/stats.txt", "ib0/trace.txt",
                     "ib0/groups.txt", "ib0/check.txt", "ib0/log-levels.txt"):
            self.assertTrue(texts.get(name), (name, sorted(texts)))
        self.assertIn("ib0/neighbours.txt", texts)
        info = json.loads(texts["ib0/info.json"])
        self.assertEqual(info["interface"], "ib0")
        qkey = self.left.ibarp("info")["qkey"]
        self.assertFalse([name for name, text in texts.items() if qkey in text], "a Q_Key")
        self.assertIn("ipoib_up", texts["metrics.txt"])
        self.assertIn("Max locked memory", texts[f"process-{info['pid']}.txt"])
        # An existing file stays; and without daemons there is a report, too.
        self.assertEqual(self.left.run(IBARP, "bugreport", "--output", self.file, check=False).returncode, 1)
        self.left.kill()
        os.unlink(self.file)
        self.left.run(IBARP, "bugreport", "--output", self.file)
        with tarfile.open(self.file) as archive:
            problems = archive.extractfile("problems.txt").read().decode()
        self.assertIn("ib0", problems)


if __name__ == "__main__":
    hosts.main()
