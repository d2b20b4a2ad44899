#!/usr/bin/env python3
"""A hostile host, process, user and station attack a daemon while a TCP stream goes on: it still does, the
attack is counted, neighbours are resolved and groups joined, and the victim's neighbours stay as they
are.

scripts/bench measures how much slower the stream is then (part "hostile").
"""

import re
import statistics

import attacks
import hosts
import others
import streams
from hosts import wait_until

# Of connections to attackers that have gone, and that the victim has not noticed yet.
DESCRIPTORS = 20
# Broadcasts a second that fill a ring several times while the slow receiver does not run.
SHOUTS = 6000
PINGS = 300
# At most so many times as long is a round trip beside the slow receiver. It was 100 and more when the
# sender waited for each packet that the receiver took.
SLOWER = 25


class HostileHost(hosts.Pair):
    def set_up_scene(self):
        self.set_up()
        self.left.start(address="10.44.0.1/16")
        self.right.start(address="10.44.0.2/16")
        self.lladdr = self.left.ibarp("info")["lladdr"]
        return attacks.Scene(self.right, self.left, self.add_host("hostile", "10.44.0.3/16"))

    def set_up_station_scene(self, scene):
        bridge = self.subnet.host("bridge")
        bridge.start("--ethernet", address="10.44.0.4/16")
        return attacks.Scene(bridge, self.left, scene.hostile)

    def neighbour(self):
        """Returns the link-layer address that right has for left."""
        entries = self.right.run(hosts.program("ibarp"), "show", "10.44.0.1", "--json").stdout
        return hosts.json.loads(entries)[0]["lladdr"]

    def has_closed(self, scene, descriptors):
        """A broadcast shows the victim which receivers have gone."""
        scene.victim.ping("10.44.255.255", "-b", "-c", "1", "-W", "0.1")
        return scene.descriptors() <= descriptors + DESCRIPTORS

    def check(self, attack, scene, stream):
        before, descriptors = scene.counters(), scene.descriptors()
        with attacks.under(attack, scene):
            received = stream.received()
            wait_until(lambda: stream.received() > received + 1, "the stream goes on")
            if attack.measured == "resolutions":
                self.assertGreater(others.resolutions(scene.victim, 1), others.RESOLUTIONS / 2)
            elif attack.measured == "joins":
                others.joins(scene.neighbour, 0.1)
        wait_until(lambda: self.has_closed(scene, descriptors), "descriptors are closed")
        self.assertEqual(self.neighbour(), self.lladdr)
        self.assertEqual(scene.counters()["carrier_losses"], before["carrier_losses"])
        self.assertTrue(scene.victim.daemon.is_running(), scene.victim.daemon.output())

    def test_stream_goes_on_during_each_attack(self):
        scene = self.set_up_scene()
        scenes = {False: scene, True: self.set_up_station_scene(scene)}
        others.prepare(self.left)
        self.addCleanup(streams.start(self.left, others.ECHO, self.subnet.folder, "echo").end)
        stream = streams.Endless(self.left, self.right, "10.44.0.2")
        self.addCleanup(stream.close)
        wait_until(lambda: stream.received() > 0, "the stream begins")
        for attack in attacks.ATTACKS:
            with self.subTest(attack.name):
                self.check(attack, scenes[attack.at_station], stream)
        stream.end()

    def round_trip(self):
        """Returns the median in milliseconds."""
        pings = self.right.ping("10.44.0.1", "-n", "-i", "0.01", "-c", str(PINGS)).stdout
        return statistics.median(map(float, re.findall(r"time=([\d.]+)", pings)))

    def test_slow_receiver_delays_nobody_else(self):
        scene = self.set_up_scene()
        self.enterContext(scene.broadcasts(SHOUTS, 10**9))
        willing = self.round_trip()
        before = scene.counters()
        with attacks.SlowReceiver(scene.hostile):
            wait_until(lambda: scene.counters()["hca drop_congested"]
                       > before["hca drop_congested"] + SHOUTS / 10, "broadcasts are dropped", 120)
            wait_until(lambda: self.round_trip() < SLOWER * willing, "others are not delayed")


class WrongKeys(hosts.Pair):
    """Packets that the port refuses by their keys."""

    def assert_seen(self, key, name):
        """Of right's port, in the counters, the metrics and the log."""
        wait_until(lambda: self.right.counters()[f"drop_port_bad_{key}"] > 0, "they are counted")
        others_key = {"qkey": "pkey", "pkey": "qkey"}[key]
        self.assertEqual(self.right.counters()[f"drop_port_bad_{others_key}"], 0)
        self.assertRegex(self.right.run(hosts.program("ibarp"), "stats").stdout, rf"drop_port_bad_{key} +[1-9]")
        self.assertRegex(self.right.run(hosts.program("ibarp"), "metrics").stdout,
                         rf'ipoib_port_drops_total{{[^}}]*reason="port_bad_{key}"[^}}]*}} [1-9]')
        self.right.wait_for_log(f"packets refused by their {name}: ", "ibarp info on both hosts")

    def test_wrong_qkey(self):
        self.set_up()
        self.start()
        scene = attacks.Scene(self.right, self.left, self.left)
        scene.info["qkey"] = hex(int(scene.info["qkey"], 16) ^ 1)
        with attacks.from_hca("probes")(scene, attacks.DATAGRAMS, 100) as sender:
            wait_until(lambda: not sender.is_running(), "all are sent")
            self.assertEqual(sender.popen.returncode, 0, sender.output())
        self.assert_seen("qkey", "Q_Key")
        self.assertEqual(self.right.counters()["arp_limited"], 0, "none has reached the daemon")

    def test_wrong_pkey(self):
        """Two limited members; the sender knows the other one from before."""
        self.set_up()
        self.start()
        self.assert_connected()
        for host in "left", "right":
            self.softib_set("partition", "0x7fff", host, "limited")
        self.left.ping("10.44.0.2", "-c", "3", "-i", "0.1", "-W", "0.1")
        self.assert_seen("pkey", "P_Key")
        self.assertEqual(self.right.ibarp("info")["membership"], "limited")
        for command, text in (("info", "0xffff limited"), ("interface", "limited"),
                              ("metrics", 'ipoib_limited_member{interface="ib0"} 1')):
            self.assertIn(text, self.right.run(hosts.program("ibarp"), command).stdout)


if __name__ == "__main__":
    hosts.main()
