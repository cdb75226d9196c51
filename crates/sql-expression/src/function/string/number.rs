//! Numbers for people: FORMAT, FORMAT_BYTES, FORMAT_PICO_TIME.

use crate::error::SqlError;
use crate::function::frame::string;
use crate::function::math::round_double;
use crate::function::signature::{Domain, domain_of};
use crate::function::{Evaluated, Frame, Signature};
use crate::result_type::ResultType;

pub(super) fn format_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let whole = s.length(0);
    s.maybe_ascii(u32::try_from(whole + whole / 3 + 32).unwrap_or(u32::MAX))
}

/// The marks of a locale: between thousands (if any), and the decimal point.
fn marks(locale: &str) -> Option<(Option<char>, char)> {
    let known = match locale.to_ascii_lowercase().as_str() {
        "en_us" | "en_gb" | "en_au" | "en_ca" | "en_nz" | "en_in" | "en_za" | "ja_jp" | "zh_cn"
        | "zh_tw" | "ko_kr" | "th_th" | "he_il" => (Some(','), '.'),
        "de_de" | "nl_nl" | "da_dk" | "id_id" | "is_is" | "tr_tr" | "vi_vn" => (Some('.'), ','),
        "de_at" | "fr_fr" | "fr_be" | "fr_ca" | "fr_ch" | "it_it" | "es_es" | "pt_pt" | "pl_pl" => {
            (None, ',')
        }
        "de_ch" | "it_ch" => (Some('\''), '.'),
        "sv_se" | "fi_fi" | "nb_no" | "ru_ru" | "uk_ua" | "cs_cz" => (Some(' '), ','),
        _ => return None,
    };
    Some(known)
}

pub(super) fn format(f: &mut Frame<'_, '_>) -> Evaluated {
    let digits = f.wide(1)?.clamp(0, 30) as u8;
    let (mut thousands, mut point) = (Some(','), '.');
    if f.len() == 3 && !f.is_null(2)? {
        let locale = f.string(2)?;
        match marks(&locale) {
            Some(found) => (thousands, point) = found,
            None => {
                let message = format!("Unknown locale: '{locale}'");
                f.context.warn(SqlError::new(1649, "HY000", message))?;
            }
        }
    }
    let plain = match domain_of(&f.argument(0).result) {
        Domain::Double => {
            let value = round_double(f.double(0)?, digits.into(), true);
            let mut text = String::new();
            sqltype::format::push_fixed(&mut text, value, digits);
            text
        }
        _ => f.decimal(0)?.round(digits).to_string(),
    };
    let (sign, plain) = match plain.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", &*plain),
    };
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    let mut out = sign.to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.extend(thousands);
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push(point);
        out.push_str(fraction);
    }
    string(out)
}

pub(super) fn format_bytes(f: &mut Frame<'_, '_>) -> Evaluated {
    let bytes = f.double(0)?;
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut size, mut unit) = (bytes, 0);
    while size.abs() >= 1024.0 && unit + 1 < units.len() {
        size /= 1024.0;
        unit += 1;
    }
    string(match unit {
        0 => format!("{:4} {}", size as i64, units[0]),
        _ if size.abs() >= 100_000.0 => format!("{size:4.2e} {}", units[unit]),
        _ => format!("{size:4.2} {}", units[unit]),
    })
}

pub(super) fn format_pico_time(f: &mut Frame<'_, '_>) -> Evaluated {
    let pico = f.double(0)?;
    let units = [
        ("ps", 1.0),
        ("ns", 1e3),
        ("us", 1e6),
        ("ms", 1e9),
        ("s", 1e12),
        ("min", 60e12),
        ("h", 3600e12),
        ("d", 86_400e12),
    ];
    let (name, size) =
        units.into_iter().rev().find(|(_, size)| pico.abs() >= *size).unwrap_or(units[0]);
    string(match name {
        "ps" => format!("{:3} ps", pico as i64),
        _ if (pico / size).abs() >= 100_000.0 => format!("{:4.2e} {name}", pico / size),
        _ => format!("{:4.2} {name}", pico / size),
    })
}
