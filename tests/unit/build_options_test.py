#!/usr/bin/env python3
"""Tests cmake/Options.cmake with a small project, and programs in a folder of PATH; and this project as a part of
another one."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(sample C CXX)
include("{ROOT}/cmake/Options.cmake")
add_executable(sample sample.cpp)
"""


PARENT = f"""
cmake_minimum_required(VERSION 3.25)
project(parent C CXX)
add_subdirectory("{ROOT}" ipoibd)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE ibarp::ibarp)
install(TARGETS consumer)
"""


class OptionalPrograms(unittest.TestCase):
    """ccache and mold."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.programs = self.folder / "bin"
        self.programs.mkdir()
        (self.folder / "CMakeLists.txt").write_text(PROJECT, encoding="utf-8")
        (self.folder / "sample.cpp").write_text("int main() {}\n", encoding="utf-8")
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("CMAKE_")}
        self.environment["PATH"] = f"{self.programs}:{os.environ['PATH']}"

    def install(self, name, text):
        (self.programs / name).write_text(text, encoding="utf-8")
        (self.programs / name).chmod(0o755)

    def build(self):
        """Configures and builds; returns the output."""
        output = ""
        for command in (["cmake", "-G", "Ninja", "-B", "build"], ["cmake", "--build", "build"]):
            done = subprocess.run(command, cwd=self.folder, env=self.environment, text=True,
                                  check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, done.stdout)
            output += done.stdout
        return output

    def test_they_are_used_and_may_be_removed_afterwards(self):
        linker = shutil.which("ld")
        self.install("ccache", '#!/bin/sh\nexec "$@"\n')
        for name in ("mold", "ld.mold"):  # the compiler looks for the second one
            self.install(name, f'#!/bin/sh\nexec {linker} "$@"\n')
        output = self.build()
        for name in ("ccache", "mold"):
            self.assertIn(f"using {self.programs}/{name}", output)
        for program in self.programs.iterdir():
            program.unlink()
        self.assertNotIn(f"{self.programs}", self.build())


class Subproject(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "CMakeLists.txt").write_text(PARENT, encoding="utf-8")
        (self.folder / "consumer.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")

    def run_here(self, *command):
        done = subprocess.run(command, cwd=self.folder, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def configure(self, *options):
        self.run_here("cmake", "-G", "Ninja", "-B", "build", *options)

    def installed_by(self):
        """The scripts that `cmake --install` runs."""
        script = (self.folder / "build/cmake_install.cmake").read_text(encoding="utf-8")
        return "ipoibd/cmake_install.cmake" in script and \
            "ipoibd/src/cmake_install.cmake" in \
            (self.folder / "build/ipoibd/cmake_install.cmake").read_text(encoding="utf-8")

    def test_only_what_is_used_is_built_and_nothing_else_is_there_unless_asked_for(self):
        self.configure()
        steps = self.run_here("ninja", "-C", "build", "-n")
        self.assertIn("libibarp.so", steps)
        for program in ("bin/ipoibd", "bin/softib", "bin/ibarp", "tests"):
            self.assertNotRegex(steps, rf"{program}\n", program)
        self.assertNotIn("GTest", (self.folder / "build/CMakeCache.txt").read_text(encoding="utf-8"))
        self.assertFalse(self.installed_by())
        self.configure("-D", "IPOIB_INSTALL=ON")
        self.assertTrue(self.installed_by())


if __name__ == "__main__":
    unittest.main(verbosity=2)
