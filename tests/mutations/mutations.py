#!/usr/bin/env python3
"""Measures the tests: puts faults into the sources, one at a time, and counts those that a test catches.

The faults are derived from the code (faults.py): a comparison shifted or negated, a statement or a branch left
out, a number changed by one, another variable or member of the same type, two statements exchanged, and so on.
A sample of them is compiled into one build (sources.py), in which the environment variable IPOIB_MUTATION
selects one by its number. Each fault runs the unit and sim tests that reach it, the fastest first (runs.py).

The Python packages are the area "python"; of their faults each has a changed copy (python_faults.py). Other areas
are folders of src/; the faults of a sample are spread over the areas by their lines of code, and
over the lines of an area by chance. Faults that equivalent.txt has are left out. A fault that no test
reaches counts as one that survives.

Usage: mutations.py run [--sample N] [--seed S] [--area A]... [--since REV]
       mutations.py check      whether equivalent.txt fits the sources
"""
import argparse
import collections
import concurrent.futures
import math
import multiprocessing
import os
import pathlib
import random
import re
import subprocess
import sys
import time

import python_faults
import runs
import sources

EQUIVALENT = pathlib.Path(__file__).resolve().parent / "equivalent.txt"
SAMPLE = 300  # faults
SHARE = 0.90  # of the faults have to be caught
SPARE = 1.3  # how many more are drawn, since some do not compile
JOBS = 2 * os.cpu_count()  # a test that waits for what a fault prevents needs no processor
NAMED = 3  # tests to name for a survivor

Judged = collections.namedtuple("Judged", "function before after reason where")


def read_equivalent(path):
    """Returns the faults that are judged to change nothing: paragraphs of four lines or more. The first is the
    function, the second "- " and the code, the third "+ " and the changed code, and the others are the reason."""
    found = []
    text = path.read_text(encoding="utf-8")
    for paragraph in re.finditer(r"(?:^(?!#).+\n?)+", text, re.M):
        where = f"{path.name}:{text.count(chr(10), 0, paragraph.start()) + 1}"
        form = re.fullmatch(r"(\S.*)\n- (.*)\n\+ ?(.*)\n((?:\S.*\n?)+)", paragraph[0])
        if not form:
            raise sources.SourceError(f"{where}: expected a function, '- ' and code, '+ ' and the changed code, "
                                      "and the reason")
        found.append(Judged(form[1], form[2], form[3], form[4], where))
    return found


def check(judged, texts):
    """Raises an error for judgements that fit none of the source texts any more."""
    flat = [sources.one_line(text) for text in texts]
    errors = [f"{each.where}: {each.function} has no such line any more: {each.before}" for each in judged
              if not any(each.before in text and re.split(r"::|\.", each.function)[-1] in text for text in flat)]
    if errors:
        raise sources.SourceError("\n".join(errors))


def area_of(file):
    """Returns the area of a source: its folder in src/, up to the second level."""
    folder = pathlib.Path(file).parent
    if file.endswith(".py"):
        return "python"
    return "base" if file.startswith("include/") else "/".join(folder.relative_to("src").parts[:2])


def is_in(area, areas):
    """Whether the area, or a folder that it is in, is one of these; all are if there are none."""
    return not areas or any(area == each or area.startswith(f"{each}/") for each in areas)


def changed_lines(revision):
    """Returns the files below src/ and include/ that differ from a revision, with the numbers of their new lines."""
    shown = subprocess.run(["git", "diff", "--unified=0", revision, "--", "src", "include", "python"], cwd=sources.ROOT,
                           check=True, capture_output=True, text=True).stdout
    lines, file = collections.defaultdict(set), ""
    for line in shown.splitlines():
        if line.startswith("+++ b/"):
            file = line.removeprefix("+++ b/")
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            lines[file].update(range(int(hunk[1]), int(hunk[1]) + int(hunk[2] or 1)))
    return lines


def derive(unit):
    """Returns the faults of a translation unit, which is a path, arguments for the compiler, and the copy."""
    import faults  # pylint: disable=import-outside-toplevel # not every machine has clang
    path, arguments, root = unit
    return faults.derive(faults.parse(arguments, path), root)


def draw(faults, size, seed):
    """Returns the faults of each area, each on a line of its own: a pair of how many are its share of the lines, and a
    list of so many and spare ones. The kinds of faults that a line has are equally likely."""
    chance = random.Random(seed)
    by_line = collections.defaultdict(lambda: collections.defaultdict(list))
    for fault in sorted(set(faults)):
        by_line[fault.file, fault.line][fault.kind].append(fault)
    by_area = collections.defaultdict(list)
    for (file, _), kinds in sorted(by_line.items()):
        by_area[area_of(file)].append(kinds)
    share = min(1, size / max(len(by_line), 1))
    drawn = {}
    for area, lines in sorted(by_area.items()):
        wanted = max(1, round(len(lines) * share))
        chance.shuffle(lines)
        picked = []
        for kinds in lines:
            fault = chance.choice(kinds[chance.choice(sorted(kinds))])
            if len(picked) < wanted * SPARE and not any(sources.overlaps(fault, other) for other in picked):
                picked.append(fault)
        drawn[area] = wanted, picked
    return drawn


def compile_alone(work):
    """Returns those of the faults that do not compile in a translation unit. Whether functions return a value is only
    looked at when nothing else is wrong."""
    import faults  # pylint: disable=import-outside-toplevel
    path, arguments, root, drawn = work
    wrong = set()
    while True:
        kept = [fault for fault in drawn if fault not in wrong]
        changed = [(f"{root}/{file}", text) for file, text in sources.mutated(enumerate(kept, 1)).items()]
        found = sources.at_fault(faults.errors(faults.parse(faults.strict(arguments), path, changed), root), kept)
        if not found:
            return wrong
        wrong |= found


def sample(folder, options, judged):
    """Returns the faults of a sample: a list."""
    source = folder / "source"
    sources.copy(source, {})
    sources.configure(source)
    changed = changed_lines(options.since) if options.since else None
    everywhere = not options.area and changed is None
    areas = options.area or sorted({area_of(file) for file in changed or ()})
    tops = {area.split("/")[0] for area in areas}
    units = [(path, arguments, str(source)) for path, arguments in sources.units(folder).items()
             if everywhere or re.search(r"/src/(\w+)/", path.removeprefix(str(folder)))[1] in tops]
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("fork")) as pool:
        found = {fault for some in pool.map(derive, units) for fault in some}
        if everywhere or "python" in tops:
            found |= python_faults.derive()
        known = {each[:3] for each in judged}
        functions = {each.function for each in judged}
        keys = {fault: (fault.function, *sources.before_and_after(fault)) for fault in found
                if fault.function in functions}
        if everywhere:
            for each in judged:
                if each[:3] not in keys.values():
                    raise sources.SourceError(f"{each.where}: no fault of {each.function} is any more: {each.after}")
        wanted = [fault for fault in found if is_in(area_of(fault.file), areas) and keys.get(fault) not in known and
                  (changed is None or fault.line in changed[fault.file])]
        print(f"{len(found)} faults in {len(units)} translation units, {len(wanted)} to draw from", flush=True)
        drawn = draw(wanted, options.sample, options.seed)
        every = [fault for _, some in drawn.values() for fault in some]
        compiled = [fault for fault in every if not sources.is_python(fault)]
        wrong = set().union(*pool.map(compile_alone, [(*unit, compiled) for unit in units]))
        wrong |= {fault for fault in every if sources.is_python(fault) and not python_faults.compiles(fault)}
    kept = [fault for count, some in drawn.values() for fault in [each for each in some if each not in wrong][:count]]
    print(f"{len(kept)} faults are drawn; {len(wrong)} of {len(every)} do not compile alone", flush=True)
    return kept


def wilson(caught, total):
    """Returns the 95 % confidence interval of a share (Wilson's score interval)."""
    if total == 0:
        return 0.0, 1.0
    z, share = 1.96, caught / total
    middle = share + z * z / (2 * total)
    half = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return (middle - half) / (1 + z * z / total), (middle + half) / (1 + z * z / total)


def summarize(counts):
    """Prints the score of each area, of which `counts` counts the results; returns the exit status."""
    everything = sum(counts.values(), collections.Counter())
    print(f"\n{'area':20}{'caught':>7}{'survived':>10}{'unreached':>11}{'share':>8}   95 % confidence")
    for area, count in [*sorted(counts.items()), ("all", everything)]:
        low, high = wilson(count["caught"], count.total())
        print(f"{area:20}{count['caught']:7}{count['survived']:10}{count['unreached']:11}"
              f"{count['caught'] / max(count.total(), 1):8.0%}   {low:.0%} to {high:.0%}")
    return int(everything["caught"] < SHARE * everything.total())


def describe(number, fault, reaching):
    """Prints a survivor. Three lines, with the reason, can go into equivalent.txt."""
    before, after = sources.before_and_after(fault)
    names = [each.name for each in sorted(reaching, key=lambda each: each.seconds)]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    print(f"\n{'survived' if reaching else 'unreached'}: {number} {fault.file}:{fault.line} ({fault.kind})\n"
          f"{fault.function}\n- {before}\n+ {after}\n"
          f"reached by {len(names)} tests{': ' if names else ''}{', '.join(names[:NAMED])}{more}", flush=True)


def run(folder, options):
    """Draws and judges a sample; returns the exit status."""
    begin = time.monotonic()

    def say(what):
        print(f"{time.monotonic() - begin:6.0f} s  {what}", flush=True)

    for area in options.area:
        if area != "python" and not (sources.ROOT / "src" / area).is_dir():
            raise sources.SourceError(f"--area {area}: there is no such folder in src/")
    judged = read_equivalent(EQUIVALENT)
    say(f"seed {options.seed}")
    chosen = sample(folder, options, judged)
    if not chosen:
        return 0
    say("building")
    numbered = sources.build(folder, chosen)
    say("which tests reach the faults")
    counts = collections.defaultdict(collections.Counter)
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        recorded = list(pool.map(lambda case: runs.record(case, len(chosen) + 1), runs.listed(folder)))
        for result, case in recorded:
            if result in ("failed", "timed out"):
                print(f"{case.name} is not used: it has {result} without a fault")
        cases = [case for result, case in recorded if result == "passed"]
        say(f"running {len(numbered)} faults, and of {len(cases)} tests those that reach them")
        reaching = {number: [case for case in cases if case.name == python_faults.TESTS.get(fault.file) or
                             number in case.reached] for number, fault in numbered.items()}

        def catcher(number):
            if sources.is_python(numbered[number]) and reaching[number]:
                return python_faults.catcher(folder, numbered[number], reaching[number][0])
            return runs.catcher(number, reaching[number])

        for (number, fault), name in zip(numbered.items(), pool.map(catcher, numbered)):
            result = "caught" if name else "survived" if reaching[number] else "unreached"
            counts[area_of(fault.file)][result] += 1
            if not name:
                describe(number, fault, reaching[number])
    status = summarize(counts)
    say("done")
    return status


def main():
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["check", "run"])
    parser.add_argument("--sample", type=int, default=SAMPLE)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--area", action="append", default=[])
    parser.add_argument("--since")
    parser.add_argument("--folder", type=pathlib.Path, default=sources.ROOT / "build" / "mutations")
    options = parser.parse_args()
    try:
        if options.command == "run":
            return run(options.folder, options)
        judged = read_equivalent(EQUIVALENT)
        files = [path for top in ("src", "include", "python") for path in (sources.ROOT / top).rglob("*.[hcp]*")
                 if path.suffix in (".hpp", ".cpp", ".py")]
        check(judged, [path.read_text(encoding="utf-8") for path in files])
        lists = (sources.ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        needed = re.findall(r"^ *add_subdirectory\(([\w-]+)", lists, re.MULTILINE)
        if not set(needed) <= set(sources.COPIED):
            raise sources.SourceError(f"the copy lacks {set(needed) - set(sources.COPIED)}, which cmake needs")
        print(f"{len(judged)} judged faults fit the sources")
        return 0
    except sources.SourceError as error:
        print(f"mutations: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"mutations: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
