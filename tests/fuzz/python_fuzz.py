#!/usr/bin/env python3
"""Fuzz targets for the parsers that are written in Python: lab files, and what a container runtime and a plugin for
addresses send to the CNI plugin.

Inputs are changed copies of those in corpus/TARGET. One that reaches a new line of the program is kept and changed
further. An input fails if the program ends by an exception, or says something that is not in its own format.

Usage: python_fuzz.py TARGET [--runs N | --seconds N] [--seed N] [FILE]...
With FILEs, runs only these first, and not those of the corpus.
"""
import argparse
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import random
import sys
import tempfile
import time
import types

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE.parents[1] / "python"
sys.dont_write_bytecode = True
MAX_SIZE = 4096  # bytes of an input


# --- Changes of inputs -----------------------------------------------------------------------------

VALUES = (None, True, False, 0, -1, 1.5, 1 << 70, "", "x", "\0", "\ud800", "a" * 300, [], {}, [[]], [{}], {"": 0}, "0x8001",
          "10.0.0.1/24", "fd00::1/64", "../x", float("inf"))


def places_in(value, path=()):
    """Yields the path of each value in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places_in(inner, (*path, key))


def with_a_changed_value(value, numbers):
    """Returns a copy of a JSON value, in which one value has gone or is another one."""
    value = json.loads(json.dumps(value))
    path = numbers.choice(list(places_in(value)))
    new = numbers.choice(VALUES)
    if not path:
        return new
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    kind = numbers.randrange(4)
    if kind == 0:
        del inner[path[-1]]
    elif kind == 1 and isinstance(inner, list):
        inner.append(inner[path[-1]])
    elif kind == 2 and isinstance(inner, dict):
        inner[numbers.choice(["", "x", *map(str, inner)])] = inner.pop(path[-1])
    else:
        inner[path[-1]] = new
    return value


def with_changed_bytes(text, words, numbers):
    """Returns a copy in which some bytes have gone, are there twice, are others, or are a word."""
    at = numbers.randrange(len(text) + 1)
    end = min(len(text), at + numbers.randrange(1, 17))
    kind = numbers.randrange(4)
    if kind == 0:
        return text[:at] + text[end:]
    if kind == 1:
        return text[:end] + text[at:end] + text[end:]
    if kind == 2:
        return text[:at] + bytes([numbers.randrange(256)]) + text[at + 1:]
    return text[:at] + numbers.choice(words).encode() + text[numbers.choice((at, end)):]


# --- Targets ---------------------------------------------------------------------------------------


class LabFiles:
    """Lab files: each is a lab from which one can come to another and back, or has errors with their positions."""

    WORDS = ("!!bool ", "!!int ", "!!float ", "!!timestamp ", "!!binary ", "!!set ", "!!null ", "!!python/name:os.system ",
             "&a ", "*a", "<<: ", "? ", "- ", "{", "}", "[", "]", ": ", "|", ">", "%YAML 1.1", "---\n", "...\n", "\n  ",
             "0x8001", "1e999", ".nan", "2026-01-01", "~", '""', "'", "\\", "\u2028", "[" * 40)

    def __init__(self):
        sys.path.insert(0, str(PROGRAMS))
        from softib_lab import lab_file, plan  # pylint: disable=import-outside-toplevel
        self.lab_file, self.plan = lab_file, plan
        self.yaml = lab_file.yaml
        self.files = {lab_file.__file__, plan.__file__}
        # The schema is the same each time.
        schema = lab_file._schema()
        lab_file._schema = lambda: schema
        self.empty = lab_file.parse("hosts: {a: }", "empty.yaml")

    def changed(self, text, numbers):
        if numbers.randrange(2):
            with contextlib.suppress(Exception):
                value = json.loads(json.dumps(self.yaml.safe_load(text)))
                return self.yaml.safe_dump(with_a_changed_value(value, numbers), sort_keys=False).encode()
        return with_changed_bytes(text, self.WORDS, numbers)

    def run(self, data):
        text = data.decode(errors="replace")
        lines = text.count("\n") + sum(text.count(each) for each in "\r\x85\u2028\u2029") + 1
        try:
            lab = self.lab_file.parse(text, "x.yaml")
        except self.lab_file.LabFileError as error:
            assert error.problems
            for each in error.problems:
                assert 1 <= each.line <= lines and each.column >= 1 and each.message, each
                assert str(each.message).isprintable(), each
            return
        for one, other in ((None, lab), (self.empty, lab), (lab, self.empty), (lab, None), (lab, lab)):
            steps = self.plan.plan(one, other)
            assert all(str(each) for each in steps)
            assert steps == [] or one is not other, steps


class FakeSubprocess:
    """In place of the module subprocess: nothing is executed. Words are checked as the system does."""
    DEVNULL = None
    TimeoutExpired = type("TimeoutExpired", (Exception,), {})

    def __init__(self, answer, links):
        self.answer, self.links = answer, links

    def run(self, words, **options):
        for each in words:
            if "\0" in os.fsdecode(each):
                raise ValueError("embedded null byte")
            os.fsencode(each)
        for each in options["env"].values():
            os.fsencode(each)
        if "input" in options:
            options["input"].encode()
            return types.SimpleNamespace(returncode=self.answer[0], stdout=self.answer[1], stderr="")
        words = words[words.index("--") + 1:] if words[0] == "nsenter" else words
        output = ""
        if words[1:4] == ["-json", "addr", "show"] and words[-1] in self.links:
            output = json.dumps([{"ifname": words[-1], "flags": ["UP"], "mtu": 2044, "link_type": "ether", "master": "br0",
                                  "address": "02:00:00:00:00:01", "addr_info": [{"local": "10.0.0.1", "prefixlen": 24}]}])
        elif words[1:3] == ["link", "add"]:
            self.links |= {words[3], words[8]}
        elif words[1:3] == ["link", "set"] and "name" in words:
            self.links.add(words[-1])
        elif words[2:4] == ["route", "show"]:
            output = "there is one\n"
        return types.SimpleNamespace(returncode=0, stdout=output, stderr="")


class Cni:
    """What a runtime sends, and what a plugin for addresses answers: one JSON object with the command, the
    configuration, and the exit status and the answer of the plugin. Each gets a result or an error of the
    specification."""

    WORDS = ('{', '}', '[', ']', '"', ',', ':', '\\u0000', '\\ud800', '\\', 'null', '1e999', 'NaN', '-1', '"cniVersion"',
             '"1.1.0"', '"prevResult":', '[' * 3000)

    def __init__(self):
        path = PROGRAMS / "ipoibd_cni" / "ipoibd-cni"
        loader = importlib.machinery.SourceFileLoader("ipoibd_cni", str(path))
        self.cni = importlib.util.module_from_spec(importlib.util.spec_from_loader("ipoibd_cni", loader))
        loader.exec_module(self.cni)
        self.files = {str(path)}
        # Nothing outside of this folder is touched, and no daemon asked.
        self.folder = tempfile.TemporaryDirectory(prefix="cni-fuzz-")
        self.cni.FOLDER = f"{self.folder.name}/state"
        self.plugin = pathlib.Path(self.folder.name) / "test-ipam"
        self.plugin.touch(mode=0o755)
        self.namespace = pathlib.Path(self.folder.name) / "namespace"
        self.namespace.touch()
        os.environ.update(CNI_CONTAINERID="pod", CNI_IFNAME="eth0", CNI_NETNS=str(self.namespace),
                          CNI_PATH=self.folder.name, IPOIBD_DIR=f"{self.folder.name}/run")

    def changed(self, text, numbers):
        try:
            given = json.loads(text)
            assert given["command"] in self.cni.COMMANDS and isinstance(given["config"] + given["answer"], str)
        except Exception:  # pylint: disable=broad-except
            return with_changed_bytes(text, self.WORDS, numbers)
        part = numbers.choice(("config", "config", "answer", "command"))
        if part == "command":
            given["command"] = numbers.choice(list(self.cni.COMMANDS))
            given["status"] = numbers.randrange(2)
        elif numbers.randrange(4):
            with contextlib.suppress(ValueError, RecursionError):
                given[part] = json.dumps(with_a_changed_value(json.loads(given[part]), numbers))
        else:
            changed = with_changed_bytes(given[part].encode(errors="surrogateescape"), self.WORDS, numbers)
            given[part] = changed.decode(errors="surrogateescape")
        return json.dumps(given).encode()

    def run(self, data):
        try:
            given = json.loads(data)
            command = given["command"]
            config = given["config"].replace('"NS"', json.dumps(str(self.namespace))).encode(errors="surrogateescape")
            answer = (int(given["status"]), given["answer"] + "")
            answer[1].encode()
            if command not in self.cni.COMMANDS or len(config) > MAX_SIZE or b"dataDir" in config:
                return
        except (ValueError, KeyError, TypeError, RecursionError, AttributeError, OverflowError):
            return
        os.environ["CNI_COMMAND"] = command
        self.cni.subprocess = FakeSubprocess(answer, set() if command == "ADD" else {"eth0", "br0"})
        if command == "ADD":
            self.cni.subprocess.links = {"br0"}
        out = io.StringIO()
        old = sys.stdin, sys.stdout, sys.stderr, sys.argv
        sys.stdin, sys.stdout, sys.stderr, sys.argv = io.TextIOWrapper(io.BytesIO(config)), out, io.StringIO(), ["ipoibd-cni"]
        try:
            status = self.cni.main()
        finally:
            sys.stdin, sys.stdout, sys.stderr, sys.argv = old
        text = out.getvalue()
        if status == 0:
            shown = json.loads(text) if text else {}
            assert command == "ADD" and isinstance(shown["interfaces"], list) or not shown, text
        else:
            shown = json.loads(text)
            assert status == 1 and type(shown["code"]) is int and shown["code"] > 0, text
            assert isinstance(shown["msg"], str) and shown["msg"] and isinstance(shown.get("details", ""), str), text
            assert isinstance(shown["cniVersion"], str), text


TARGETS = {"lab_file": LabFiles, "cni": Cni}


# --- Runs ------------------------------------------------------------------------------------------


class Runs:
    """Inputs, those that are kept, and the lines that they reach."""

    def __init__(self, target, seed):
        self.target, self.numbers = target, random.Random(seed)
        self.corpus, self.lines, self.count = [], set(), 0

    def _trace(self, frame, event, _):
        if frame.f_code.co_filename not in self.target.files:
            return None
        if event == "line":
            self.reached.add((frame.f_code.co_filename, frame.f_lineno))
        return self._trace

    def run(self, data):
        """Runs an input, and keeps it if it reaches a new line."""
        self.count += 1
        self.reached = set()
        sys.settrace(self._trace)
        try:
            self.target.run(data)
        finally:
            sys.settrace(None)
        if not self.reached <= self.lines:
            self.lines |= self.reached
            self.corpus.append(data)

    def next_input(self):
        data = self.numbers.choice(self.corpus)
        for _ in range(self.numbers.randrange(1, 5)):
            data = self.target.changed(data, self.numbers)[:MAX_SIZE * 2]
        return data


def failure_of(run, data):
    """Runs an input; returns what failed, with the last line of the program or of the target."""
    try:
        run(data)
    except Exception as error:  # pylint: disable=broad-except
        places = []
        trace = error.__traceback__
        while trace:
            places.append(f"{pathlib.Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
            trace = trace.tb_next
        return f"{type(error).__name__}: {str(error)[:300]} at {' '.join(places[-4:])}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("file", nargs="*", type=pathlib.Path)
    given = parser.parse_args()
    try:
        target = TARGETS[given.target]()
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    runs = Runs(target, given.seed)
    for path in given.file or sorted((HERE / "corpus" / given.target).iterdir()):
        if failure := failure_of(runs.run, path.read_bytes()):
            print(f"{path}: {failure}")
            return 1
    deadline = time.monotonic() + given.seconds
    while runs.count < given.runs or time.monotonic() < deadline:
        data = runs.next_input()
        if failure := failure_of(runs.run, data):
            path = pathlib.Path(f"crash-{given.target}-{given.seed}-{runs.count}")
            path.write_bytes(data)
            print(f"{path}: {failure}")
            return 1
    print(f"{runs.count} inputs, {len(runs.corpus)} in the corpus, {len(runs.lines)} lines")
    return 0


sys.exit(main())
