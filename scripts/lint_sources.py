#!/usr/bin/env python3
"""Runs clang-tidy on the merged sources of a build folder, and clang on each source of src/ alone, and prints what
they find. A source that does not include what it uses is compiled all the same when it is merged behind others.

Usage: lint_sources.py FOLDER

FOLDER has a compile_commands.json. What a tool found nothing in before is left out if nothing has changed since:
neither the command nor the text of the source, the files of the project that it includes, .clang-tidy, this script,
or the packages of the system. FOLDER/clean/ remembers that.

Exit status: 0 if nothing was found, 1 otherwise.
"""
import collections
import concurrent.futures
import dataclasses
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
# Debian's standard library uses what newer compilers find deprecated.
SYNTAX_OPTIONS = ("-fsyntax-only", "-Wno-deprecated-declarations")
INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.M)
MAX_REMEMBERED = 4000
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


class Precompiled:
    """The headers of the system that most sources include, precompiled once for each set of flags that sources are
    compiled with. This takes a quarter of the time, and nobody looks for anything in these headers."""

    def __init__(self, folder, commands):
        """`commands`: those of the sources that will be read."""
        self.folder = folder
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
        return ["-include-pch", file] if file else []


@dataclasses.dataclass(frozen=True)
class Work:
    """A source to look at, by a tool and with a command that compiles it."""
    tool: str
    source: pathlib.Path
    command: str

    def key(self, sources, common):
        """Returns a name for the state of the source."""
        digest = hashlib.sha256(common + self.tool.encode() + self.command.encode())
        for path, content in sorted(sources.closure(self.source, folders_of(self.command)).items()):
            digest.update(os.fsencode(path) + content)
        return digest.hexdigest()

    def words(self, folder, precompiled):
        """Returns the command line."""
        if self.tool == TIDY:
            return [TIDY, *OPTIONS, *(f"--extra-arg={option}" for option in precompiled), "-p", folder, self.source]
        words = shlex.split(self.command)
        output = words.index("-o")
        del words[output:output + 2]
        words.remove("-c")
        return [COMPILER, *words[1:], *SYNTAX_OPTIONS, *precompiled]


def works(entries, sources):
    """Returns what is to be done for the entries of a compile_commands.json."""
    for entry in entries:
        merged, command = pathlib.Path(entry["file"]), entry["command"]
        yield Work(TIDY, merged, command)
        for name in sources.read(merged)[1]:
            source = pathlib.Path(name)
            if source.suffix == ".cpp" and source.is_relative_to(ROOT / "src"):
                yield Work(COMPILER, source, command.replace(entry["file"], name))


def run(folder, work, precompiled):
    """Returns the findings in a source as text, none if there is nothing to say."""
    done = subprocess.run(work.words(folder, precompiled), check=False, text=True, cwd=folder,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode == 0:
        return ""
    return re.sub(r"(?m)^\d+ (warning|error)s?( treated as errors?| generated\.)\n?", "", done.stdout) or \
        f"{work.source}: {work.tool} ended with {done.returncode}\n"


def forget_old(remembered):
    """Keeps the newest of what is remembered."""
    by_age = sorted(remembered.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in by_age[MAX_REMEMBERED:]:
        path.unlink()


def main(folder):
    remembered = folder / "clean"
    remembered.mkdir(exist_ok=True)
    sources, common = Sources(), circumstances()
    entries = json.loads((folder / "compile_commands.json").read_text(encoding="utf-8"))
    markers = {work: remembered / work.key(sources, common) for work in works(entries, sources)}
    changed = [work for work, marker in markers.items() if not marker.exists()]
    # The largest first, so that no processor waits at the end for one of them.
    changed.sort(key=lambda work: (work.tool != TIDY, -len(sources.read(work.source)[1])))
    for tool in (TIDY, COMPILER):
        all_of_tool, changed_of_tool = ([work.tool for work in some].count(tool) for some in (markers, changed))
        print(f"{tool}: {changed_of_tool} of {all_of_tool} sources", flush=True)
    found = False
    precompiled = Precompiled(folder, [work.command for work in changed])
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        findings = pool.map(lambda work: run(folder, work, precompiled.options_for(work.command)), changed)
        for work, text in zip(changed, findings):
            if text:
                found = True
                print(text, end="", flush=True)
            else:
                markers[work].touch()
    forget_old(remembered)
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
