//! Draws expressions of every type.
//!
//! # Owns
//! The templates of operators and functions by the type they give, and [`Expressions`], which fills
//! them.

use super::draw::Draw;
use super::tree::{Kind, Tree};

use Kind::{
    Date as A, Decimal as D, Double as F, Integer as I, Moment as M, Text as S, Time as T,
    Truth as B,
};

/// A template and what stands in its places.
pub(super) type Template = (&'static str, &'static [Kind]);

/// A column that an expression can name.
#[derive(Clone)]
pub(super) struct Named {
    /// With the table's name before it.
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// Draws expressions over the columns that are in sight.
pub(super) struct Expressions {
    pub(super) draw: Draw,
    /// Columns in sight; those of the block around it come first.
    pub(super) columns: Vec<Named>,
    /// Subqueries that may still be drawn for the query.
    pub(super) subqueries: u32,
    /// Names of tables given so far in the query.
    pub(super) aliases: u32,
}

impl Expressions {
    /// An expression of a kind whose tree is at most so deep.
    pub(super) fn draw_of(&mut self, kind: Kind, depth: u32) -> Tree {
        if depth == 0 || self.draw.chance(25) {
            return self.leaf(kind);
        }
        if self.subqueries > 0 && self.draw.chance(if kind == Kind::Truth { 15 } else { 4 }) {
            self.subqueries -= 1;
            return self.subquery(kind);
        }
        let templates = match kind {
            Kind::Integer => INTEGERS,
            Kind::Decimal => DECIMALS,
            Kind::Double => DOUBLES,
            Kind::Text => TEXTS,
            Kind::Date => DATES,
            Kind::Time => TIMES,
            Kind::Moment => MOMENTS,
            _ => TRUTHS,
        };
        let (text, places) = *self.draw.item(templates);
        let children = places.iter().map(|kind| self.draw_of(*kind, depth - 1)).collect();
        Tree::of(kind, text, children)
    }

    /// A column or a constant.
    pub(super) fn leaf(&mut self, kind: Kind) -> Tree {
        let fitting: Vec<&Named> =
            self.columns.iter().filter(|column| column.kind == kind).collect();
        if !fitting.is_empty() && self.draw.chance(70) {
            let name = self.draw.item(&fitting).name.clone();
            // Inside of functions MariaDB takes members for texts where a number is wanted.
            let member = name.ends_with(".e") || name.ends_with(".st");
            let name = if member { format!("CONCAT({name})") } else { name };
            return Tree::leaf(kind, name);
        }
        let constants: &[&str] = match kind {
            Kind::Integer => &["0", "1", "2", "-3", "7", "10", "255", "NULL", "65536"],
            Kind::Decimal => &["0.0", "1.5", "-2.25", "100.001", "0.333", "99999.99999"],
            Kind::Double => &["0e0", "1.5e0", "-2.5e0", "1e3"],
            Kind::Text => &[
                "'apple'", "'Apple'", "'été'", "''", "'a'", "'12'", "'3.7x'", "'%p%'", "'a,b'",
                "NULL", "'b'", "'日本'",
            ],
            Kind::Date => &["DATE'2024-02-29'", "DATE'1999-12-31'", "DATE'2000-01-01'"],
            Kind::Time => {
                &["TIME'10:11:12'", "TIME'-01:02:03.5'", "TIME'00:00:00'", "TIME'100:00:00'"]
            }
            Kind::Moment => {
                &["TIMESTAMP'2024-02-29 10:11:12'", "TIMESTAMP'1999-12-31 23:59:59.999999'"]
            }
            _ => &["TRUE", "FALSE", "NULL"],
        };
        Tree::leaf(kind, self.draw.pick(constants))
    }
}

pub(super) const INTEGERS: &[Template] = &[
    ("(# + #)", &[I, I]),
    ("(# - #)", &[I, I]),
    ("(# * #)", &[I, I]),
    ("(# DIV #)", &[I, I]),
    ("(# DIV #)", &[D, D]),
    ("(# % #)", &[I, I]),
    ("(-#)", &[I]),
    ("ABS(#)", &[I]),
    ("SIGN(#)", &[I]),
    ("SIGN(#)", &[D]),
    ("(# & #)", &[I, I]),
    ("(# | #)", &[I, I]),
    ("(# ^ #)", &[I, I]),
    ("(~#)", &[I]),
    ("(# << 3)", &[I]),
    ("(# >> 2)", &[I]),
    ("BIT_COUNT(#)", &[I]),
    ("LENGTH(#)", &[S]),
    ("CHAR_LENGTH(#)", &[S]),
    ("BIT_LENGTH(#)", &[S]),
    ("ASCII(#)", &[S]),
    ("ORD(#)", &[S]),
    ("LOCATE(#, #)", &[S, S]),
    ("LOCATE(#, #, #)", &[S, S, I]),
    ("INSTR(#, #)", &[S, S]),
    ("FIND_IN_SET(#, #)", &[S, S]),
    ("FIELD(#, #, #)", &[S, S, S]),
    ("FIELD(#, #, #)", &[I, I, I]),
    ("STRCMP(#, #)", &[S, S]),
    ("CRC32(#)", &[S]),
    ("YEAR(#)", &[A]),
    ("MONTH(#)", &[M]),
    ("DAY(#)", &[A]),
    ("DAYOFWEEK(#)", &[A]),
    ("DAYOFYEAR(#)", &[M]),
    ("WEEKDAY(#)", &[A]),
    ("QUARTER(#)", &[A]),
    ("WEEK(#, COALESCE(#, 1))", &[A, I]),
    ("YEARWEEK(#, 3)", &[A]),
    ("WEEKOFYEAR(#)", &[M]),
    ("HOUR(#)", &[T]),
    ("MINUTE(#)", &[M]),
    ("SECOND(#)", &[T]),
    ("MICROSECOND(#)", &[M]),
    ("EXTRACT(DAY_HOUR FROM #)", &[M]),
    ("EXTRACT(YEAR_MONTH FROM #)", &[A]),
    ("EXTRACT(MINUTE_SECOND FROM #)", &[T]),
    ("DATEDIFF(#, #)", &[A, M]),
    ("TO_DAYS(#)", &[A]),
    ("TO_SECONDS(#)", &[M]),
    ("TIMESTAMPDIFF(MONTH, #, #)", &[A, M]),
    ("TIMESTAMPDIFF(SECOND, #, #)", &[M, M]),
    ("TIMESTAMPDIFF(WEEK, #, #)", &[M, A]),
    ("CAST(TRUNCATE(TIME_TO_SEC(#), 0) AS SIGNED)", &[T]),
    ("PERIOD_DIFF(202403, 199912 + # * 0)", &[I]),
    ("CAST(# AS SIGNED)", &[D]),
    ("CAST(# AS SIGNED)", &[F]),
    ("CAST(# AS UNSIGNED)", &[I]),
    ("CAST(# AS SIGNED)", &[S]),
    ("CAST(# AS SIGNED)", &[A]),
    ("CAST(CAST(# AS TIME) AS SIGNED)", &[T]),
    ("FLOOR(#)", &[I]),
    ("CEILING(#)", &[I]),
    ("ROUND(#)", &[I]),
    ("ROUND(#, -1)", &[I]),
    ("TRUNCATE(#, -2)", &[I]),
    ("IF(#, #, #)", &[B, I, I]),
    ("IFNULL(#, #)", &[I, I]),
    ("NULLIF(#, #)", &[I, I]),
    ("COALESCE(#, #, #)", &[I, I, I]),
    ("CASE WHEN # THEN # WHEN # THEN # END", &[B, I, B, I]),
    ("CASE # WHEN # THEN # ELSE # END", &[I, I, I, I]),
    ("CASE # WHEN # THEN # ELSE # END", &[S, S, I, I]),
    ("GREATEST(#, #)", &[I, I]),
    ("LEAST(#, #, #)", &[I, I, I]),
    ("INTERVAL(#, 0, 5, 20)", &[I]),
    ("ISNULL(#)", &[S]),
    ("(#)", &[B]),
    ("(# + #)", &[B, I]),
    ("JSON_LENGTH(JSON_ARRAY(#, #))", &[I, S]),
    ("JSON_DEPTH(JSON_OBJECT('a', #))", &[S]),
    ("INET_ATON(CONCAT('10.0.0.', # & 127))", &[I]),
    ("LENGTH(UNHEX(HEX(#)))", &[S]),
    ("REGEXP_INSTR(#, 'p+')", &[S]),
];

pub(super) const DECIMALS: &[Template] = &[
    ("(# + #)", &[D, D]),
    ("(# - #)", &[D, I]),
    ("(# * #)", &[D, D]),
    ("(# / #)", &[D, D]),
    ("(# / #)", &[I, I]),
    ("(# % #)", &[D, D]),
    ("(# % #)", &[D, I]),
    ("(-#)", &[D]),
    ("ABS(#)", &[D]),
    ("ROUND(#, 1)", &[D]),
    ("ROUND(#, 2)", &[D]),
    ("ROUND(#)", &[D]),
    ("ROUND(#, -1)", &[D]),
    ("TRUNCATE(#, 2)", &[D]),
    ("FLOOR(#)", &[D]),
    ("CEILING(#)", &[D]),
    ("CAST(# AS DECIMAL(10,2))", &[D]),
    ("CAST(# AS DECIMAL(20,4))", &[I]),
    ("CAST(# AS DECIMAL(8,3))", &[S]),
    ("CAST(# AS DECIMAL(20,3))", &[M]),
    ("IF(#, #, #)", &[B, D, I]),
    ("IFNULL(#, #)", &[D, D]),
    ("IFNULL(#, #)", &[I, D]),
    ("NULLIF(#, #)", &[D, D]),
    ("COALESCE(#, #)", &[D, I]),
    ("CASE WHEN # THEN # ELSE # END", &[B, D, D]),
    ("CASE # WHEN # THEN # ELSE # END", &[D, D, I, D]),
    ("GREATEST(#, #)", &[D, D]),
    ("LEAST(#, #)", &[D, I]),
    ("MOD(#, #)", &[D, D]),
    ("(# + 0)", &[M]),
    ("(# * 1)", &[T]),
];

pub(super) const DOUBLES: &[Template] = &[
    ("(# + #)", &[F, F]),
    ("(# - #)", &[F, D]),
    ("(# * #)", &[F, I]),
    ("(# / #)", &[F, F]),
    ("(# % #)", &[F, I]),
    ("(-#)", &[F]),
    ("ABS(#)", &[F]),
    ("ROUND(#, 2)", &[F]),
    ("ROUND(#)", &[F]),
    ("TRUNCATE(#, 1)", &[F]),
    ("FLOOR(#)", &[F]),
    ("CEILING(#)", &[F]),
    ("SQRT(#)", &[D]),
    ("ROUND(EXP(# % 5), 6)", &[D]),
    ("ROUND(LN(#), 8)", &[D]),
    ("ROUND(LOG2(#), 8)", &[I]),
    ("ROUND(LOG10(#), 8)", &[F]),
    ("POW(# % 10, 2)", &[I]),
    ("ROUND(SIN(#), 6)", &[D]),
    ("ROUND(ATAN(#, #), 6)", &[D, F]),
    ("ROUND(DEGREES(#), 4)", &[F]),
    ("CAST(# AS DOUBLE)", &[S]),
    ("CAST(# AS DOUBLE)", &[D]),
    ("(# + 0)", &[S]),
    ("(-#)", &[S]),
    ("(# * #)", &[S, I]),
    ("IF(#, #, #)", &[B, F, I]),
    ("IFNULL(#, #)", &[F, F]),
    ("NULLIF(#, #)", &[F, I]),
    ("COALESCE(#, #)", &[F, D]),
    ("CASE WHEN # THEN # ELSE # END", &[B, F, D]),
    ("GREATEST(#, #)", &[F, D]),
    ("LEAST(#, #)", &[F, F]),
    ("PI()", &[]),
];

pub(super) const TEXTS: &[Template] = &[
    ("CONCAT(#, #)", &[S, S]),
    ("CONCAT(#, #)", &[S, I]),
    ("CONCAT(#, #)", &[D, M]),
    ("CONCAT(#, #)", &[T, F]),
    ("CONCAT_WS(#, #, #)", &[S, S, S]),
    ("CONCAT_WS('-', #, #)", &[A, I]),
    ("UPPER(#)", &[S]),
    ("LOWER(#)", &[S]),
    ("LEFT(#, #)", &[S, I]),
    ("RIGHT(#, 3)", &[S]),
    ("SUBSTRING(#, #)", &[S, I]),
    ("SUBSTRING(#, #, #)", &[S, I, I]),
    ("SUBSTRING(# FROM 2 FOR 3)", &[S]),
    ("SUBSTRING_INDEX(#, #, # % 10)", &[S, S, I]),
    ("REPLACE(#, #, #)", &[S, S, S]),
    ("TRIM(#)", &[S]),
    ("TRIM(LEADING # FROM #)", &[S, S]),
    ("TRIM(BOTH 'a' FROM #)", &[S]),
    ("LTRIM(#)", &[S]),
    ("RTRIM(#)", &[S]),
    ("LPAD(#, 8, CONCAT('+', #))", &[S, S]),
    ("RPAD(#, 6, '*')", &[S]),
    ("REVERSE(#)", &[S]),
    ("REPEAT(#, 2)", &[S]),
    ("SPACE(# & 7)", &[I]),
    ("INSERT(#, 2, 3, #)", &[S, S]),
    ("INSERT(#, #, #, #)", &[S, I, I, S]),
    ("ELT(#, #, #)", &[I, S, S]),
    ("EXPORT_SET(# & 15, #, #, ',', 4)", &[I, S, S]),
    ("MAKE_SET(#, #, #)", &[I, S, S]),
    ("QUOTE(#)", &[S]),
    ("SOUNDEX(#)", &[S]),
    ("HEX(#)", &[S]),
    ("HEX(#)", &[I]),
    ("BIN(#)", &[I]),
    ("OCT(#)", &[I]),
    ("CONV(#, 10, 36)", &[I]),
    ("CONV(#, 16, -10)", &[S]),
    ("FORMAT(#, 2)", &[D]),
    ("FORMAT(#, 1)", &[I]),
    ("FORMAT(#, 3)", &[F]),
    ("MD5(#)", &[S]),
    ("SHA1(#)", &[S]),
    ("SHA2(#, 256)", &[S]),
    ("TO_BASE64(#)", &[S]),
    ("CAST(FROM_BASE64(TO_BASE64(CONVERT(# USING utf8mb4))) AS CHAR)", &[S]),
    ("CAST(# AS CHAR)", &[I]),
    ("CAST(# AS CHAR)", &[D]),
    ("CAST(# AS CHAR)", &[F]),
    ("CAST(# AS CHAR(4))", &[S]),
    ("CAST(# AS CHAR)", &[M]),
    ("CAST(# AS CHAR)", &[T]),
    ("HEX(CAST(# AS BINARY))", &[S]),
    ("CONVERT(# USING utf8mb4)", &[S]),
    ("(# COLLATE utf8mb4_bin)", &[S]),
    ("DATE_FORMAT(#, '%Y-%m-%d %H:%i:%s.%f')", &[M]),
    ("DATE_FORMAT(#, '%W %M %e %y %j %a %b %D %U %u %V %v %X %x %p %r %T %l %k')", &[A]),
    ("TIME_FORMAT(#, '%H %k %h %i %s %f')", &[T]),
    ("DAYNAME(#)", &[A]),
    ("MONTHNAME(#)", &[M]),
    ("IF(#, #, #)", &[B, S, S]),
    ("IF(#, #, #)", &[B, S, I]),
    ("IFNULL(#, #)", &[S, S]),
    ("IFNULL(#, #)", &[S, D]),
    ("NULLIF(#, #)", &[S, S]),
    ("COALESCE(#, #)", &[S, M]),
    ("CASE WHEN # THEN # ELSE # END", &[B, S, S]),
    ("CASE # WHEN # THEN # ELSE # END", &[S, S, S, S]),
    ("CASE # WHEN # THEN # ELSE # END", &[I, I, S, A]),
    ("CONCAT(GREATEST(#, #))", &[S, S]),
    ("CONCAT(LEAST(#, #, #))", &[S, S, S]),
    ("REGEXP_REPLACE(#, '[aeiou]', '-')", &[S]),
    ("IFNULL(REGEXP_SUBSTR(#, '[a-p]+'), '')", &[S]),
    ("CHAR(# % 60 + 65 USING utf8mb4)", &[I]),
    ("CONCAT('a', INET_NTOA(#))", &[I]),
    ("JSON_UNQUOTE(JSON_EXTRACT(JSON_OBJECT('a', #), '$.a'))", &[S]),
    ("JSON_UNQUOTE(JSON_EXTRACT(JSON_ARRAY(#, #), '$[1]'))", &[S, I]),
    ("JSON_TYPE(JSON_EXTRACT(JSON_ARRAY(#, #), '$[1]'))", &[S, I]),
    ("CAST(JSON_QUOTE(#) AS CHAR)", &[S]),
    ("JSON_VALUE(JSON_OBJECT('k', CONVERT(# USING utf8mb4)), '$.k')", &[S]),
];

pub(super) const DATES: &[Template] = &[
    ("DATE(#)", &[M]),
    ("CAST(# AS DATE)", &[M]),
    ("LAST_DAY(#)", &[A]),
    ("LAST_DAY(#)", &[M]),
    ("(# + INTERVAL (# % 10000) DAY)", &[A, I]),
    ("(# - INTERVAL 1 MONTH)", &[A]),
    ("(# + INTERVAL (# % 10000) YEAR)", &[A, I]),
    ("DATE_ADD(#, INTERVAL 1 QUARTER)", &[A]),
    ("DATE_SUB(#, INTERVAL (# % 10000) WEEK)", &[A, I]),
    ("(# + INTERVAL '1-2' YEAR_MONTH)", &[A]),
    ("ADDDATE(#, (#))", &[A, I]),
    ("SUBDATE(#, 31)", &[A]),
    ("MAKEDATE(2000 + #, # + 1)", &[I, I]),
    ("FROM_DAYS(730000 + # % 10000)", &[I]),
    ("IF(#, #, #)", &[B, A, A]),
    ("IFNULL(#, #)", &[A, A]),
    ("NULLIF(#, #)", &[A, A]),
    ("COALESCE(#, #)", &[A, A]),
    ("CASE WHEN # THEN # END", &[B, A]),
    ("GREATEST(#, #)", &[A, A]),
    ("LEAST(#, #)", &[A, A]),
    ("STR_TO_DATE(DATE_FORMAT(#, '%d.%m.%Y'), '%d.%m.%Y')", &[A]),
];

pub(super) const TIMES: &[Template] = &[
    ("TIME(#)", &[M]),
    ("CAST(# AS TIME)", &[M]),
    ("CAST(# AS TIME(2))", &[T]),
    ("SEC_TO_TIME(# % 100000)", &[I]),
    ("MAKETIME(# % 24, 10, 20)", &[I]),
    ("MAKETIME(5, # % 60, 7.5)", &[I]),
    ("TIMEDIFF(#, #)", &[T, T]),
    ("ADDTIME(#, #)", &[T, T]),
    ("SUBTIME(#, #)", &[T, T]),
    ("IF(#, #, #)", &[B, T, T]),
    ("IFNULL(#, #)", &[T, T]),
    ("NULLIF(#, #)", &[T, T]),
    ("COALESCE(#, #)", &[T, T]),
    ("GREATEST(#, #)", &[T, T]),
    ("(# + INTERVAL (# % 10000) MINUTE)", &[T, I]),
    ("(# - INTERVAL '1:30' MINUTE_SECOND)", &[T]),
];

pub(super) const MOMENTS: &[Template] = &[
    ("CAST(# AS DATETIME)", &[M]),
    ("CAST(# AS DATETIME(3))", &[M]),
    ("CAST(# AS DATETIME)", &[A]),
    ("TIMESTAMP(#)", &[A]),
    ("TIMESTAMP(#, #)", &[A, T]),
    ("(# + INTERVAL (# % 10000) SECOND)", &[M, I]),
    ("(# - INTERVAL (# % 10000) HOUR)", &[M, I]),
    ("(# + INTERVAL 1.5 SECOND)", &[M]),
    ("(# + INTERVAL '1 2:3:4' DAY_SECOND)", &[M]),
    ("(# + INTERVAL (# % 10000) MICROSECOND)", &[M, I]),
    ("(# + INTERVAL 5 HOUR)", &[A]),
    ("ADDTIME(#, #)", &[M, T]),
    ("SUBTIME(#, #)", &[M, T]),
    ("TIMESTAMPADD(MONTH, # % 1000, #)", &[I, M]),
    ("FROM_UNIXTIME(# & 2147483647)", &[I]),
    ("FROM_UNIXTIME(ABS(# % 1000000000))", &[D]),
    ("IF(#, #, #)", &[B, M, A]),
    ("IFNULL(#, #)", &[M, M]),
    ("NULLIF(#, #)", &[M, M]),
    ("COALESCE(#, #)", &[A, M]),
    ("CASE WHEN # THEN # ELSE # END", &[B, M, M]),
    ("GREATEST(#, #)", &[M, M]),
    ("LEAST(#, #)", &[M, A]),
];

pub(super) const TRUTHS: &[Template] = &[
    ("(# = #)", &[I, I]),
    ("(# + 0 <> #)", &[I, D]),
    ("(# < #)", &[I, I]),
    ("(# <= #)", &[D, D]),
    ("(# + 0 > #)", &[F, D]),
    ("(# >= # + 0)", &[D, I]),
    ("(# <=> #)", &[I, I]),
    ("(# <=> #)", &[S, S]),
    ("(# = #)", &[S, S]),
    ("(# < #)", &[S, S]),
    ("(# >= #)", &[S, S]),
    ("(# = #)", &[S, I]),
    ("(# < #)", &[I, S]),
    ("(# < #)", &[A, A]),
    ("(# = #)", &[A, M]),
    ("(# >= #)", &[M, M]),
    ("(# < #)", &[T, T]),
    ("(# <> #)", &[T, T]),
    ("(# BETWEEN # AND #)", &[I, I, I]),
    ("(# BETWEEN # + 0 AND #)", &[D, I, D]),
    ("(# NOT BETWEEN # AND #)", &[S, S, S]),
    ("(# BETWEEN # AND #)", &[A, A, M]),
    ("(# IN (#, #, #))", &[I, I, I, I]),
    ("(# NOT IN (# + 0, #))", &[D, I, D]),
    ("(# IN (#, #))", &[S, S, S]),
    ("(# IN (#, #))", &[A, A, A]),
    ("((#, #) = (#, #))", &[I, S, I, S]),
    ("((#, #) IN ((#, #), (#, #)))", &[I, A, I, A, I, A]),
    ("((#, #) < (#, #))", &[I, D, I, D]),
    ("(# LIKE #)", &[S, S]),
    ("(# LIKE 'a%')", &[S]),
    ("(# LIKE '%p_e%')", &[S]),
    ("(# NOT LIKE '%e%')", &[S]),
    ("(# LIKE '%|_%' ESCAPE '|')", &[S]),
    ("(# LIKE '1%')", &[I]),
    ("(# REGEXP '^[a-f]')", &[S]),
    ("(# NOT REGEXP 'e$')", &[S]),
    ("(# SOUNDS LIKE #)", &[S, S]),
    ("(# IS NULL)", &[I]),
    ("(# IS NOT NULL)", &[S]),
    ("(# IS NULL)", &[M]),
    ("(# IS TRUE)", &[B]),
    ("(# IS NOT FALSE)", &[B]),
    ("(# IS UNKNOWN)", &[B]),
    ("(# IS TRUE)", &[D]),
    ("(NOT #)", &[B]),
    ("(NOT #)", &[I]),
    ("(# AND #)", &[B, B]),
    ("(# OR #)", &[B, B]),
    ("(# XOR #)", &[B, B]),
    ("(# AND #)", &[B, I]),
    ("(# OR #)", &[S, B]),
    ("COALESCE(#, #)", &[B, B]),
    ("IF(#, #, #)", &[B, B, B]),
    ("JSON_VALID(#)", &[S]),
    ("IS_IPV4(#)", &[S]),
];
