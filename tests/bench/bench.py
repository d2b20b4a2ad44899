#!/usr/bin/env python3
"""The benchmark's parts, run and shown; scripts/bench --help says what there is.

A part is a module with three functions:

    measure(options)           measures, and returns what can be written as JSON
    text(measured)             that as a table of Markdown
    pictures(measured, plots)  {name: figure of matplotlib}, with the module plots

What was measured is in build/bench/<part>.json until it is measured again, so the document can be
made from parts that were measured one by one.
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
PARTS = ("paths", "verbs", "latency", "idle", "cache", "kernel", "costs")
DOCUMENT = ROOT / "docs" / "performance.md"
IMAGES = DOCUMENT.parent / "images"


def interrupted(number, _):
    signal.signal(number, signal.SIG_IGN)  # once is enough: what was set up is being taken down
    raise SystemExit(128 + number)


def draw(part, measured, folder):
    """Returns the names of the pictures, where there is something to draw with."""
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
    measured = part.measure(options)
    (folder / f"{name}.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    print(part.text(measured), flush=True)
    draw(part, measured, folder)


def put(document, name, block):
    """The document with a block between its markers."""
    begin, end = f"<!-- measured: {name} -->\n", "<!-- end -->\n"
    found = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.S)
    if not found.search(document):
        raise SystemExit(f"{DOCUMENT} has no place for {name}: {begin}{end}")
    return found.sub(lambda _: f"{begin}{block}{end}", document)


def write_document(folder):
    """From all parts that have been measured."""
    document = DOCUMENT.read_text(encoding="utf-8")
    for name in PARTS:
        file = folder / f"{name}.json"
        if not file.exists():
            print(f"{name} has not been measured, and stays as it is in {DOCUMENT}")
            continue
        part, measured = importlib.import_module(name), json.loads(file.read_text("utf-8"))
        shown = [f"\n![{picture}](images/{picture}.svg)\n"
                 for picture in draw(part, measured, IMAGES)]
        document = put(document, name, part.text(measured) + "".join(shown))
    DOCUMENT.write_text(document, encoding="utf-8")


def take_down_namespaces():
    """Those that an interrupt in the middle of a set-up has left."""
    for left in pathlib.Path("/run/netns").glob(f"ipoibd-{os.getpid()}-*"):
        subprocess.run(["ip", "netns", "delete", left.name], check=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="the build folder")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--kernel-peer", type=pathlib.Path)
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
        take_down_namespaces()


if __name__ == "__main__":
    sys.exit(main())
