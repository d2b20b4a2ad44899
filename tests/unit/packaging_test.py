#!/usr/bin/env python3
"""Compares what the packages say with what they contain: versions, dates, and the symbols of libibarp;
and which versions of Boost they accept.

Usage: packaging_test.py PROGRAM_FOLDER
"""
import datetime
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
# What distributions have: their packages of Boost with versions, and whether these are enough.
DISTRIBUTIONS = {
    "Debian 11": ({"libboost-dev": "1.74.0.3", "libboost1.74-dev": "1.74.0-9"}, None),
    "Debian 12": ({"libboost-dev": "1.74.0.3", "libboost1.74-dev": "1.74.0+ds1-21",
                   "libboost1.81-dev": "1.81.0-5+deb12u1"}, "libboost1.81-dev"),
    "Debian 13": ({"libboost-dev": "1.83.0.2+b2", "libboost1.83-dev": "1.83.0-4.2",
                   "libboost1.88-dev": "1.88.0-1"}, "libboost-dev"),
    "Ubuntu 22.04": ({"libboost-dev": "1.74.0.3ubuntu7", "libboost1.74-dev": "1.74.0-14ubuntu3"}, None),
    "Ubuntu 24.04": ({"libboost-dev": "1.83.0.1ubuntu2", "libboost1.74-dev": "1.74.0+ds1-23ubuntu8",
                      "libboost1.83-dev": "1.83.0-2.1ubuntu3"}, "libboost-dev"),
}


def first(pattern, path):
    return re.search(pattern, (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)[1]


def build_packages():
    """Returns build_packages of scripts/common.sh."""
    (names,) = re.findall(r"^build_packages=\((.*?)\)", (ROOT / "scripts/common.sh").read_text(encoding="utf-8"),
                          re.MULTILINE | re.DOTALL)
    return [name.strip("'") for name in names.split()]


class Packaging(unittest.TestCase):
    def test_versions_agree(self):
        version = first(r"^project\(ipoibd VERSION ([0-9.]+)", "CMakeLists.txt")
        self.assertEqual(first(r"^ipoibd \(([0-9.]+)-[0-9]+\)", "debian/changelog"), version)
        self.assertEqual(first(r"^## ([0-9.]+)", "docs/changelog.md"), version)
        self.assertEqual(first(r"^Version: +([0-9.]+)", "rpm/ipoibd.spec"), version)
        self.assertEqual(first(r"^\* .* - ([0-9.]+)-[0-9]+$", "rpm/ipoibd.spec"), version)
        for program in ("ipoibd", "ibarp", "softib"):
            done = subprocess.run([PROGRAMS / program, "--version"], check=True, text=True,
                                  capture_output=True)
            self.assertEqual(done.stdout, f"{program} {version}\n")

    def test_dates_agree(self):
        """Those of the newest version; one that is not released has none."""
        found = {
            first(r"^## [0-9.]+ \((.*)\)$", "docs/changelog.md"): None,
            first(r"^ -- .*>  \w+, (\d+ \w+ \d+) ", "debian/changelog"): "%d %b %Y",
            first(r"^\* \w+ (\w+ \d+ \d+) ", "rpm/ipoibd.spec"): "%b %d %Y"}
        dates = {str(datetime.datetime.strptime(text, form).date()) if form else text
                 for text, form in found.items()}
        suite = first(r"^ipoibd \([^)]*\) (\w+);", "debian/changelog")
        if suite == "UNRELEASED":
            self.assertIn("unreleased", dates)
        else:
            self.assertEqual(len(dates), 1, dates)

    def test_rpm_packages_have_the_files_of_the_debian_packages(self):
        """A name in an .install file is in the section %files of the package of the same purpose."""
        spec = (ROOT / "rpm/ipoibd.spec").read_text(encoding="utf-8")
        sections = dict(re.findall(r"^%files(?: -n (\S+))?\n(.*?)\n\n", spec, re.MULTILINE | re.DOTALL))
        packages = {"ipoibd": "", "softib": "softib", "libibarp0": "libibarp",
                    "libibarp-dev": "libibarp-devel", "python3-ibarp": "python3-ibarp"}
        self.assertEqual({path.stem for path in (ROOT / "debian").glob("*.install")}, set(packages))
        for package, section in packages.items():
            debian = (ROOT / f"debian/{package}.install").read_text(encoding="utf-8").splitlines()
            names = {line.split()[0].rpartition("/")[2].rstrip("*") for line in debian}
            rpm = {path.rpartition("/")[2].rstrip("*") for path in sections[section].splitlines()
                   if path.startswith("%{")}
            self.assertEqual(names, rpm, package)

    def test_images_are_built_from_packages_that_there_are(self):
        """The Containerfiles have instructions that there are, and copy packages that debian/control has."""
        packages = re.findall(r"^Package: (\S+)", (ROOT / "debian/control").read_text(encoding="utf-8"), re.MULTILINE)
        for path in sorted((ROOT / "contrib").rglob("Containerfile")):
            text = path.read_text(encoding="utf-8").replace("\\\n", " ")
            lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
            self.assertEqual(lines[0][0], "FROM", path)
            for instruction, rest in lines:
                self.assertIn(instruction, ("FROM", "ARG", "COPY", "RUN", "ENTRYPOINT"), path)
                if instruction == "COPY":
                    copied = {each.split("_")[0].removesuffix(".deb") for each in rest.split() if each.endswith(".deb")}
                    self.assertTrue(copied and copied <= set(packages), (path, copied))
                if instruction == "ENTRYPOINT":
                    self.assertTrue(all(isinstance(word, str) for word in json.loads(rest)), path)
                if instruction == "RUN":
                    subprocess.run(["bash", "-n", "-c", rest], check=True)

    def test_build_dependencies_are_what_the_scripts_install(self):
        """debian/control says what scripts/common.sh installs to build, and in addition what makes a package."""
        control = (ROOT / "debian/control").read_text(encoding="utf-8")
        (text,) = re.findall(r"^Build-Depends: (.*?)\n(?=\S)", control, re.MULTILINE | re.DOTALL)
        # Of alternatives the first, without version, architecture or what only the package's tests need.
        depends = {re.split(r"[ (|:]", each.strip())[0] for each in text.split(",") if "<!nocheck>" not in each}
        packaging = {"debhelper-compat", "dh-sequence-installsysusers", "dh-sequence-python3", "python3"}
        self.assertLessEqual(packaging, depends)
        installed = {name.split("|")[0] for name in build_packages()}
        # What every Debian package is built with, and the name that Debian 12 gave to another one.
        self.assertIn("g++", installed)
        installed = {{"pkg-config": "pkgconf"}.get(name, name) for name in installed - {"g++"}}
        self.assertEqual(depends - packaging, installed)

    def test_symbols_file_is_complete(self):
        exported = re.findall(r"^ +(ibarp_\w+);",
                              (ROOT / "src/control/libibarp.map").read_text(encoding="utf-8"), re.MULTILINE)
        symbols = re.findall(r"^ (ibarp_\w+)@",
                             (ROOT / "debian/libibarp0.symbols").read_text(encoding="utf-8"), re.MULTILINE)
        self.assertGreater(len(exported), 20)
        self.assertEqual(symbols, exported)


class Boost(unittest.TestCase):
    """A name with a version, where that is not the default one, else the default one if it is new enough."""

    PARTS = ("", "-json", "-program-options")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        control = (ROOT / "debian/control").read_text(encoding="utf-8")
        self.dependencies = re.findall(r" (libboost\S*-dev \|[^,]*)", control)
        self.assertEqual(len(self.dependencies), len(self.PARTS))

    def is_satisfied(self, dependency, packages):
        """Whether dpkg says so of a system with these packages."""
        status = "".join(f"Package: {name}\nStatus: install ok installed\nVersion: {version}\n"
                         f"Architecture: all\nMulti-Arch: foreign\n\n"
                         for name, version in packages.items())
        (self.folder / "status").write_text(status, encoding="utf-8")
        control = f"Source: sample\nBuild-Depends: {dependency}\n\nPackage: sample\nArchitecture: all\n"
        (self.folder / "control").write_text(control, encoding="utf-8")
        done = subprocess.run(["dpkg-checkbuilddeps", f"--admindir={self.folder}", "-I",
                               self.folder / "control"], check=False, text=True, capture_output=True)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.returncode == 0

    @unittest.skipUnless(shutil.which("dpkg-checkbuilddeps"), "needs dpkg-checkbuilddeps (package dpkg-dev)")
    def test_is_found_by_dpkg(self):
        for name, (packages, expected) in DISTRIBUTIONS.items():
            for part, dependency in zip(self.PARTS, self.dependencies):
                installed = {each.replace("libboost", f"libboost{part}"): version
                             for each, version in packages.items()}
                self.assertEqual(self.is_satisfied(dependency, installed), expected is not None,
                                 (name, dependency))

    def test_is_chosen_by_the_scripts(self):
        """scripts/common.sh names the same packages, and takes the first that the distribution has."""
        wanted = [name for name in build_packages() if name.startswith("libboost")]
        self.assertCountEqual(wanted, [re.sub(r" \(.*?\)| ", "", each) for each in self.dependencies])
        program = self.folder / "apt-cache"
        for name, (packages, expected) in DISTRIBUTIONS.items():
            known = "".join(f"{each}) echo '  Candidate: {version}' ;;\n" for each, version in packages.items())
            program.write_text(f"#!/bin/sh\ncase $2 in\n{known}*) echo '  Candidate: (none)' ;;\nesac\n",
                               encoding="utf-8")
            program.chmod(0o755)
            done = subprocess.run(
                ["bash", "-c", '. "$1"; PATH=$2:$PATH; first_known "$3"', "bash",
                 ROOT / "scripts/common.sh", self.folder, wanted[0]],
                check=True, text=True, capture_output=True)
            # Without a version that is new enough, cmake says what it needs.
            self.assertEqual(done.stdout.strip(), expected or "libboost-dev", name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
