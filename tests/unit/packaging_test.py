#!/usr/bin/env python3
"""Compares what the packages say with what they contain: versions, and the symbols of libibarp."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def first(pattern, path):
    return re.search(pattern, (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)[1]


class Packaging(unittest.TestCase):
    def test_versions_agree(self):
        version = first(r"^project\(ipoibd VERSION ([0-9.]+)", "CMakeLists.txt")
        self.assertEqual(first(r"^ipoibd \(([0-9.]+)-[0-9]+\)", "debian/changelog"), version)
        self.assertEqual(first(r"^## ([0-9.]+)", "docs/changelog.md"), version)
        self.assertEqual(first(r"^Version: +([0-9.]+)", "rpm/ipoibd.spec"), version)

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

    def test_symbols_file_is_complete(self):
        exported = re.findall(r"^ +(ibarp_\w+);",
                              (ROOT / "src/control/libibarp.map").read_text(encoding="utf-8"), re.MULTILINE)
        symbols = re.findall(r"^ (ibarp_\w+)@",
                             (ROOT / "debian/libibarp0.symbols").read_text(encoding="utf-8"), re.MULTILINE)
        self.assertGreater(len(exported), 20)
        self.assertEqual(symbols, exported)


if __name__ == "__main__":
    unittest.main(verbosity=2)
