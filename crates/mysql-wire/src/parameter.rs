//! Parameters of prepared statements, in the binary protocol.

use crate::constants::{column, cursor};
use crate::reader::{Malformed, Reader};

/// A parameter's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A 32-bit float.
    Float(f32),
    /// A 64-bit float.
    Double(f64),
    /// Text in the client's character set, a decimal's digits, or bytes.
    Bytes(Vec<u8>),
    /// A date, with or without time.
    DateTime {
        /// Only a date was sent.
        date_only: bool,
        /// The year.
        year: u16,
        /// The month.
        month: u8,
        /// The day.
        day: u8,
        /// The hour.
        hour: u8,
        /// The minute.
        minute: u8,
        /// The second.
        second: u8,
        /// Microseconds.
        micros: u32,
    },
    /// A span of time.
    Time {
        /// Before zero.
        negative: bool,
        /// Days.
        days: u32,
        /// Hours of a day.
        hours: u8,
        /// Minutes.
        minutes: u8,
        /// Seconds.
        seconds: u8,
        /// Microseconds.
        micros: u32,
    },
}

/// A parameter's type as the client last said it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParameterType {
    /// A column type.
    pub kind: u8,
    /// Unsigned.
    pub unsigned: bool,
    /// Its name, of query attributes.
    pub name: Vec<u8>,
}

/// Most parameters of a statement.
const PARAMETERS_MAX: usize = 65_535;

/// Names and values that a client has attached to a statement.
pub type Attributes = Vec<(Vec<u8>, Parameter)>;

/// Parses the parameters of COM_STMT_EXECUTE, and the query attributes behind them. `types` are
/// those of the last execution, renewed when the client sends new ones; `long_data` is what came in
/// pieces before, by parameter.
pub fn parse_execute(
    payload: &[u8],
    count: usize,
    flags: u8,
    types: &mut Vec<ParameterType>,
    long_data: &[Option<Vec<u8>>],
    query_attributes: bool,
) -> Result<(Vec<Parameter>, Attributes), Malformed> {
    // A client with that capability sends number and names also without the flag, if the statement
    // has parameters.
    let counted = flags & cursor::PARAMETER_COUNT_AVAILABLE != 0;
    let mut reader = Reader(payload);
    let named = query_attributes && (count > 0 || counted);
    let mut all = count;
    if named {
        all = usize::try_from(reader.lenenc()?).map_err(|_| Malformed)?;
    }
    if all == 0 {
        return Ok(Default::default());
    }
    let mut parameters = parse_parameters(&mut reader, all, types, named, long_data)?;
    if parameters.len() < count {
        return Err(Malformed);
    }
    let values = parameters.split_off(count);
    let names = types.iter().skip(count).map(|kind| kind.name.clone());
    Ok((parameters, names.zip(values).collect()))
}

/// NULL bits, types if they are new, values.
pub(crate) fn parse_parameters(
    reader: &mut Reader<'_>,
    count: usize,
    types: &mut Vec<ParameterType>,
    named: bool,
    long_data: &[Option<Vec<u8>>],
) -> Result<Vec<Parameter>, Malformed> {
    if count > PARAMETERS_MAX {
        return Err(Malformed);
    }
    let nulls = reader.take(count.div_ceil(8))?;
    if reader.u8()? == 1 {
        types.clear();
        for _ in 0..count {
            let (kind, flags) = (reader.u8()?, reader.u8()?);
            let name = if named { reader.lenenc_bytes()?.to_vec() } else { Vec::new() };
            types.push(ParameterType { kind, unsigned: flags & 0x80 != 0, name });
        }
    }
    if types.len() < count {
        return Err(Malformed);
    }
    let mut parameters = Vec::with_capacity(count);
    for (at, kind) in types.iter().take(count).enumerate() {
        let parameter = match long_data.get(at) {
            Some(Some(data)) => Parameter::Bytes(data.clone()),
            _ if nulls[at / 8] >> (at % 8) & 1 == 1 => Parameter::Null,
            _ => value(reader, kind)?,
        };
        parameters.push(parameter);
    }
    Ok(parameters)
}

fn value(reader: &mut Reader<'_>, kind: &ParameterType) -> Result<Parameter, Malformed> {
    let unsigned = kind.unsigned;
    Ok(match kind.kind {
        column::NULL => Parameter::Null,
        column::TINY => {
            let byte = reader.u8()?;
            if unsigned {
                Parameter::UInt(byte.into())
            } else {
                Parameter::Int((byte as i8).into())
            }
        }
        column::SHORT | column::YEAR => {
            let v = reader.u16()?;
            if unsigned { Parameter::UInt(v.into()) } else { Parameter::Int((v as i16).into()) }
        }
        column::LONG | column::INT24 => {
            let v = reader.u32()?;
            if unsigned { Parameter::UInt(v.into()) } else { Parameter::Int((v as i32).into()) }
        }
        column::LONGLONG => {
            let v = reader.u64()?;
            if unsigned { Parameter::UInt(v) } else { Parameter::Int(v as i64) }
        }
        column::FLOAT => Parameter::Float(f32::from_le_bytes(reader.array()?)),
        column::DOUBLE => Parameter::Double(f64::from_le_bytes(reader.array()?)),
        column::DATE | column::DATETIME | column::TIMESTAMP => date_time(reader, kind.kind)?,
        column::TIME => time(reader)?,
        _ => Parameter::Bytes(reader.lenenc_bytes()?.to_vec()),
    })
}

fn date_time(reader: &mut Reader<'_>, kind: u8) -> Result<Parameter, Malformed> {
    let length = reader.u8()?;
    let mut part = Reader(reader.take(length.into())?);
    let (mut year, mut month, mut day) = (0, 0, 0);
    let (mut hour, mut minute, mut second, mut micros) = (0, 0, 0, 0);
    if length >= 4 {
        (year, month, day) = (part.u16()?, part.u8()?, part.u8()?);
    }
    if length >= 7 {
        (hour, minute, second) = (part.u8()?, part.u8()?, part.u8()?);
    }
    if length >= 11 {
        micros = part.u32()?;
    }
    let date_only = kind == column::DATE;
    Ok(Parameter::DateTime { date_only, year, month, day, hour, minute, second, micros })
}

fn time(reader: &mut Reader<'_>) -> Result<Parameter, Malformed> {
    let length = reader.u8()?;
    let mut part = Reader(reader.take(length.into())?);
    let (mut negative, mut days, mut hours, mut minutes) = (false, 0, 0, 0);
    let (mut seconds, mut micros) = (0, 0);
    if length >= 8 {
        (negative, days, hours) = (part.u8()? != 0, part.u32()?, part.u8()?);
        (minutes, seconds) = (part.u8()?, part.u8()?);
    }
    if length >= 12 {
        micros = part.u32()?;
    }
    Ok(Parameter::Time { negative, days, hours, minutes, seconds, micros })
}
