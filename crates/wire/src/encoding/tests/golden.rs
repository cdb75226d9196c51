//! The bytes as they must stay.

use codec::Shape;

use super::*;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/wire-format.txt");
const HEAD: &str = "\
The bytes of the messages between processes. Written by the tests of `wire` from the types; with
BLESS=1 they write this file anew.

byte        one byte
truth       one byte, 0 or 1
varintN     a number of N bits at most. The zeros at the low end of the first byte count the bytes
            that follow; the number is in the bits above the lowest 1, little-endian. A first byte
            of 0 is followed by the number in eight bytes
zigzag      a varint64 whose lowest bit is the sign: 0, -1, 1, -2 are 0, 1, 2, 3
eight       eight bytes, little-endian
bytes       their number (varint64), and they themselves
text        the same, in UTF-8
json(T)     the same, the JSON of T
list(T)     the number of elements (varint64), and the elements
set(T)      the same, ascending
optional(T) a truth; T if it is 1
result(T,E) a truth; T if it is 0, E if it is 1
(T, U)      one after the other
Name        see there: its fields, one after the other; or a byte and the fields of the variant that
            has it; or one of some numbers, as a varint

";

#[test]
fn the_format_is_the_one_on_the_page() {
    let text = format!("{HEAD}Protocol version {PROTOCOL_VERSION}.\n{}", format());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(PAGE, text).unwrap();
        return;
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    let different = text.lines().zip(page.lines()).find(|(now, then)| now != then);
    assert!(
        text == page,
        "The bytes of messages are not those of docs/reference/wire-format.txt; the first \
         difference is {different:?}. If nodes with the old format are to understand the new one, \
         mark what is new with `#[codec(since = …)]` and raise PROTOCOL_VERSION. Then \
         `BLESS=1 cargo test -p wire` writes the page."
    );
}

#[test]
fn nothing_is_newer_than_the_protocol() {
    let text = format().to_string();
    for line in text.lines() {
        let since = line.split(", since ").nth(1).map(|number| number.parse::<u16>().unwrap());
        assert!(since.is_none_or(|since| since <= PROTOCOL_VERSION), "{line}");
    }
    assert_eq!(Envelope::describe(&mut Format::new()), Shape::Named("Envelope"));
}
