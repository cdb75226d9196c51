//! Orders of languages, and the agreement of compare, keys, hashes and LIKE for groups of
//! characters.

use std::cmp::Ordering::{Equal, Greater, Less};

use super::*;
use crate::coded::tests::Sum;
use crate::order::{compare, equal, hash, weight_string};
use crate::pattern::like;
use crate::registry::COLLATIONS;
use crate::sort_key::{prefix_key, sort_key};
use crate::sort_prefix::sort_prefix;

const MEASURED: &str = include_str!("../tables/measured_uca.txt");

fn of(name: &str) -> CollationId {
    CollationId::by_name(name).expect(name)
}

/// Every character of the first plane, and every group, of the collations of UCA 4.0.0.
#[test]
fn weights_of_uca_4_are_as_measured() {
    let mut wrong = Vec::new();
    for line in MEASURED.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(language), Some(expected)) = (words.next(), words.next()) else {
            panic!("{line}")
        };
        let id = of(&format!("utf8mb4_{language}_ci"));
        let mut sum = Sum::new();
        for char in (0..0x1_0000).filter_map(char::from_u32) {
            sum.add(&weight_string(id, char.to_string().as_bytes()));
        }
        let groups = Tailoring::of_0400(id).map_or(&[][..], |own| &own.groups);
        let text = |(group, _): &(Vec<u32>, Letter)| -> String {
            group.iter().filter_map(|code| char::from_u32(*code)).collect()
        };
        let mut texts: Vec<String> = groups.iter().map(text).collect();
        texts.sort_unstable();
        for text in texts {
            sum.add(text.as_bytes());
            sum.add(&weight_string(id, text.as_bytes()));
        }
        if format!("{:016x}", sum.0) != expected {
            wrong.push(language);
        }
    }
    assert_eq!(MEASURED.lines().count(), OLD + 1);
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn known_orders_of_languages() {
    let cases = [
        ("danish_ci", "z < æ = ä < ø = ö < å = aa = AA"),
        ("swedish_ci", "y = ü < z < å < ä = æ < ö = ø"),
        ("esperanto_ci", "c < ĉ < d < g < ĝ < u < ŭ < v"),
        ("spanish_ci", "cg < ch < ci < n < ñ < o"),
        ("spanish2_ci", "cz < ch < d < lz < ll = LL < m"),
        ("czech_ci", "c < č < d < h < ch < i"),
        ("german2_ci", "ad < ae = ä < af"),
        ("turkish_ci", "h < ı = I < i < j"),
        ("roman_ci", "i = j < u = v"),
        ("croatian_ci", "cz < č < ć < d < dž = ǆ < đ < lz < lj < m"),
        ("hungarian_ci", "o < ö = ő < p"),
        ("vietnamese_ci", "a < ă < â < b"),
        ("da_0900_ai_ci", "z < æ = ä < ø = ö < å = aa = AA"),
        ("da_0900_as_cs", "A < a < B < b < Å < å"),
        ("0900_as_cs", "a < A < b < B"),
        ("nb_0900_ai_ci", "z < æ < ø < å = aa"),
        ("nn_0900_as_cs", "z < å < Å < aa < Aa < AA"),
        ("sv_0900_ai_ci", "y = ü < z < å < ä = æ < ö = ø"),
        ("is_0900_ai_ci", "a < á < b < d < ð < e < é < f < þ < æ < ö < å"),
        ("de_pb_0900_ai_ci", "ad < ae = ä < af"),
        ("de_pb_0900_as_cs", "ae < ä < Ä < af"),
        ("es_0900_ai_ci", "cg < ch < ci < n < ñ = n\u{303} < o"),
        ("gl_0900_ai_ci", "n < ñ < o"),
        ("es_trad_0900_ai_ci", "cz < ch < d < lz < ll < m"),
        ("cs_0900_ai_ci", "c < č < d < hz < ch = CH < i < r < ř < s"),
        ("cs_0900_as_cs", "hz < ch < cH < Ch < CH < i"),
        ("sk_0900_ai_ci", "a < ä < b < h < ch < i < o < ô < p"),
        ("hr_0900_ai_ci", "c < č < ć < d < dz < dž < đ < lj < m < z < ž < ж < ω"),
        ("bs_0900_ai_ci", "z < ж < ω"),
        ("sr_latn_0900_ai_ci", "nz < nj < o"),
        ("hu_0900_ai_ci", "cz < cs = CS < d < dz < dzs < e < o < ö = ő < p"),
        ("hu_0900_ai_ci", "ccs = cscs"),
        ("tr_0900_ai_ci", "c < ç < d < ı = I < i = İ < j"),
        ("ru_0900_ai_ci", "9 < я < a < ω"),
        ("bg_0900_ai_ci", "ж < z < α"),
        ("mn_cyrl_0900_ai_ci", "ж < \u{1820} < a"),
        ("la_0900_ai_ci", "i = j < u = v < x"),
        ("lt_0900_ai_ci", "i = y = į < j < s < š < t"),
        ("lv_0900_ai_ci", "c < č < d < g < ģ < h < i = y"),
        ("pl_0900_ai_ci", "a < ą < b < z < ź < ż"),
        ("ro_0900_ai_ci", "a < ă < â < b < s < ş = ș < t"),
        ("sl_0900_ai_ci", "c < č < ć < d < đ < e"),
        ("et_0900_ai_ci", "s < š < z < ž < t < w < õ < ä < ö < ü < x"),
        ("eo_0900_ai_ci", "c < ĉ < d < u < ŭ < v"),
        ("vi_0900_ai_ci", "a = á < ă = ắ < â < b < d < đ < e < ê < f"),
        ("ja_0900_as_cs", "a < z < か = カ < が < き < α < 亜 < 一 < 丂"),
        ("ja_0900_as_cs", "カー < カア < カイ"),
        ("ja_0900_as_cs", "かか < かが < かき"),
        ("zh_0900_as_cs", "9 < 阿 < 八 < 中 < a < z"),
        ("vi_0900_as_cs", "a < à < ả < ã < á < ạ < ă"),
    ];
    for (name, order) in cases {
        let id = of(&format!("utf8mb4_{name}"));
        let words: Vec<&str> = order.split(' ').collect();
        for part in words.windows(3).step_by(2) {
            let expected = if part[1] == "=" { Equal } else { Less };
            let order = compare(id, part[0].as_bytes(), part[2].as_bytes());
            assert_eq!(order, expected, "{} {} under {name}", part[0], part[2]);
        }
    }
    let czech = of("utf8mb4_cs_0900_ai_ci");
    assert_eq!(compare(czech, b"cha", b"cz"), Greater, "what both begin with counts");
    assert_eq!(compare(czech, "ěch".as_bytes(), "ěcz".as_bytes()), Greater);
    assert!(like(czech, b"chata", b"c%", None), "LIKE compares characters one by one");
    assert!(!like(of("utf8mb4_danish_ci"), b"aa", "å".as_bytes(), None));
}

#[test]
fn every_language_is_found_by_its_name() {
    let mut found = 0;
    for collation in &COLLATIONS {
        let own = Tailoring::of_0400(collation.id).is_some()
            || Tailoring::of_0900(collation.id).is_some();
        let name = collation.name;
        let general = ["general", "unicode", "bin", "_0900_a", "tolower"];
        let has_language = collation.charset.is_unicode()
            && (!general.iter().any(|part| name.contains(part)) || name.matches('_').count() >= 4)
            && !name.ends_with("_bin");
        assert_eq!(own, has_language, "{name}");
        found += usize::from(own);
    }
    assert_eq!(found, 5 * OLD + 2 * NEW.len() - 2);
}

/// Texts with parts of groups, whole groups, and what LIKE takes for such parts.
fn texts() -> Vec<Vec<u8>> {
    let pieces = [
        "", "c", "C", "h", "s", "z", "ch", "d", "ž", "n", "\u{303}", "ñ", "a", "å", "A", " ", "l",
        "j", "u", "e", "ж", "α", "ı", "I", "ä", "\u{AD}", "日", "カ", "ー",
    ];
    let mut texts = Vec::new();
    for a in pieces {
        for b in pieces {
            for c in ["", "s", "h", " "] {
                texts.push([a, b, c].concat().into_bytes());
            }
        }
    }
    texts.push(b"\xFFc\xE2\x82h".to_vec());
    texts
}

#[test]
fn keys_hashes_and_prefixes_of_groups_agree_with_compare() {
    let texts = texts();
    let languages = COLLATIONS.iter().filter(|collation| {
        collation.id.0 >= 225 && collation.name.starts_with("utf8mb4_") && !collation.is_binary
    });
    for (number, collation) in languages.enumerate() {
        let (id, name) = (collation.id, collation.name);
        let key = |text: &Vec<u8>| {
            let mut key = Vec::new();
            sort_key(id, text, &mut key);
            let mut first = key.clone();
            first.resize(first.len().max(8), 0);
            assert_eq!(sort_prefix(id, text).to_be_bytes(), first[..8], "{name} {text:?}");
            (key, hash(id, text))
        };
        let keys: Vec<_> = texts.iter().map(key).collect();
        // Steps that meet other pairs under each collation.
        for (a, key_a) in texts.iter().zip(&keys).skip(number % 7).step_by(7) {
            for (b, key_b) in texts.iter().zip(&keys).skip(number % 5).step_by(5) {
                let order = compare(id, a, b);
                assert_eq!(key_a.0.cmp(&key_b.0), order, "{a:?} {b:?} under {name}");
                assert_eq!(order.is_eq(), equal(id, a, b), "{a:?} {b:?} under {name}");
                assert!(order.is_ne() || key_a.1 == key_b.1, "{a:?} {b:?} under {name}");
            }
        }
        for prefix in texts.iter().skip(number % 11).step_by(11) {
            let mut begins = Vec::new();
            prefix_key(id, prefix, &mut begins);
            let pattern = [prefix, &b"%"[..]].concat();
            for (text, (key, _)) in texts.iter().zip(&keys) {
                if like(id, text, &pattern, None) {
                    assert!(key.starts_with(&begins), "{name}: {text:?} LIKE {pattern:?}");
                }
            }
        }
    }
}
