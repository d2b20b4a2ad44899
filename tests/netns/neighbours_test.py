#!/usr/bin/env python3
"""Permanent entries and pins, of the file and of the operator."""

import json
import signal

import hosts
from hosts import wait_until

PEER, ABSENT, OTHER = "10.44.0.2", "10.44.0.77", "10.44.0.78"
NOBODY_HAS = "0x401@fe80::2:c903:0:77"


class StaticNeighbours(hosts.Pair):
    def setUp(self):
        self.set_up()
        self.right.start(address=f"{PEER}/24")
        self.file = self.subnet.folder / "neighbours"

    def ibarp(self, *arguments, status=0):
        done = self.left.run(hosts.program("ibarp"), *arguments, check=False)
        self.assertEqual(done.returncode, status, f"{arguments}: {done.stdout}{done.stderr}")
        return done.stdout

    def entries(self):
        return {entry["address"]: entry for entry in json.loads(self.ibarp("show", "--json"))}

    def start_left(self):
        """With a pin of the peer, and a permanent entry."""
        self.gid = self.right.ibarp("info")["gid"]
        self.file.write_text(f"# of left\n{self.gid} {PEER} ib0\n{NOBODY_HAS} {ABSENT}\n")
        self.left.start("--neighbour-file", str(self.file), address="10.44.0.1/24")

    def assert_reached(self):
        wait_until(lambda: self.left.reaches(PEER), "left reaches right")

    def test_are_read_from_the_file(self):
        self.start_left()
        found = self.entries()
        self.assertEqual((found[PEER]["state"], found[PEER]["pinned_gid"]), ("pinned", self.gid))
        self.assertEqual(found[ABSENT]["state"], "permanent")
        self.assert_reached()
        self.assertEqual(self.entries()[PEER]["lladdr"], self.right.ibarp("info")["lladdr"])
        self.right.daemon.end(signal.SIGKILL)
        self.right.start()  # adopts the interface with its address, and has another QPN
        self.assert_reached()

    def test_survive_a_failure_of_the_device(self):
        self.start_left()
        self.ibarp("add", OTHER, "gid", "fe80::78")
        self.ibarp("del", ABSENT)
        self.softib_set("hca", "left", "failed")
        self.left.wait_for_log("waiting for", "to come back")
        self.softib_set("hca", "left", "present")
        wait_until(self.left.has_carrier, "the device is back")
        self.assert_reached()
        found = self.entries()
        self.assertEqual(found[PEER]["pinned_gid"], self.gid)
        self.assertEqual(found[OTHER]["pinned_gid"], "fe80::78")
        self.assertNotIn(ABSENT, found)

    def test_pin_keeps_others_away(self):
        self.start_left()
        self.assert_reached()
        thief = self.add_host("thief", f"{PEER}/24")
        wait_until(lambda: self.left.ibarp("stats")["drops"].get("drop_pinned_gid", 0) > 0,
                   "the claims of the thief are dropped")
        self.assertEqual(self.entries()[PEER]["gid"], self.gid)
        self.assertNotEqual(thief.ibarp("info")["gid"], self.gid)
        self.assert_reached()

    def test_file_is_loaded_by_ibarp(self):
        self.start_left()
        self.file.write_text(f"fe80::78 {OTHER}\nfe80::9 {ABSENT} ib7\n")
        self.ibarp("-f", str(self.file))
        found = self.entries()
        self.assertEqual(found[OTHER]["pinned_gid"], "fe80::78")
        self.assertEqual(found[ABSENT]["state"], "permanent", "the line is for another interface")
        self.file.write_text("fe80::79 somewhere\n")
        self.ibarp("-f", str(self.file), status=2)

    def test_wrong_file_is_an_error(self):
        self.file.write_text("\nfe80::79 somewhere\n")
        for name, why in ((self.file, f'{self.file}:2: "somewhere" is no IP address'),
                          (self.subnet.folder / "absent", "No such file")):
            done = self.left.run(hosts.program("ipoibd"), "--neighbour-file", str(name), check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    hosts.main()
