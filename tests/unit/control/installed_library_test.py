#!/usr/bin/env python3
"""libibarp as another program finds it: installed somewhere, found by pkg-config, used by the example
of ibarp(3), which is compiled as strict C11.

Usage: installed_library_test.py CMAKE BUILD_FOLDER CC PAGE [SANITIZERS]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, **more)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def check(what, result):
    if result[0] != 0:
        sys.exit(f"{what}: {result}")
    return result[1]


def main():
    cmake, build, compiler, page, *sanitizers = sys.argv[1:]
    if not shutil.which("pkg-config"):
        print("pkg-config is not installed")
        sys.exit(SKIPPED)
    example = re.search(r"^\.Bd -literal\n(#include <ipoib/ibarp.h>.*?)^\.Ed",
                        pathlib.Path(page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        check("install", run(cmake, "--install", build, "--prefix", root, "--component", "libibarp"))
        package = next(root.rglob("ibarp.pc"))
        environment = {**os.environ, "PKG_CONFIG_PATH": str(package.parent)}
        flags = check("pkg-config", run("pkg-config", "--cflags", "--libs", "ibarp",
                                        env=environment)).split()
        library = next(root.rglob("libibarp.so.0"))
        source, program = root / "example.c", root / "example"
        source.write_text(example[1].replace(r"\en", r"\n"))
        sanitize = [f"-fsanitize={sanitizers[0]}"] if sanitizers and sanitizers[0] else []
        check("compile", run(compiler, "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror",
                             *sanitize, source, *flags, "-o", program))
        status, _, errors = run(program, env={**os.environ, "LD_LIBRARY_PATH": library.parent})
        # It wants ib0, which may or may not be there; either way it runs.
        if status not in (0, 1) or (status == 1 and not errors.startswith("ib0: ")):
            sys.exit(f"the example ended with {status}: {errors}")


main()
