#!/usr/bin/env python3
"""Reads the ELF files that were built: are they hardened as docs/security.md says? And the commands
that have compiled them: an inline function of a container is the same in all sources.

Usage: hardening_test.py BUILD-TYPE compile_commands.json PROGRAM-OR-LIBRARY...
Of a build of type Debug, only what the linker does is compared.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/security.md"
PIE = "Type: DYN (Position-Independent Executable file)"
ENDBR64 = bytes.fromhex("f30f1efa")
# A function of each file, whose code is looked at.
FUNCTIONS = {"libsoftib.so": "ibv_open_device", "libibarp.so": "ibarp_open"}
# Those that index containers; the others call no such function.
CHECKED = {"ipoibd", "softib", "libsoftib.so"}


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], check=True, capture_output=True,
                          text=True).stdout


def symbol(path, name):
    """Returns section and address of a symbol."""
    for line in readelf("--syms", path).splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[7].split("@")[0] == name and fields[6].isdigit():
            return int(fields[6]), int(fields[1], 16)
    raise AssertionError(f"{path} has no symbol {name}")


def code_at(path, name):
    """Returns the first bytes of a function."""
    section, address = symbol(path, name)
    for line in readelf("--sections", path).splitlines():
        found = re.match(r"\s*\[\s*(\d+)\] \S+\s+\S+\s+([0-9a-f]+) ([0-9a-f]+) ", line)
        if found and int(found[1]) == section:
            start = address - int(found[2], 16) + int(found[3], 16)
            return pathlib.Path(path).read_bytes()[start:start + len(ENDBR64)]
    raise AssertionError(f"{path}: no section {section}")


def faults(path, is_compiled_so):
    """Yields what the file lacks."""
    name = pathlib.Path(path).name.split(".so")[0] + (".so" if ".so" in path else "")
    header = re.sub(r" +", " ", readelf("--file-header", path))
    segments, dynamic = readelf("--segments", path), readelf("--dynamic", path)
    if not name.startswith("lib") and PIE not in header:
        yield "is not a position-independent executable"
    if "GNU_RELRO" not in segments:
        yield "has no RELRO"
    if "BIND_NOW" not in dynamic and not re.search(r"FLAGS_1.*\bNOW\b", dynamic):
        yield "does not resolve all symbols at the start"
    stack = re.search(r"GNU_STACK.*", segments)
    if not stack or "RWE" in stack[0]:
        yield "has an executable stack"
    if not is_compiled_so:
        return
    symbols = readelf("--dyn-syms", path)
    if "__stack_chk_fail" not in symbols:
        yield "has no protected stack frames"
    if not re.search(r"\b__\w+_chk\b", symbols):
        yield "has no fortified functions"
    if name in CHECKED and "__glibcxx_assert_fail" not in symbols:
        yield "does not check the containers of its parsers"
    if "X86-64" in header and code_at(path, FUNCTIONS.get(name, "main")) != ENDBR64:
        yield "does not mark the targets of indirect calls"


def unequal(commands, is_checked):
    """Yields the sources in C++ whose containers are not checked although those of the others are, or
    the other way round."""
    for each in json.loads(pathlib.Path(commands).read_text(encoding="utf-8")):
        is_cpp = each["file"].endswith((".cpp", ".cxx"))
        if is_cpp and ("-D_GLIBCXX_ASSERTIONS" in each["command"].split()) != is_checked:
            yield f"{each['file']}: {'has no' if is_checked else 'has'} _GLIBCXX_ASSERTIONS, unlike the others"


def undocumented():
    """Yields what this test looks for, and the document does not name."""
    text = DOCUMENT.read_text(encoding="utf-8")
    for word in (PIE, "GNU_RELRO", "BIND_NOW", "FLAGS_1 NOW", "GNU_STACK", "__stack_chk_fail", "_chk",
                 "__glibcxx_assert_fail", "endbr64"):
        if word not in text:
            yield f"docs/security.md does not mention {word}"


def shown():
    """Returns the commands of the document, each with the lines that it prints there."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if "hardening_test.py compares" in line) + 1
    out = []
    for line in lines[start:lines.index("", start)]:
        text = line.removeprefix("    ")
        if text.startswith("$ "):
            out.append((text.removeprefix("$ "), []))
        else:
            out[-1][1].append(text)
    return out


def differences(path):
    """Yields the commands of the document that print something else for this program."""
    for command, expected in shown():
        done = subprocess.run(command, shell=True, cwd=pathlib.Path(path).parent, check=False,
                              capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
        if done.stdout.splitlines() != expected or not expected:
            yield f"docs/security.md: `{command}` prints\n{done.stdout}{done.stderr}"


def main():
    build_type, commands, *paths = sys.argv[1:]
    found = [*undocumented(), *unequal(commands, build_type != "Debug")]
    if build_type != "Debug":
        found += differences(next(path for path in paths if pathlib.Path(path).name == "ipoibd"))
    for path in paths:
        found += [f"{path}: {fault}" for fault in faults(path, build_type != "Debug")]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
