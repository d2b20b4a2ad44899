#!/usr/bin/env python3
"""Runs the parts of the benchmark and prints their tables; scripts/bench --help lists the parts.

A part is a module with three functions:

    measure(options)           measures, and returns a value that can be written as JSON
    text(measured)             formats that value as Markdown tables
    pictures(measured, plots)  returns {name: matplotlib figure}; plots is the module

It may set SECONDS, the default of --seconds.

Results stay in build/bench/<part>.json until the part is measured again, so the document can be
written from parts that were measured separately.
"""
import argparse
import importlib
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("paths", "verbs", "sockets", "roce", "rxe", "latency", "idle", "cache", "pinning", "ethernet", "hostile",
         "kernel", "costs", "build")
DOCUMENT = ROOT / "docs" / "performance.md"
IMAGES = DOCUMENT.parent / "images"
SECONDS = 2


def interrupted(number, _):
    signal.signal(number, signal.SIG_IGN)  # ignore repeats during clean-up
    raise SystemExit(128 + number)


def draw(part, measured, folder):
    """Returns the names of the pictures; none without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        print(f"no pictures of {part.__name__}: python3-matplotlib is not installed")
        return []
    import plots
    pictures = part.pictures(measured, plots)
    folder.mkdir(exist_ok=True)
    for name, figure in pictures.items():
        plots.save(figure, folder / f"{name}.svg")
    return list(pictures)


def run(name, options, folder):
    print(f"==> {name}", flush=True)
    part = importlib.import_module(name)
    seconds = options.seconds or getattr(part, "SECONDS", SECONDS)
    measured = part.measure(argparse.Namespace(**{**vars(options), "seconds": seconds}))
    (folder / f"{name}.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    print(part.text(measured), flush=True)
    draw(part, measured, folder)


def put(document, name, block):
    """Returns the document with the block between the markers of that name replaced."""
    begin, end = f"<!-- measured: {name} -->\n", "<!-- end -->\n"
    found = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.S)
    if not found.search(document):
        raise SystemExit(f"{DOCUMENT} has no markers for {name}: {begin}{end}")
    return found.sub(lambda _: f"{begin}{block}{end}", document)


def write_document(folder):
    """Puts the tables and pictures of all measured parts into the document."""
    document = DOCUMENT.read_text(encoding="utf-8")
    for name in PARTS:
        file = folder / f"{name}.json"
        if not file.exists():
            print(f"{name} has not been measured; it is left unchanged in {DOCUMENT}")
            continue
        part, measured = importlib.import_module(name), json.loads(file.read_text("utf-8"))
        shown = [f"\n![{picture}](images/{picture}.svg)\n"
                 for picture in draw(part, measured, IMAGES)]
        document = put(document, name, part.text(measured) + "".join(shown))
    DOCUMENT.write_text(document, encoding="utf-8")


def take_down():
    """Kills processes and deletes namespaces that an interrupted set-up has left behind: the signal
    may come between their start and their registration for the end."""
    children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children")
    for pid in map(int, children.read_text(encoding="ascii").split()):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    for left in pathlib.Path("/run/netns").glob(f"ipoibd-{os.getpid()}-*"):
        subprocess.run(["ip", "netns", "delete", left.name], check=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="the build folder")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--document", action="store_true")
    parser.add_argument("parts", nargs="*", metavar="PART")
    options = parser.parse_args()
    folder = options.programs / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    if options.document:
        return write_document(folder)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    os.environ["IPOIB_BIN"] = str(options.programs / "bin")
    try:
        for name in options.parts:
            run(name, options, folder)
    finally:
        take_down()


if __name__ == "__main__":
    sys.exit(main())
