#!/usr/bin/env python3
"""Takes the picture of `softib view` in the README, view.png: a fat tree with traffic, by Chromium without a window.

Usage: view.py SOFTIB
"""
import pathlib
import re
import subprocess
import sys

IMAGES = pathlib.Path(__file__).resolve().parent
TESTS = IMAGES.parents[1] / "tests"
sys.path[:0] = [str(TESTS / "unit/softib/cli"), str(TESTS / "interop")]
import browser  # noqa: E402
from softib_subnet import Subnet, need  # noqa: E402

SIZE = 1180, 640
PAIRS = ((1, 18), (2, 10), (5, 14), (9, 3))  # hosts that talk


def main():
    need("ibping")
    if browser.program() is None:
        sys.exit("chromium is not installed")
    with Subnet(sys.argv[1], "--topology", "fat-tree:6,2") as subnet:
        lids = {name: node["lid"] for name, node in subnet.nodes().items()}
        for server, client in PAIRS:
            subnet.start(f"host-{server}", "ibping", "-S")
            subnet.start(f"host-{client}", "ibping", "-f", str(lids[f"host-{server}"]), stdout=subprocess.DEVNULL)
        subnet.softib("set", "cable", "leaf-6", "spine-3", "down")
        view = subprocess.Popen([sys.argv[1], "view"], env=subnet.environment, stdout=subprocess.PIPE, text=True)
        subnet.processes.append(view)
        url = re.match(r"http://\S+", view.stdout.readline())[0]
        with browser.Browser(*SIZE) as one:
            one.prefer("light")
            one.open(url)
            one.wait_for("document.querySelectorAll('#map .cable.busy').length >= 8")
            one.click("#map .node[data-name='leaf-1']")
            one.wait_for("document.querySelectorAll('#tables table').length === 4")
            one.value("window.scrollTo(0, 0)")
            (IMAGES / "view.png").write_bytes(one.screenshot())


main()
