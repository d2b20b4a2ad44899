#!/usr/bin/env python3
"""Tests the result of `cmake --install` in a new folder: programs, libsoftib, manual pages,
completions, and libibarp as used by another program.

Usage: install_test.py CMAKE BUILD_FOLDER VERSION CC
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec

from softib_subnet import Subnet, need, run_tests

CMAKE, BUILD, VERSION, CC = sys.argv[1:]
PROGRAMS = ["sbin/ipoibd", "bin/ibarp", "bin/softib"]
PAGES = ["man1/softib.1", "man3/ibarp.3", "man3/ibarp_open.3", "man3/softibdv_last_error.3",
         "man3/softibdv_post_large_recv.3", "man3/softibdv_segment_size.3", "man8/ibarp.8", "man8/ipoibd.8"]

LAB = """hosts:
  a: {interfaces: {ib0: {addresses: [10.44.0.1/24]}}}
  b: {interfaces: {ib0: {addresses: [10.44.0.2/24]}}}
expect:
  - {from: all, reaches: all}
"""
CMAKE_PROJECT = """cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(ibarp {version} REQUIRED)
add_executable(consumer example.c)
target_link_libraries(consumer PRIVATE ibarp::ibarp)
"""

need("ibv_devinfo", "mandoc", "pkg-config", "strip")


def run(*command, **environment):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=120, env={**os.environ, **environment})
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"
    return done.stdout


def programs_print_their_version():
    for program in PROGRAMS:
        output = run(PREFIX / program, "--version").strip()
        assert output == f"{pathlib.Path(program).name} {VERSION}", output


def libraries_are_found_beside_the_programs():
    maps = 'while read -r line; do echo "$line"; done </proc/self/maps'
    with Subnet(PREFIX / "bin/softib") as subnet:
        mapped = subnet.run("a", "bash", "-c", maps).stdout
    assert str(next(PREFIX.rglob("libsoftib.so"))) in mapped, mapped
    linked = run("ldd", PREFIX / "bin/ibarp")
    assert re.search(r"libibarp\.so\.0 => (\S+)", linked)[1].startswith(str(PREFIX)), linked


def foreign_programs_run_on_an_hca():
    with Subnet(PREFIX / "bin/softib") as subnet:
        assert "PORT_ACTIVE" in subnet.run("a", "ibv_devinfo").stdout


def nothing_refers_to_the_build():
    """The build folder may be deleted. (Debugging information, which names it, is stripped.)"""
    installed = [path for path in PREFIX.rglob("*") if path.is_file()]
    assert len(installed) > 10, installed
    for path in installed:
        assert os.fsencode(BUILD) not in path.read_bytes(), f"{path} names {BUILD}"


def pages_are_readable():
    for page in PAGES:
        folder = PREFIX / "share/man"
        done = subprocess.run(["mandoc", "-Tutf8", str(folder / page)], cwd=folder, text=True,
                              capture_output=True, timeout=60)
        text = re.sub(".\b", "", done.stdout)  # bold and underlined text by overstriking
        assert done.returncode == 0 and "\nNAME\n" in text, f"{page}: {done.stderr}"


def completions_load():
    for program in map(os.path.basename, PROGRAMS):
        file = PREFIX / "share/bash-completion/completions" / program
        output = run("bash", "--norc", "-c", '. "$1" && complete -p "$2"', "bash", file, program)
        assert output.startswith("complete "), output
        assert (PREFIX / "share/zsh/site-functions" / f"_{program}").is_file(), program
        assert (PREFIX / f"share/fish/vendor_completions.d/{program}.fish").is_file(), program


def example_of_libibarp():
    """The example of ibarp(3)."""
    page = (PREFIX / "share/man/man3/ibarp.3").read_text(encoding="utf-8")
    example = re.search(r"^\.Bd -literal\n(#include <ipoib/ibarp.h>.*?)^\.Ed", page, re.M | re.S)
    return example[1].replace(r"\en", r"\n")


def check_it_runs(program):
    """It opens ib0, which may not exist."""
    library = next(PREFIX.rglob("libibarp.so.0"))
    done = subprocess.run([program], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "LD_LIBRARY_PATH": str(library.parent)})
    assert done.returncode == 0 or (done.returncode == 1 and done.stderr.startswith("ib0: ")), done


def a_program_builds_with_libibarp():
    """Compiled as strict C11."""
    package = next(PREFIX.rglob("ibarp.pc"))
    flags = run("pkg-config", "--cflags", "--libs", "ibarp", PKG_CONFIG_PATH=str(package.parent))
    source, program = PREFIX / "example.c", PREFIX / "example"
    source.write_text(example_of_libibarp())
    run(CC, "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", source,
        *flags.split(), "-o", program)
    check_it_runs(program)


def a_project_finds_the_cmake_package():
    folder = PREFIX / "consumer"
    folder.mkdir()
    (folder / "example.c").write_text(example_of_libibarp())
    configure = [CMAKE, "-S", folder, "-B", folder, f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_PREFIX_PATH={PREFIX}"]
    (folder / "CMakeLists.txt").write_text(CMAKE_PROJECT.format(version=VERSION))
    run(*configure)
    run(CMAKE, "--build", folder)
    check_it_runs(folder / "consumer")
    (folder / "CMakeLists.txt").write_text(CMAKE_PROJECT.format(version="99"))
    refused = subprocess.run(configure, capture_output=True, text=True, timeout=120)
    assert refused.returncode != 0 and "ibarp" in refused.stderr, refused


def a_program_builds_with_softibdv():
    """The example of softibdv_post_large_recv(3)."""
    page = (PREFIX / "share/man/man3/softibdv_post_large_recv.3").read_text(encoding="utf-8")
    example = re.search(r"^\.Bd -literal\n(.*?)^\.Ed", page, re.M | re.S)
    source = PREFIX / "post.c"
    source.write_text(example[1])
    run(CC, "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{PREFIX}/include", "-c", source,
        "-o", PREFIX / "post.o")


def a_lab_finds_the_installed_programs():
    """ipoibd is in sbin, softib in bin, and neither is in the PATH."""
    if not os.access("/dev/net/tun", os.W_OK) or find_spec("yaml") is None or find_spec("jsonschema") is None:
        print("skipped: a lab needs /dev/net/tun, python3-yaml and python3-jsonschema")
        return
    with tempfile.TemporaryDirectory(prefix="softib-") as subnets:
        lab = [PREFIX / "bin/softib", "lab"]
        file = pathlib.Path(subnets) / "lab.yaml"
        file.write_text(LAB, encoding="utf-8")
        environment = {"SOFTIB_DIR": f"{subnets}/subnets", "PATH": "/usr/bin:/bin"}
        try:
            assert "2 hosts" in run(*lab, "up", file, **environment)
            for program in PROGRAMS:
                name = pathlib.Path(program).name
                found = run(*lab, "exec", file, "a", "--", "sh", "-c", f"command -v {name}", **environment).strip()
                assert pathlib.Path(found).resolve() == PREFIX / program, found
            assert "2 of 2 expectations hold" in run(*lab, "check", file, **environment)
        finally:
            subprocess.run([*map(str, lab), "down", file], env={**os.environ, **environment}, check=False,
                           capture_output=True, timeout=120)


with tempfile.TemporaryDirectory(prefix="installed-") as folder:
    PREFIX = pathlib.Path(folder).resolve() / "prefix"
    run(CMAKE, "--install", BUILD, "--prefix", PREFIX, "--strip")
    run_tests([programs_print_their_version, libraries_are_found_beside_the_programs,
               foreign_programs_run_on_an_hca, nothing_refers_to_the_build, pages_are_readable,
               completions_load, a_program_builds_with_libibarp,
               a_project_finds_the_cmake_package, a_program_builds_with_softibdv,
               a_lab_finds_the_installed_programs])
