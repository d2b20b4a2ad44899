#!/usr/bin/env python3
"""Runs clang-tidy on the sources of a build folder, and prints what it finds.

Usage: tidy.py FOLDER

FOLDER has a compile_commands.json. A source is left out if clang-tidy found nothing in it before and
nothing has changed since: neither its command nor its text, the files of the project that it includes,
.clang-tidy, this script, or the packages of the system. FOLDER/tidy/ remembers that.

Exit status: 0 if clang-tidy found nothing, 1 otherwise.
"""
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

VERSION = 22 if shutil.which("clang-tidy-22") else 16
TIDY, COMPILER = f"clang-tidy-{VERSION}", f"clang++-{VERSION}"
# A merged source includes sources; compiler warnings are reported by the builds.
OPTIONS = ("--quiet", "--checks=-bugprone-suspicious-include", "--extra-arg=-w")
INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.M)
MAX_REMEMBERED = 2000
# Fewer sources do not pay for it to precompile what they include.
MIN_FOR_PRECOMPILED = 4
ROOT = pathlib.Path(__file__).resolve().parent.parent
STANDARD_HEADERS, TEST_HEADERS = (ROOT / "cmake" / name for name in ("standard_headers.hpp", "test_headers.hpp"))


class Sources:
    """The files of the project, each read once."""

    def __init__(self):
        self.files = {}  # path: (hash, names that it includes)

    def read(self, path):
        if path not in self.files:
            text = path.read_bytes()
            self.files[path] = hashlib.sha256(text).digest(), [os.fsdecode(name) for name in INCLUDE.findall(text)]
        return self.files[path]

    def closure(self, source, folders):
        """Returns {path: hash} of a source and of all that it includes by a name in quotes."""
        found, waiting = {}, [source]
        while waiting:
            path = waiting.pop()
            if path in found:
                continue
            found[path], names = self.read(path)
            for name in names:
                candidates = (folder / name for folder in (path.parent, *folders))
                waiting.extend(list(filter(pathlib.Path.is_file, candidates))[:1])
        return found


def folders_of(command):
    """Returns the folders of the project's headers, which a compile command names after -I."""
    return [pathlib.Path(word[2:]) for word in shlex.split(command) if word.startswith("-I")]


def circumstances():
    """Returns a hash of what all sources depend on."""
    packages = subprocess.run(["dpkg-query", "-W"], check=True, capture_output=True).stdout
    files = (ROOT / ".clang-tidy", pathlib.Path(__file__), STANDARD_HEADERS, TEST_HEADERS)
    texts = (packages, *(path.read_bytes() for path in files))
    return hashlib.sha256(b"\0".join(texts)).digest()


def key(entry, sources, common):
    """Returns a name for the state of a source."""
    digest = hashlib.sha256(common + entry["command"].encode())
    for path, content in sorted(sources.closure(pathlib.Path(entry["file"]), folders_of(entry["command"])).items()):
        digest.update(os.fsencode(path) + content)
    return digest.hexdigest()


class Precompiled:
    """The headers of the system that most sources include, precompiled once for each set of flags that sources are
    compiled with. This takes a quarter of the time, and clang-tidy does not look at these headers anyway."""

    def __init__(self, folder, commands):
        """`commands`: those of the sources that will be read."""
        self.folder = pathlib.Path(folder)
        sets = collections.Counter(map(self.flags_of, commands))
        self.files = {flags: self.compile(number, flags) for number, (flags, count) in enumerate(sets.items())
                      if count >= MIN_FOR_PRECOMPILED and "-std=c++20" in flags}

    @staticmethod
    def flags_of(command):
        """Returns those on which the compiled form of a header depends."""
        return tuple(word for word in shlex.split(command) if word.startswith(("-f", "-std=", "-O", "-DGTEST_")))

    def compile(self, number, flags):
        """Returns the file, or None if there is no compiler of the version of clang-tidy."""
        headers = TEST_HEADERS if any(word.startswith("-DGTEST_") for word in flags) else STANDARD_HEADERS
        file = self.folder / f"headers{number}.pch"
        command = [COMPILER, *flags, "-w", "-x", "c++-header", headers, "-o", file]
        if shutil.which(COMPILER) is None or subprocess.run(command, check=False).returncode != 0:
            return None
        return file

    def options_for(self, command):
        file = self.files.get(self.flags_of(command))
        return ["--extra-arg=-include-pch", f"--extra-arg={file}"] if file else []


def run(folder, file, options):
    """Returns the findings in a source as text, none if there is nothing to say."""
    done = subprocess.run([TIDY, *OPTIONS, *options, "-p", folder, file], check=False, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode == 0:
        return ""
    return re.sub(r"(?m)^\d+ warnings?( treated as errors?| generated\.)\n?", "", done.stdout) or \
        f"{file}: {TIDY} ended with {done.returncode}\n"


def forget_old(remembered):
    """Keeps the newest of what is remembered."""
    by_age = sorted(remembered.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in by_age[MAX_REMEMBERED:]:
        path.unlink()


def main(folder):
    remembered = pathlib.Path(folder) / "tidy"
    remembered.mkdir(exist_ok=True)
    entries = json.loads((pathlib.Path(folder) / "compile_commands.json").read_text(encoding="utf-8"))
    sources, common = Sources(), circumstances()
    keys = {entry["file"]: key(entry, sources, common) for entry in entries}
    changed = [file for file, name in keys.items() if not (remembered / name).exists()]
    # The largest first, so that no processor waits at the end for one of them.
    changed.sort(key=lambda file: -len(sources.read(pathlib.Path(file))[1]))
    print(f"{len(changed)} of {len(keys)} sources", flush=True)
    found = False
    commands = {entry["file"]: entry["command"] for entry in entries}
    precompiled = Precompiled(remembered.parent, [commands[file] for file in changed])
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        findings = pool.map(lambda file: run(folder, file, precompiled.options_for(commands[file])), changed)
        for file, text in zip(changed, findings):
            if text:
                found = True
                print(text, end="", flush=True)
            else:
                (remembered / keys[file]).touch()
    forget_old(remembered)
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
