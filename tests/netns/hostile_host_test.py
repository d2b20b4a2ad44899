#!/usr/bin/env python3
"""A hostile host, process and user attack a daemon that serves a TCP stream meanwhile: the stream goes
on, what the attacker sends is counted and dropped, and the victim's neighbours stay as they are.

scripts/bench measures how much slower the stream is then (part "hostile").
"""

import re
import signal
import statistics
import threading

import attacks
import hosts
import streams
from hosts import wait_until

MESSAGES = 800
# Of connections to attackers that have gone, and that the victim has not noticed yet.
DESCRIPTORS = 20
# Broadcasts a second that fill a ring several times while the slow receiver does not run.
SHOUTS = 6000
PINGS = 300
# At most so many times as long is a round trip beside the slow receiver. It was 100 and more when the
# sender waited for each packet that the receiver took.
SLOWER = 25


class SlowReceiver:
    """Lets a host run only for a moment, eight times a second, while this object is entered."""

    PAUSE, MOMENT = 0.125, 0.0002

    def __init__(self, host):
        self.send_signal = host.daemon.popen.send_signal
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.is_over.wait(self.MOMENT):
            self.send_signal(signal.SIGSTOP)
            self.is_over.wait(self.PAUSE)
            self.send_signal(signal.SIGCONT)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


class HostileHost(hosts.Pair):
    def set_up_scene(self):
        self.set_up()
        self.left.start(address="10.44.0.1/16")
        self.right.start(address="10.44.0.2/16")
        self.lladdr = self.left.ibarp("info")["lladdr"]
        return attacks.Scene(self.right, self.left, self.add_host("hostile", "10.44.0.3/16"))

    def neighbour(self):
        """Returns the link-layer address that right has for left."""
        entries = self.right.run(hosts.program("ibarp"), "show", "10.44.0.1", "--json").stdout
        return hosts.json.loads(entries)[0]["lladdr"]

    def check(self, attack, scene, stream):
        before, descriptors, received = scene.counters(), scene.descriptors(), stream.received()
        attacks.carry_out(attack, scene, MESSAGES)
        after = scene.counters()
        for name in attack.rises:
            self.assertGreater(after[name], before[name], name)
        wait_until(lambda: stream.received() > received, "the stream goes on")
        wait_until(lambda: scene.descriptors() <= descriptors + DESCRIPTORS, "descriptors are closed")
        self.assertEqual(self.neighbour(), self.lladdr)
        self.assertEqual(after["carrier_losses"], before["carrier_losses"])
        self.assertTrue(self.right.daemon.is_running(), self.right.daemon.output())

    def test_stream_goes_on_during_each_attack(self):
        scene = self.set_up_scene()
        stream = streams.Endless(self.left, self.right, "10.44.0.2")
        self.addCleanup(stream.close)
        wait_until(lambda: stream.received() > 0, "the stream begins")
        for attack in attacks.ATTACKS:
            with self.subTest(attack.name):
                self.check(attack, scene, stream)
        stream.end()

    def round_trip(self):
        """Returns the median in milliseconds."""
        pings = self.right.ping("10.44.0.1", "-n", "-i", "0.01", "-c", str(PINGS)).stdout
        return statistics.median(map(float, re.findall(r"time=([\d.]+)", pings)))

    def test_slow_receiver_delays_nobody_else(self):
        scene = self.set_up_scene()
        shouts = scene.script(attacks.SHOUTS, "10.44.255.255", SHOUTS, 10**9, host=self.right)
        self.addCleanup(shouts.end)
        willing = self.round_trip()
        before = scene.counters()
        with SlowReceiver(scene.hostile):
            wait_until(lambda: scene.counters()["hca drop_congested"]
                       > before["hca drop_congested"] + SHOUTS / 10, "broadcasts are dropped", 120)
            slow = self.round_trip()
        self.assertLess(slow, SLOWER * willing)


if __name__ == "__main__":
    hosts.main()
