#!/usr/bin/env python3
"""Generates the tables of collations of single languages over the Unicode Collation Algorithm.

Run it as `crates/collation/generate/tailorings.py SOCKET WORK`: SOCKET is that of a running MariaDB
server, as for charsets.py, WORK a folder where `pip download` puts pyuca (see tables.py). It writes
`uca0400.bin`, `tailored.bin` and `measured_uca.txt` into the crate.

Sources
  MariaDB      WEIGHT_STRING of all characters of the first plane under `unicode_ci` (UCA 4.0.0) and
               the collations of languages of that version, and of pairs of their letters: answers of
               the server, no text of its source
  CLDR 30      the rules of languages under LANGUAGES, in CLDR's notation (Unicode licence)
  pyuca 1.2    allkeys-9.0.0.txt (Unicode licence)
  ICU 72       the order of Han ideographs by pinyin (CLDR's data, Unicode licence)
  Python       the order of JIS X 0208, from the codec `euc_jp`; names of kana
  Python       canonical decompositions

How a rule becomes weights, as MySQL does it: what is placed behind something has its weights and one
more. That is a primary weight behind those of all characters but ideographs for `<`, a secondary one
for `<<`, a tertiary one for `<<<`. What is placed before something by `[before 1]` has its first weight
less one, and one more. Canonically equivalent texts get the same weights.
"""

import ctypes
import re
import struct
import sys
import unicodedata
import zipfile
from pathlib import Path

import pymysql

sys.path.insert(0, str(Path(__file__).resolve().parent))
from charsets import OUT, Sum, runs, varint, write  # noqa: E402
from tables import one_level, parse_keys  # noqa: E402

# Languages of UCA 4.0.0, in the order of MySQL's numbers; the name is MariaDB's.
OLD = [
    "icelandic", "latvian", "romanian", "slovenian", "polish", "estonian", "spanish", "swedish",
    "turkish", "czech", "danish", "lithuanian", "slovak", "spanish2", "roman", "persian",
    "esperanto", "hungarian", "sinhala", "german2", "croatian_mysql561", "vietnamese",
]
# Other letters that may be parts of contractions there.
OLD_LETTERS = {"persian": range(0x600, 0x700), "sinhala": range(0xD80, 0xE00)}

NORDIC = "&D<<đ<<<Đ<<ð<<<Ð&{th}&Y<<ü<<<Ü<<ű<<<Ű&[before 1]ǀ"
T_H = "t<<<þ/h&T<<<Þ/H"
NORWEGIAN = (
    NORDIC.format(th=T_H)
    + "<æ<<<Æ<<ä<<<Ä<<ę<<<Ę<ø<<<Ø<<ö<<<Ö<<ő<<<Ő<<œ<<<Œ<å<<<Å<<aa<<<Aa<<<AA"
)
CROATIAN = (
    "[reorder Latn Cyrl]&C<č<<<Č<ć<<<Ć&D<dž<<<ǆ<<<Dž<<<ǅ<<<DŽ<<<Ǆ<đ<<<Đ&L<lj<<<ǉ<<<Lj<<<ǈ<<<LJ<<<Ǉ"
    "&N<nj<<<ǌ<<<Nj<<<ǋ<<<NJ<<<Ǌ&S<š<<<Š&Z<ž<<<Ž"
)
DOUBLED = "".join(
    f"&{a}<<<{a[0]}{a}/{a}&{a.capitalize()}<<<{a[0].upper()}{a}/{a}&{a.upper()}<<<{a[0].upper()}{a.upper()}/{a.upper()}"
    for a in ["cs", "dz", "dzs", "gy", "ly", "ny", "sz", "ty", "zs"]
)
LANGUAGES = {
    "de_pb": "&AE<<ä<<<Ä&OE<<ö<<<Ö&UE<<ü<<<Ü",
    "is": "&[before 1]b<á<<<Á&d<<đ<<<Đ<ð<<<Ð&[before 1]f<é<<<É&[before 1]j<í<<<Í&[before 1]p<ó<<<Ó"
    "&[before 1]v<ú<<<Ú&[before 1]z<ý<<<Ý&[before 1]ǀ<æ<<<Æ<<ä<<<Ä<ö<<<Ö<<ø<<<Ø<å<<<Å",
    "lv": "&[before 1]D<č<<<Č&[before 1]H<ģ<<<Ģ&I<<y<<<Y&[before 1]L<ķ<<<Ķ&[before 1]M<ļ<<<Ļ"
    "&[before 1]O<ņ<<<Ņ&[before 1]S<ŗ<<<Ŗ&[before 1]T<š<<<Š&[before 1]Ʒ<ž<<<Ž",
    "ro": "&A<ă<<<Ă<â<<<Â&I<î<<<Î&S<ş=ș<<<Ş=Ș&T<ţ=ț<<<Ţ=Ț",
    "sl": "&C<č<<<Č<ć<<<Ć&D<đ<<<Đ&S<š<<<Š&Z<ž<<<Ž",
    "pl": "&A<ą<<<Ą&C<ć<<<Ć&E<ę<<<Ę&L<ł<<<Ł&N<ń<<<Ń&O<ó<<<Ó&S<ś<<<Ś&Z<ź<<<Ź<ż<<<Ż",
    "et": "&[before 1]T<š<<<Š<z<<<Z<ž<<<Ž&[before 1]X<õ<<<Õ<ä<<<Ä<ö<<<Ö<ü<<<Ü",
    "es": "&N<ñ<<<Ñ",
    "sv": NORDIC.format(th=T_H) + "<å<<<Å<ä<<<Ä<<æ<<<Æ<<ę<<<Ę<ö<<<Ö<<ø<<<Ø<<ő<<<Ő<<œ<<<Œ<<ô<<<Ô",
    "tr": "&C<ç<<<Ç&G<ğ<<<Ğ&[before 1]i<ı<<<I&i<<<İ&O<ö<<<Ö&S<ş<<<Ş&U<ü<<<Ü",
    "cs": "&C<č<<<Č&H<ch<<<cH<<<Ch<<<CH&R<ř<<<Ř&S<š<<<Š&Z<ž<<<Ž",
    "da": "[caseFirst upper]"
    + NORDIC.format(th="th<<<þ&TH<<<Þ")
    + "<æ<<<Æ<<ä<<<Ä<ø<<<Ø<<ö<<<Ö<<ő<<<Ő<<œ<<<Œ<å<<<Å<<<aa<<<Aa<<<AA",
    "lt": "&\u0300=\u0307\u0300&\u0301=\u0307\u0301&\u0303=\u0307\u0303&A<<ą<<<Ą&C<č<<<Č"
    "&E<<ę<<<Ę<<ė<<<Ė&I<<į<<<Į<<y<<<Y&S<š<<<Š&U<<ų<<<Ų<<ū<<<Ū&Z<ž<<<Ž",
    "sk": "&A<ä<<<Ä&C<č<<<Č&H<ch<<<cH<<<Ch<<<CH&O<ô<<<Ô&R<ř<<<Ř&S<š<<<Š&Z<ž<<<Ž",
    "es_trad": "&N<ñ<<<Ñ&C<ch<<<Ch<<<CH&l<ll<<<Ll<<<LL",
    "la": "&I<<j<<<J&V<<u<<<U",
    "eo": "&C<ĉ<<<Ĉ&G<ĝ<<<Ĝ&H<ĥ<<<Ĥ&J<ĵ<<<Ĵ&S<ŝ<<<Ŝ&U<ŭ<<<Ŭ",
    "hu": "&C<cs<<<Cs<<<CS&D<dz<<<Dz<<<DZ&DZ<dzs<<<Dzs<<<DZS&G<gy<<<Gy<<<GY&L<ly<<<Ly<<<LY"
    "&N<ny<<<Ny<<<NY&S<sz<<<Sz<<<SZ&T<ty<<<Ty<<<TY&Z<zs<<<Zs<<<ZS&O<ö<<<Ö<<ő<<<Ő&U<ü<<<Ü<<ű<<<Ű"
    + DOUBLED,
    "hr": CROATIAN,
    "vi": "&\u0300<<\u0309<<\u0303<<\u0301<<\u0323&a<ă<<<Ă<â<<<Â&d<đ<<<Đ&e<ê<<<Ê&o<ô<<<Ô<ơ<<<Ơ&u<ư<<<Ư",
    "ru": "[reorder Cyrl]",
    "nb": NORWEGIAN,
    "nn": NORWEGIAN,
    "sr_latn": CROATIAN,
    "bs": CROATIAN,
    "bg": "[reorder Cyrl]",
    "gl": "&N<ñ<<<Ñ",
    "mn_cyrl": "[reorder Cyrl Mong]",
    "ja": "[reorder Latn Kana]",
    "zh": "",
}
# Between which characters the scripts lie that are reordered: first, and first of the next script.
SCRIPTS = {"Latn": "aα", "Cyrl": "аⰰ", "Mong": ("\u1820", "\u1c5a"), "Kana": "ァㄅ"}
# The first of the weights that are added behind something, per level; and what a level without
# weights of its own has.
FIRST_PRIMARY, FIRST_SECONDARY, FIRST_TERTIARY = 0x54A4, 0x0115, 0x20
UPPER = {0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0E, 0x11, 0x12, 0x1D}


class Table:
    """Weights of one language, over those of UCA 9.0.0."""

    def __init__(self, base, rules, han=""):
        self.base, self.own, self.kana = base, {}, False
        self.upper_first = "[caseFirst upper]" in rules
        found = re.search(r"\[reorder ([\w ]+)\]", rules)
        self.moves = self.reordered(found[1].split()) if found else []
        self.han = {ord(char): FIRST_PRIMARY + n for n, char in enumerate(han)}
        rules = re.sub(r"\[(caseFirst|reorder) [\w ]+\]", "", rules)
        for chain in rules.split("&")[1:]:
            self.chain(chain)
        self.close()

    def reordered(self, scripts):
        """Moves of primary weights: (first, behind the last, first afterwards)."""
        start = self.base[ord("a")][0][0]
        spans = [tuple(self.base[ord(char)][0][0] for char in SCRIPTS[name]) for name in scripts]
        moves, at, rest = [], start, start
        for first, end in spans:
            moves.append((first, end, at))
            at += end - first
        for first, end in sorted(spans):
            if rest < first:
                moves.append((rest, first, at))
                at += first - rest
            rest = end
        return [move for move in moves if move[0] != move[2]]

    def moved(self, primary):
        for first, end, to in self.moves:
            if first <= primary < end:
                return primary - first + to
        return primary

    def of_base(self, char):
        return [(self.moved(p), s, t) for p, s, t in self.base[ord(char)] if p or s or t]

    def of(self, text):
        """The elements of a text, by the longest part that has some."""
        elements, at = [], 0
        while at < len(text):
            size = next((n for n in (4, 3, 2, 1) if text[at : at + n] in self.own and at + n <= len(text)), 0)
            elements += self.own[text[at : at + size]] if size else self.of_base(text[at])
            at += size or 1
        return elements

    def chain(self, chain):
        before = chain.startswith("[before 1]")
        parts = re.split(r"(<{1,3}|=)", chain.removeprefix("[before 1]"))
        reset = self.of(unicodedata.normalize("NFC", parts[0]))
        if before:
            (primary, second, third), *others = reset
            reset = [(primary - 1, second, third), *others]
        steps = [0, 0, 0]
        for relation, text in zip(parts[1::2], parts[2::2]):
            text, _, expansion = text.partition("/")
            if relation != "=":
                level = len(relation) - 1
                steps[level:] = [steps[level] + 1] + [0] * (2 - level)
            elements = list(reset)
            if steps[0]:
                elements.append((FIRST_PRIMARY + steps[0] - 1, 0x20, 0x02 + (0 if steps[1] else steps[2])))
            if steps[1]:
                elements.append((0, FIRST_SECONDARY + steps[1] - 1, 0x02 + steps[2]))
            if steps[2] and not steps[0] and not steps[1]:
                elements.append((0, 0, FIRST_TERTIARY + steps[2] - 1))
            elements += self.of(expansion)
            if self.upper_first:
                elements = [(p, s, t | self.case(text)) for p, s, t in elements]
            for form in {unicodedata.normalize(form, text) for form in ("NFC", "NFD")}:
                self.own[form] = elements

    def case(self, text):
        """A mark in the tertiary weights of tailored texts under `caseFirst upper`."""
        letters = [char for char in text if char.isalpha()]
        upper = [char.isupper() for char in letters]
        return 0x100 if letters and all(upper) else 0x200 if any(upper) else 0x300

    def before_all(self, han):
        """Ideographs in this order before all scripts."""
        start = self.base[ord("a")][0][0]
        self.han = {ord(char): start + n for n, char in enumerate(han)}
        self.moves = [(start, FIRST_PRIMARY, start + len(han))]
        assert start + len(han) + FIRST_PRIMARY - start < 0xFB00

    def japanese(self):
        """Marks of a long vowel and of iteration weigh as what they stand for, in capitals or small
        letters alike."""
        self.kana = True
        kana = [chr(c) for a, b in [(0x3041, 0x3097), (0x30A1, 0x30FB), (0xFF66, 0xFF9E)] for c in range(a, b)]
        vowels = dict(zip("AIUEO", "アイウエオ"))
        for char in kana:
            vowel = vowels.get(unicodedata.name(char, "")[-1:])
            own = self.of_base(char)
            before = [(own[0][0], own[0][1], 0x0C)]
            if vowel:
                long = [(self.of_base(vowel)[0][0], 0x20, 0x0C)]
                self.own |= {char + mark: own + long for mark in "ーｰ"}
            self.own |= {char + mark: own + before for mark in "ゝヽ"}
            self.own |= {char + mark: own + before + self.of_base("\u3099") for mark in "ゞヾ"}

        merged = {0x0F: 0x0D, 0x11: 0x0E}
        for text, elements in self.own.items():
            self.own[text] = [(p, s, merged.get(t, t)) for p, s, t in elements]

    def close(self):
        """Characters that decompose into something with weights of its own."""
        for code in range(0x80, 0x3_0000):
            char = chr(code)
            parts = unicodedata.normalize("NFD", char)
            if char in self.own or len(parts) == 1 or 0xAC00 <= code < 0xD7A4 or code not in self.base:
                continue
            # Marks of one combining class keep their order; one of another may be pulled to the front.
            orders = [parts] + [parts[0] + parts[n] + parts[1:n] + parts[n + 1 :] for n in range(2, len(parts))]
            chosen = next((o for o in orders if o[:2] in self.own), parts)
            if any(chosen[a:b] in self.own for a in range(len(chosen)) for b in range(a + 1, len(chosen) + 1)):
                self.own[char] = self.of(chosen)

    def tertiary(self, weight):
        """With `caseFirst upper`, capitals before mixed before others."""
        if not self.upper_first or weight == 0:
            return weight
        case = weight >> 8 or (1 if weight in UPPER else 3)
        return 0x28 * (case - 1) + (weight & 0xFF)

    def blob(self):
        out = bytearray([self.upper_first + 2 * self.kana]) + varint(len(self.moves))
        for move in self.moves:
            out += struct.pack("<3H", *move)
        out += runs(self.han)
        out += varint(len(self.own))
        for text, elements in sorted(self.own.items()):
            assert len(elements) <= 8, (text, elements)
            out += varint(len(text)) + b"".join(varint(ord(char)) for char in text) + varint(len(elements))
            for primary, second, third in elements:
                out += struct.pack("<HHB", primary, second, self.tertiary(third))
        return bytes(out)


def old_blob(own):
    out = bytearray(varint(len(own)))
    for text, weights in sorted(own.items()):
        out += varint(len(text)) + b"".join(varint(ord(char)) for char in text) + varint(len(weights))
        out += struct.pack(f"<{len(weights)}H", *weights)
    return bytes(out)


class Server:
    def __init__(self, socket):
        connection = pymysql.connect(unix_socket=socket, user="root", charset="utf8mb4")
        self.cursor = connection.cursor()
        self.ask("CREATE DATABASE IF NOT EXISTS measured")
        self.ask("USE measured")
        self.fill("points", [c for c in range(0x10000) if not 0xD800 <= c < 0xE000])

    def ask(self, statement):
        self.cursor.execute(statement)
        return self.cursor.fetchall()

    def fill(self, table, codes):
        self.ask(f"DROP TABLE IF EXISTS {table}")
        self.ask(f"CREATE TABLE {table} (n INT PRIMARY KEY, t CHAR(1) CHARACTER SET utf8mb4) ENGINE = MEMORY")
        for at in range(0, len(codes), 8000):
            values = ",".join(f"({c},CONVERT(_utf32 x'{c:08x}' USING utf8mb4))" for c in codes[at : at + 8000])
            self.ask(f"INSERT INTO {table} VALUES {values}")

    def weights(self, collation):
        rows = self.ask(f"SELECT n, HEX(WEIGHT_STRING(IF(n = 32, ' ', t) COLLATE utf8mb4_{collation}_ci)) FROM points")
        return {n: words(value) for n, value in rows}

    def pairs(self, collation, letters):
        self.fill("letters", sorted(letters))
        c = f"COLLATE utf8mb4_{collation}_ci"
        rows = self.ask(
            f"SELECT a.n, b.n, HEX(WEIGHT_STRING(CONCAT(a.t, b.t) {c})) FROM letters a, letters b WHERE"
            f" WEIGHT_STRING(CONCAT(a.t, b.t) {c}) <> CONCAT(WEIGHT_STRING(a.t {c}), WEIGHT_STRING(b.t {c}))"
        )
        return {chr(a) + chr(b): words(value) for a, b, value in rows}


def words(text):
    data = bytes.fromhex(text)
    return list(struct.unpack(f">{len(data) // 2}H", data))


def implicit_4_0(code):
    """What the code derives from a code point without an entry."""
    compatible = {0xFA0E, 0xFA0F, 0xFA11, 0xFA13, 0xFA14, 0xFA1F, 0xFA21, 0xFA23, 0xFA24, 0xFA27, 0xFA28, 0xFA29}
    base = 0xFBC0
    if 0x4E00 <= code <= 0x9FA5 or code in compatible:
        base = 0xFB40
    elif 0x3400 <= code <= 0x4DB5:
        base = 0xFB80
    return [base + (code >> 15), code & 0x7FFF | 0x8000]


def han_by_pinyin():
    """Han ideographs of Unicode 9.0 whose pronunciation CLDR knows, in its order."""
    icu = ctypes.CDLL("libicui18n.so.72")
    icu.ucol_open_72.restype = ctypes.c_void_p
    icu.ucol_getSortKey_72.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int]

    def sort_key(collator, char):
        text, room = char.encode("utf-16-le"), ctypes.create_string_buffer(64)
        icu.ucol_getSortKey_72(collator, text, len(text) // 2, room, 64)
        return room.value

    error = ctypes.c_int(0)
    chinese, root = (icu.ucol_open_72(name, ctypes.byref(error)) for name in (b"zh", b"root"))
    assert error.value <= 0
    ranges = [(0x4E00, 0x9FD6), (0x3400, 0x4DB6), (0x20000, 0x2A6D7), (0x2A700, 0x2B735), (0x2B740, 0x2B81E), (0x2B820, 0x2CEA2)]
    every = [chr(c) for a, b in ranges for c in range(a, b)]
    han = sorted(every, key=lambda char: sort_key(chinese, char))
    # Those without follow in the order of the root, by radical and stroke.
    place = {char: n for n, char in enumerate(sorted(every, key=lambda char: sort_key(root, char)))}
    end = len(han) - 1
    while end > 0 and place[han[end - 1]] < place[han[end]]:
        end -= 1
    return "".join(han[:end])


def han_by_jis():
    """The ideographs of JIS X 0208 in its order."""
    codes = (bytes([a, b]) for a in range(0xB0, 0xF5) for b in range(0xA1, 0xFF))
    return "".join(code.decode("euc_jp", errors="ignore") for code in codes)


def main():
    socket, work = sys.argv[1], Path(sys.argv[2])
    server, sums = Server(socket), []
    base = server.weights("unicode")
    one_level("uca0400.bin", {c: w for c, w in base.items() if w != implicit_4_0(c)})
    blobs = []
    for name in ["unicode"] + OLD:
        total = Sum()
        found = server.weights(name)
        changed = {c for c in found if found[c] != base[c]}
        letters = changed | set(range(65, 91)) | set(range(97, 123)) | set(range(0x300, 0x346))
        letters |= set(OLD_LETTERS.get(name, []))
        own = {chr(c): found[c] for c in changed}
        pairs = server.pairs(name, letters)
        own |= pairs
        for code in sorted(found):
            total.add(struct.pack(f">{len(found[code])}H", *found[code]))
        for pair in sorted(pairs):
            total.add(pair.encode())
            total.add(struct.pack(f">{len(pairs[pair])}H", *pairs[pair]))
        sums.append((name.removesuffix("_mysql561"), total))
        if name != "unicode":
            blobs.append(old_blob(own))
            print(name, len(own), len(blobs[-1]), "pairs", sorted(pairs))
    with zipfile.ZipFile(next(work.glob("pyuca-*.whl"))) as wheel:
        table = parse_keys(wheel.read("pyuca/allkeys-9.0.0.txt").decode())
    for name, rules in LANGUAGES.items():
        language = Table(table, rules, han_by_jis() if name == "ja" else "")
        if name == "ja":
            language.japanese()
        if name == "zh":
            language.before_all(han_by_pinyin())
        blobs.append(language.blob())
        print(name, len(language.own), len(blobs[-1]), language.moves)
    write("tailored.bin", blobs)
    (OUT / "measured_uca.txt").write_text("".join(f"weights {name} {total.value:016x}\n" for name, total in sums))


if __name__ == "__main__":
    main()
