#!/usr/bin/env python3
"""The recipe of docs/service.md for ifupdown."""

import os
import pathlib
import re
import textwrap

import hosts
from hosts import wait_until

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/service.md"


def recipe():
    text = DOCUMENT.read_text(encoding="utf-8")
    found = re.search(r"^    # /etc/network/interfaces.d/ib0\n((?:    .*\n)+)", text, re.M)
    return textwrap.dedent(found[1])


class Ifupdown(hosts.Pair):
    def test_recipe(self):
        hosts.need("ifup")
        self.set_up()
        self.right.start(address="10.44.0.2/24")
        self.left.start()
        file = os.path.join(self.subnet.folder, "interfaces")
        pathlib.Path(file).write_text(recipe(), encoding="utf-8")
        options = ("--interfaces", file, "--state-dir", str(self.subnet.folder))
        # As udev's rule does.
        self.left.run("ifup", *options, "--allow=hotplug", "ib0")
        wait_until(lambda: self.left.reaches("10.44.0.2"), "left reaches right")
        self.left.run("ifdown", *options, "ib0")
        self.assertNotIn("10.44.0.1", str(self.left.link("ib0")["addr_info"]))


if __name__ == "__main__":
    hosts.main()
