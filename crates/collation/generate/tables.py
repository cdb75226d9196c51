#!/usr/bin/env python3
"""Generates the tables of `crates/collation/src/tables` from public Unicode data.

Run it as `crates/collation/generate/tables.py WORK`, where WORK is an empty folder for what is
fetched; it needs Python 3.9 or later, `pip` and `npm` (with `node`), and writes into the crate.

Sources
  pyuca 1.2 (PyPI)             allkeys-9.0.0.txt and allkeys-5.2.0.txt, Unicode licence
  @unicode/unicode-X (npm)     simple case mappings of Unicode X
  unicodedata.ucd_3_2_0        canonical decompositions, from Python itself

Rules, where MySQL's collations are not the plain data
  * Contractions are not applied, and variable elements are weights like others.
  * At most eight elements of an expansion count (only U+FDFA has more).
  * `general_ci` has one weight per character: the upper case (Unicode 3.0) of the base letter.

The table of UCA 4.0.0 is made by tailorings.py.
"""

import json
import re
import struct
import subprocess
import sys
import unicodedata
import zipfile
from collections import Counter
from pathlib import Path

PAGE = 64
DIRECTORY_END = 0x30000
HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "src" / "tables"

# Marks of a 16-bit entry that is not a weight.
IMPLICIT = 0xFFFF
SEQUENCE = 0x8000
# Marks in place of a shade (the pair of secondary and tertiary weight).
SHADE_IMPLICIT = 255
SHADE_SEQUENCE = 254


def fetch(work):
    """Downloads the sources; gives back the two tables and the character data."""
    run = lambda *command: subprocess.run(command, cwd=work, check=True, capture_output=True)
    run(sys.executable, "-m", "pip", "download", "pyuca==1.2", "--no-deps", "-d", str(work))
    with zipfile.ZipFile(next(work.glob("pyuca-*.whl"))) as wheel:
        keys = {v: wheel.read(f"pyuca/allkeys-{v}.txt").decode() for v in ("9.0.0", "5.2.0")}
    for version in ("3.0.0", "5.2.0", "9.0.0"):
        run("npm", "pack", f"@unicode/unicode-{version}@2.0.7")
        (work / version).mkdir(exist_ok=True)
        archive = f"unicode-unicode-{version}-2.0.7.tgz"
        run("tar", "xzf", archive, "-C", version, "--strip-components=1")
    data = subprocess.run(
        ["node", str(HERE / "unicode_data.mjs"), str(work)], check=True, capture_output=True
    )
    return keys, json.loads(data.stdout)


def parse_keys(text):
    """The elements (primary, secondary, tertiary) of each single code point."""
    table = {}
    for line in text.splitlines():
        found = re.match(r"([0-9A-F]+)\s*;\s*((?:\[[^\]]*\])+)", line)
        if found:
            elements = re.findall(r"\[[.*]([0-9A-F]+)\.([0-9A-F]+)\.([0-9A-F]+)", found[2])
            table[int(found[1], 16)] = [tuple(int(w, 16) for w in e) for e in elements][:8]
    return table


def pages(entries, encode):
    """The two-level array: a directory of page numbers, and the pages, each only once."""
    numbers, directory = {}, []
    for start in range(0, DIRECTORY_END, PAGE):
        page = encode([entries.get(code) for code in range(start, start + PAGE)])
        directory.append(numbers.setdefault(page, len(numbers)))
    return struct.pack(f"<{len(directory)}H", *directory), b"".join(numbers)


def write(name, *sections):
    """A file: the size of each section but the last as a 32-bit number, then the sections."""
    head = struct.pack(f"<{len(sections) - 1}I", *(len(s) for s in sections[:-1]))
    (OUT / name).write_bytes(head + b"".join(sections))
    print(f"{name}: {len(head) + sum(map(len, sections))} bytes")


def check_beyond_directory(table):
    """What lies beyond the directory is ignorable, as the code assumes."""
    for code, elements in table.items():
        if code >= DIRECTORY_END:
            assert all(not any(e) for e in elements), hex(code)
            assert 0xE0000 < code < 0xE01F0, hex(code)
    beyond = sorted(code for code in table if code >= DIRECTORY_END)
    runs = [c for c in beyond if c - 1 not in table], [c for c in beyond if c + 1 not in table]
    print("ignorable beyond the directory:", [(hex(a), hex(b)) for a, b in zip(*runs)])


def three_level(table):
    """UCA 9.0.0: per code point a primary weight and the number of its shade."""
    check_beyond_directory(table)
    used = Counter((e[1], e[2]) for elements in table.values() for e in elements)
    shades = {pair: n for n, (pair, _) in enumerate(used.most_common(SHADE_SEQUENCE))}
    pool, places = [], {}
    entries = {}
    for code, elements in sorted(table.items()):
        if len(elements) == 1 and elements[0][1:] in shades:
            entries[code] = (elements[0][0], shades[elements[0][1:]])
            continue
        sequence = tuple(elements)
        if sequence not in places:
            places[sequence] = len(pool)
            pool.append((len(sequence), 0, 0))
            pool.extend(sequence)
        entries[code] = (places[sequence], SHADE_SEQUENCE)
    assert len(pool) < 0x10000

    def encode(page):
        page = [entry or (0, SHADE_IMPLICIT) for entry in page]
        return struct.pack(f"<{PAGE}H", *(e[0] for e in page)) + bytes(e[1] for e in page)

    directory, body = pages(entries, encode)
    # Secondary and tertiary weight share 16 bits.
    assert max(e[1] for e in pool) < 1 << 11 and max(e[2] for e in pool) < 1 << 5
    shade_bytes = b"".join(struct.pack("<H", second << 5 | third) for second, third in shades)
    pool_bytes = b"".join(struct.pack("<HH", p, s << 5 | t) for p, s, t in pool)
    write("uca0900.bin", directory, body, shade_bytes, pool_bytes)


def one_level(name, table):
    """Primary weights only: per code point a weight, zero (ignorable) or the place of several."""
    pool, places, entries = [], {}, {}
    for code, weights in sorted(table.items()):
        if code >= DIRECTORY_END:
            continue
        if len(weights) == 1 and weights[0] < SEQUENCE:
            entries[code] = weights[0]
        elif not weights:
            entries[code] = 0
        else:
            sequence = tuple(weights)
            if sequence not in places:
                places[sequence] = len(pool)
                pool.extend((len(sequence), *sequence))
            entries[code] = SEQUENCE + places[sequence]
    assert len(pool) < IMPLICIT - SEQUENCE

    def encode(page):
        return struct.pack(f"<{PAGE}H", *(IMPLICIT if e is None else e for e in page))

    directory, body = pages(entries, encode)
    write(name, directory, body, struct.pack(f"<{len(pool)}H", *pool))


def general(data):
    """`general_ci`: the weight of each character of the first plane that is not its code point."""
    upper = dict(map(tuple, data["3.0.0"]["upper"]))

    def base(code):
        blocks = [(0xC0, 0x250), (0x370, 0x530), (0x1E00, 0x2000)]
        if not any(a <= code < b for a, b in blocks) or code in (0x419, 0x439):
            return code
        parts = unicodedata.ucd_3_2_0.decomposition(chr(code)).split()
        if len(parts) != 2 or parts[0].startswith("<"):
            return code
        first, mark = (int(part, 16) for part in parts)
        if not 0x300 <= mark < 0x370 or not chr(first).isalpha():
            return code
        return base(first)

    weights = {0xDF: ord("S")}
    for code in range(0x10000):
        letter = base(code)
        weight = base(upper.get(letter, letter))
        if code not in weights and weight != code:
            weights[code] = weight

    def encode(page):
        return struct.pack(f"<{PAGE}H", *(w or 0 for w in page))

    numbers, directory = {}, []
    for start in range(0, 0x10000, PAGE):
        page = encode([weights.get(code) for code in range(start, start + PAGE)])
        directory.append(numbers.setdefault(page, len(numbers)))
    assert len(numbers) < 256
    write("general.bin", bytes(directory), b"".join(numbers))


def case_runs(mapping):
    """Runs of code points with one distance to their mapping: (first, last, step, distance)."""
    runs = []
    for code, target in sorted(mapping):
        distance = target - code
        for run in reversed(runs[-2:]):
            step = code - run[1]
            single = run[0] == run[1]
            if run[3] == distance and step in (1, 2) and (single or run[2] == step):
                run[1], run[2] = code, step
                break
        else:
            runs.append([code, code, 1, distance])
    # Two runs interleaved (upper and lower alternate) are told apart by their steps.
    return b"".join(struct.pack("<IIIi", *run) for run in sorted(runs))


def cases(data):
    """Simple case mappings of the three Unicode versions in use."""
    sections = []
    for version in ("3.0.0", "5.2.0", "9.0.0"):
        for direction in ("lower", "upper"):
            mapping = [
                (code, target)
                for code, target in data[version][direction]
                if version != "3.0.0" or code < 0x10000
            ]
            sections.append(case_runs(mapping))
    write("case.bin", *sections)


def main():
    work = Path(sys.argv[1]).resolve()
    work.mkdir(parents=True, exist_ok=True)
    OUT.mkdir(exist_ok=True)
    keys, data = fetch(work)
    table_9_0, table_5_2 = parse_keys(keys["9.0.0"]), parse_keys(keys["5.2.0"])
    three_level(table_9_0)
    primaries = {c: [e[0] for e in elements if e[0]] for c, elements in table_5_2.items()}
    one_level("uca0520.bin", primaries)
    general(data)
    cases(data)


if __name__ == "__main__":
    main()
