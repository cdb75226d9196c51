#!/usr/bin/env python3
"""Generates the tables of character sets other than those of Unicode, and of their collations.

Run it as `crates/collation/generate/charsets.py SOCKET`, where SOCKET is that of a running MariaDB
server (10.11 or later) whose user root needs no password; it needs Python 3.9 or later with PyMySQL.
It writes into the crate: the tables, and `measured.txt`, sums that the tests compare with.

Sources
  MariaDB      every byte sequence converted by CONVERT, every character of the first plane converted
               back, LOWER, UPPER and WEIGHT_STRING of every character: answers of the server, no text
               of its source. MySQL has the same sets but for gb18030, which MariaDB does not have.
  Python       the codec `gb18030`: the mapping of GB 18030-2000, with the one change of 2005
"""

import struct
import sys
from pathlib import Path

import pymysql

OUT = Path(__file__).resolve().parent.parent / "src" / "tables"

SINGLE = [
    "armscii8", "ascii", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "dec8",
    "geostd8", "greek", "hebrew", "hp8", "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5",
    "latin7", "macce", "macroman", "swe7", "tis620",
]
MULTI = ["big5", "cp932", "eucjpms", "euckr", "gb2312", "gbk", "sjis", "ujis"]
# Collations whose weights are more than those of each character. Of the Thai one letter case is kept.
NOT_SIMPLE = {"latin2_czech_cs", "cp1250_czech_cs", "tis620_thai_ci"}
THAI = 18


def key(code):
    """The number under which a table keeps a code of one, two or three bytes."""
    if len(code) == 3:
        assert code[0] == 0x8F
        return code[1] << 8 | code[2] & 0x7F
    return int.from_bytes(code, "big")


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def runs(mapping):
    """A mapping of numbers to 16-bit numbers: runs of consecutive keys, whose values are
    consecutive or told one by one. A run: keys left out before it, twice its length (plus one if
    told one by one), the first value or all."""
    pieces = []
    for at, value in sorted(mapping.items()):
        last = pieces[-1] if pieces else None
        if last and at == last[0] + len(last[1]) and value == last[1][-1] + 1:
            last[1].append(value)
        else:
            pieces.append([at, [value]])
    joined = []
    for start, values in pieces:
        short = len(values) < 4
        last = joined[-1] if joined else None
        if short and last and last[2] and start == last[0] + len(last[1]):
            last[1].extend(values)
        else:
            joined.append([start, list(values), short])
    out, end = bytearray(varint(len(joined))), 0
    for start, values, each in joined:
        out += varint(start - end) + varint(2 * len(values) + each)
        told = values if each else values[:1]
        out += struct.pack(f"<{len(told)}H", *told)
        end = start + len(values)
    return bytes(out)


def write(name, blobs):
    """A file: the number of blobs, the end of each as 32-bit numbers, the blobs."""
    ends, at = [], 0
    for blob in blobs:
        at += len(blob)
        ends.append(at)
    head = struct.pack(f"<{len(blobs) + 1}I", len(blobs), *ends)
    (OUT / name).write_bytes(head + b"".join(blobs))
    print(f"{name}: {len(head) + at} bytes")


class Sum:
    """FNV-1a of 64 bits over byte strings, each followed by its length."""

    def __init__(self):
        self.value = 0xCBF29CE484222325

    def add(self, data):
        for byte in data + bytes([len(data)]):
            self.value = (self.value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF


class Server:
    def __init__(self, socket):
        connection = pymysql.connect(unix_socket=socket, user="root", charset="utf8mb4")
        self.cursor = connection.cursor()
        for statement in (
            "CREATE DATABASE IF NOT EXISTS measured",
            "USE measured",
            "SET sql_mode = ''",
            "DROP TABLE IF EXISTS codes, points",
            "CREATE TABLE codes (n INT PRIMARY KEY, b VARBINARY(4)) ENGINE = MEMORY",
            "CREATE TABLE points (n INT PRIMARY KEY, b BINARY(4)) ENGINE = MEMORY",
        ):
            self.ask(statement)
        self.codes = all_codes(True)
        self.fill("codes", list(enumerate(self.codes)))
        self.fill("points", [(c, struct.pack(">I", c)) for c in points()])

    def ask(self, statement):
        self.cursor.execute(statement)
        return self.cursor.fetchall()

    def fill(self, table, rows):
        for at in range(0, len(rows), 8000):
            values = ",".join(f"({n},x'{b.hex()}')" for n, b in rows[at : at + 8000])
            self.ask(f"INSERT INTO {table} VALUES {values}")

    def of_codes(self, charset, expression, single):
        where = "WHERE LENGTH(b) = 1" if single else ""
        rows = self.ask(f"SELECT n, HEX({expression}) FROM codes {where} ORDER BY n")
        return {self.codes[n]: bytes.fromhex(value) for n, value in rows}

    def of_points(self, expression):
        rows = self.ask(f"SELECT n, HEX({expression}) FROM points ORDER BY n")
        return {n: bytes.fromhex(value) for n, value in rows}


def all_codes(multi):
    codes = [bytes([a]) for a in range(256)]
    if multi:
        codes += [bytes([a, b]) for a in range(0x81, 0xFF) for b in range(0x30, 0xFF)]
        codes += [bytes([0x8F, a, b]) for a in range(0xA1, 0xFF) for b in range(0xA1, 0xFF)]
    return codes


def points():
    return [c for c in range(0x10000) if not 0xD800 <= c < 0xE000]


def measure(server, charset, sums):
    """The blob of a character set, and its characters with their codes."""
    single = charset in SINGLE
    text = f"CONVERT(b USING {charset})"
    decoded = server.of_codes(charset, f"CONVERT({text} USING utf32)", single)
    forward = {}
    total = Sum()
    for code in all_codes(not single):
        utf32 = decoded[code]
        total.add(utf32.decode("utf-32-be").encode())
        if len(utf32) == 4 and (utf32 != b"\0\0\0?" or code == b"?"):
            forward[code] = int.from_bytes(utf32, "big")
    sums.append(("decode", charset, total))
    backward = server.of_points(f"CONVERT(CONVERT(b USING utf32) USING {charset})")
    if charset == "sjis":
        # Between two sets that hold ASCII the server leaves it alone; from UTF-32 it does not.
        backward[0x5C] = b"\\"
    total = Sum()
    for point in points():
        total.add(backward[point])
    sums.append(("encode", charset, total))
    inverse, reverse = {}, {}
    for code in sorted(forward, key=lambda code: key(code)):
        inverse.setdefault(forward[code], code)
    for point in points():
        code = backward[point]
        none = code == b"?" and point != 0x3F
        if (None if none else code) != inverse.get(point):
            # A question mark stands for none.
            reverse[point] = key(code)
    blob = runs({key(code): point for code, point in forward.items()}) + runs(reverse)
    characters = {point: code for point, code in backward.items() if code != b"?" or point == 0x3F}
    for function in ("LOWER", "UPPER"):
        folded = server.of_codes(charset, f"{function}({text})", single)
        if charset not in ("latin5", "swe7"):
            # Some sets of the server change a letter of ASCII into another; Turkish alone means it.
            for byte in range(0x80):
                own = bytes([byte])
                folded[own] = own.lower() if function == "LOWER" else own.upper()
        total = Sum()
        for point, code in sorted(characters.items()):
            # A code may stand for several characters, of which it is converted to one.
            same = folded[code] == code
            total.add((chr(point) if same else decoded[folded[code]].decode("utf-32-be")).encode())
        sums.append((function.lower(), charset, total))
        changed = {key(c): key(folded[c]) for c in characters.values() if folded[c] != c}
        blob += runs(changed)
    return blob, characters


def weights(server, charset, name, characters, sums):
    """The blob of a collation: what weighs other than its own code."""
    single = charset in SINGLE
    found = server.of_codes(charset, f"WEIGHT_STRING(CONVERT(b USING {charset}) COLLATE {name})", single)
    total = Sum()
    for _, code in sorted(characters.items()):
        total.add(found[code])
    sums.append(("weights", name, total))
    # A letter may weigh as two bytes in sets of single bytes; elsewhere a weight is a code.
    return runs({key(c): key(found[c]) for c in characters.values() if found[c] != c})


def gb18030():
    """The codes of two and four bytes; of the latter the number in their order plus 65536."""
    mapping, known = {}, {}
    for a in range(0x81, 0xFF):
        for b in range(0x40, 0xFF):
            try:
                text = bytes([a, b]).decode("gb18030")
            except UnicodeDecodeError:
                continue
            mapping[a << 8 | b] = ord(text)
    for point in points():
        code = chr(point).encode("gb18030")
        if len(code) == 4:
            a, b, c, d = code
            mapping[0x10000 + ((a - 0x81) * 10 + b - 0x30) * 1260 + (c - 0x81) * 10 + d - 0x30] = point
    # GB 18030-2005: U+1E3F has the code A8BC, and U+E7C7 the one of four bytes.
    if mapping[0xA8BC] == 0xE7C7:
        four = next(k for k, v in mapping.items() if v == 0x1E3F)
        mapping[0xA8BC], mapping[four] = 0x1E3F, 0xE7C7
    mapping |= {byte: byte for byte in range(0x80)}
    assert len(set(mapping.values())) == len(mapping)
    return runs(mapping) + runs({}) * 3


def main():
    server, sums, blobs, characters = Server(sys.argv[1]), [], [], {}
    for charset in SINGLE + MULTI:
        blob, characters[charset] = measure(server, charset, sums)
        blobs.append(blob)
    write("charsets.bin", blobs + [gb18030()])
    rows = server.ask("SELECT id, collation_name, character_set_name FROM information_schema.collations WHERE id < 256")
    orders = []
    for number, name, charset in sorted(rows):
        if charset in characters and name not in NOT_SIMPLE and not name.endswith("_bin"):
            orders.append((number, weights(server, charset, name, characters[charset], sums)))
    orders.append((THAI, runs({ord(c): ord(c.lower()) for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"})))
    head = struct.pack(f"<{len(orders)}H", *(number for number, _ in orders))
    write("orders.bin", [head] + [blob for _, blob in orders])
    lines = [f"{what} {name} {total.value:016x}\n" for what, name, total in sums]
    (OUT / "measured.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
