#!/usr/bin/env python3
"""The project in unusual folders: the lab of the README runs there with the programs that are built, and
CMake configures and builds there.
"""

import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

import hosts

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 600  # seconds, for a build on a busy machine
# More than fits into the address of a Unix socket, which has 108 bytes.
LONG = "long" * 40


def link_or_copy(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


class Folders(unittest.TestCase):
    def temporary(self, above):
        folder = tempfile.TemporaryDirectory(prefix="ipoibd-", dir=above)
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)

    def clone(self, folder):
        """Copies the sources to a new folder, with the programs and libraries that are built."""
        left_out = shutil.ignore_patterns("build", ".git")
        shutil.copytree(ROOT, folder, symlinks=True, ignore=left_out)
        for part in ("bin", "lib", "python"):
            shutil.copytree(pathlib.Path(hosts.BIN).resolve().parent / part, folder / "build" / part,
                            symlinks=True, copy_function=link_or_copy)
        return folder

    def run_in(self, folder, *command, **environment):
        done = subprocess.run(command, cwd=folder, check=False, text=True, timeout=PATIENCE,
                              env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def demo(self, folder, *before, name="build/bin/softib"):
        """Runs the commands of the README in a clone."""
        subnets = self.temporary("/tmp")
        section = re.search(r"(?ms)^## See it work$.*?(?=^## )", (folder / "README.md").read_text(encoding="utf-8"))[0]
        commands = [line.strip() for line in section.splitlines() if line.startswith("    build/bin/softib lab ")]
        self.assertEqual([command.split()[2] for command in commands], ["up", "check", "exec", "down"])
        script = " && ".join(commands).replace("build/bin/softib", name)
        output = self.run_in(folder, *before, "sh", "-c", script, SOFTIB_DIR=str(subnets))
        self.assertIn("two-hosts: 3 of 3 expectations hold\n", output)
        self.assertIn(" 3 received", output)
        self.assertIn("two-hosts is down\n", output)
        self.assertEqual(list(subnets.iterdir()), [])

    def test_blanks_in_a_long_path(self):
        self.demo(self.clone(self.temporary("/var/tmp") / "a b" / "it's" / LONG))

    def test_behind_a_symbolic_link(self):
        folder = self.temporary("/tmp")
        self.clone(folder / "clone")
        (folder / "link").symlink_to("clone")
        (folder / "link" / "mine").symlink_to("build/bin/softib")
        self.demo(folder / "link", name="./mine")

    def test_without_home_and_with_a_strict_umask(self):
        folder = self.temporary("/tmp")
        strict = ("env", "-u", "HOME", "-u", "USER", "sh", "-c", 'umask 077 && exec "$@"', "sh")
        self.run_in("/", *strict, "cp", "-r", self.clone(folder / "clone"), folder / "strict")
        mode = stat.S_IMODE((folder / "strict" / "src").stat().st_mode)
        self.assertEqual(mode & 0o077, 0)
        self.demo(folder / "strict", *strict)

    def test_builds_with_a_blank_in_the_path(self):
        """libibarp stands for the rest: its link options name a file."""
        folder = self.clone(self.temporary("/tmp") / "a b")
        shutil.rmtree(folder / "build")
        (folder / "link").symlink_to(".")
        self.run_in(folder / "link", "cmake", "--preset", "release", "-D", "IPOIB_TESTS=OFF",
                    "-D", "CMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0")
        self.run_in(folder, "cmake", "--build", "build", "--target", "ibarp")
        self.assertTrue((folder / "build/lib/libibarp.so").exists())


if __name__ == "__main__":
    hosts.main()
