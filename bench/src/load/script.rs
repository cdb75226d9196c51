//! What clients do, again and again: the statements of sysbench's scripts on sysbench's tables.
//!
//! # Owns
//! The statements, and the packets that run them with drawn parameters.
//! # Guarantees
//! Keys are drawn uniformly from all rows, where sysbench by default draws three of four from a
//! hundredth of them.

use stdx::Prng;

/// What a client does again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// A read of one row by key, as `oltp_point_select`.
    PointSelect,
    /// A change of one row by key, autocommit, as `oltp_update_non_index`.
    Update,
    /// A transaction of 18 statements, as `oltp_read_write`.
    ReadWrite,
}

impl Mix {
    /// The mix of this name.
    pub fn named(name: &str) -> Option<Mix> {
        match name {
            "point_select" => Some(Mix::PointSelect),
            "update" => Some(Mix::Update),
            "read_write" => Some(Mix::ReadWrite),
            _ => None,
        }
    }

    /// The steps of an operation.
    pub(crate) fn steps(self) -> &'static [Step] {
        const READ_WRITE: &[Step] = &[
            Step::Begin,
            Step::Run(POINT_SELECT),
            Step::Run(POINT_SELECT),
            Step::Run(POINT_SELECT),
            Step::Run(POINT_SELECT),
            Step::Run(POINT_SELECT),
            Step::Run(POINT_SELECT),
            Step::Run(POINT_SELECT),
            Step::Run(POINT_SELECT),
            Step::Run(POINT_SELECT),
            Step::Run(POINT_SELECT),
            Step::Run(2),
            Step::Run(3),
            Step::Run(4),
            Step::Run(5),
            Step::Run(6),
            Step::Run(UPDATE),
            Step::Run(7),
            Step::Run(8),
            Step::Commit,
        ];
        match self {
            Mix::PointSelect => &[Step::Run(POINT_SELECT)],
            Mix::Update => &[Step::Run(UPDATE)],
            Mix::ReadWrite => READ_WRITE,
        }
    }

    /// The statements that a connection prepares, by their place in [`STATEMENTS`].
    pub(crate) fn statements(self) -> impl Iterator<Item = usize> {
        (0..STATEMENTS.len()).filter(move |at| self.steps().contains(&Step::Run(*at)))
    }
}

/// One statement of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The beginning of a transaction.
    Begin,
    /// A prepared statement, by its place in [`STATEMENTS`].
    Run(usize),
    /// The end of a transaction.
    Commit,
}

/// A statement of a client; `#` stands for the number of the table.
pub(crate) struct Statement {
    pub(crate) text: &'static str,
    parameters: &'static [Parameter],
    /// Whether it is answered with rows; so many, if that is known.
    pub(crate) has_rows: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parameter {
    /// A key that is there.
    Id,
    /// The key that was drawn last.
    SameId,
    /// The end of a range that begins with the key that was drawn last.
    End,
    /// Digits in groups, as many as the column `c` holds.
    C,
    /// Likewise of the column `pad`.
    Pad,
}

const POINT_SELECT: usize = 0;
const UPDATE: usize = 1;
/// Rows of a range.
const RANGE: u64 = 100;

pub(crate) const STATEMENTS: [Statement; 9] = {
    use Parameter::{C, End, Id, Pad, SameId};
    const fn rows(text: &'static str, parameters: &'static [Parameter]) -> Statement {
        Statement { text, parameters, has_rows: true }
    }
    const fn change(text: &'static str, parameters: &'static [Parameter]) -> Statement {
        Statement { text, parameters, has_rows: false }
    }
    [
        rows("SELECT c FROM sbtest# WHERE id=?", &[Id]),
        change("UPDATE sbtest# SET c=? WHERE id=?", &[C, Id]),
        rows("SELECT c FROM sbtest# WHERE id BETWEEN ? AND ?", &[Id, End]),
        rows("SELECT SUM(k) FROM sbtest# WHERE id BETWEEN ? AND ?", &[Id, End]),
        rows("SELECT c FROM sbtest# WHERE id BETWEEN ? AND ? ORDER BY c", &[Id, End]),
        rows("SELECT DISTINCT c FROM sbtest# WHERE id BETWEEN ? AND ? ORDER BY c", &[Id, End]),
        change("UPDATE sbtest# SET k=k+1 WHERE id=?", &[Id]),
        change("DELETE FROM sbtest# WHERE id=?", &[Id]),
        // Puts back what the statement before it took.
        change("INSERT INTO sbtest# (id, k, c, pad) VALUES (?, ?, ?, ?)", &[SameId, Id, C, Pad]),
    ]
};

/// What draws parameters.
#[derive(Debug)]
pub(crate) struct Draws {
    prng: Prng,
    rows: u64,
}

impl Draws {
    /// Draws keys from 1 to `rows`.
    pub(crate) fn new(seed: u64, rows: u64) -> Self {
        Self { prng: Prng::new(seed), rows }
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.prng.below(bound)
    }

    /// Appends the packet that runs a prepared statement. `number` is the server's of it; types of
    /// parameters are sent the first time only; `last` is the key that the client drew last.
    pub(crate) fn execute(
        &mut self,
        statement: &Statement,
        number: u32,
        with_types: bool,
        last: &mut u64,
        packet: &mut Vec<u8>,
    ) {
        let start = begin_packet(packet);
        packet.push(COM_STMT_EXECUTE);
        packet.extend(number.to_le_bytes());
        // No cursor; always one.
        packet.extend([0, 1, 0, 0, 0]);
        let count = statement.parameters.len();
        // None of them is NULL.
        packet.extend(std::iter::repeat_n(0, count.div_ceil(8)));
        packet.push(u8::from(with_types));
        if with_types {
            for parameter in statement.parameters {
                let kind = match parameter {
                    Parameter::C | Parameter::Pad => VAR_STRING,
                    _ => LONG,
                };
                packet.extend([kind, 0]);
            }
        }
        for parameter in statement.parameters {
            self.draw(*parameter, last, packet);
        }
        end_packet(packet, start);
    }

    fn draw(&mut self, parameter: Parameter, last: &mut u64, packet: &mut Vec<u8>) {
        let number = match parameter {
            Parameter::Id => {
                *last = self.prng.between(1, self.rows);
                *last
            }
            Parameter::SameId => *last,
            Parameter::End => *last + RANGE - 1,
            Parameter::C => return self.digits(10, packet),
            Parameter::Pad => return self.digits(5, packet),
        };
        packet.extend((number as u32).to_le_bytes());
    }

    /// Groups of eleven digits with a minus between two, with their length before them.
    fn digits(&mut self, groups: usize, packet: &mut Vec<u8>) {
        packet.push((groups * 12 - 1) as u8);
        for group in 0..groups {
            if group > 0 {
                packet.push(b'-');
            }
            let mut rest = self.prng.below(100_000_000_000);
            let mut digits = [b'0'; 11];
            for digit in digits.iter_mut().rev() {
                *digit += (rest % 10) as u8;
                rest /= 10;
            }
            packet.extend(digits);
        }
    }
}

/// Appends the packet of a statement as text.
pub(crate) fn query(text: &str, packet: &mut Vec<u8>) {
    let start = begin_packet(packet);
    packet.push(COM_QUERY);
    packet.extend(text.as_bytes());
    end_packet(packet, start);
}

/// Makes room for the head of the first packet of a command.
fn begin_packet(packet: &mut Vec<u8>) -> usize {
    packet.extend([0; 4]);
    packet.len()
}

fn end_packet(packet: &mut [u8], start: usize) {
    let length = (packet.len() - start) as u32;
    packet[start - 4..start - 1].copy_from_slice(&length.to_le_bytes()[..3]);
}

const COM_QUERY: u8 = 3;
const COM_STMT_EXECUTE: u8 = 23;
const LONG: u8 = 3;
const VAR_STRING: u8 = 253;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_select_is_a_packet_of_numbers() {
        let mut draws = Draws::new(1, 1);
        let mut packet = Vec::new();
        draws.execute(&STATEMENTS[POINT_SELECT], 7, true, &mut 1, &mut packet);
        // Command, statement, cursor, one, no NULLs, types follow, LONG, the key.
        let payload = [23, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 0, 1, 0, 0, 0];
        assert_eq!(packet, [&[18, 0, 0, 0][..], &payload].concat());
        packet.clear();
        draws.execute(&STATEMENTS[POINT_SELECT], 7, false, &mut 1, &mut packet);
        assert_eq!(packet[15..], [0, 1, 0, 0, 0], "no types a second time");
    }

    #[test]
    fn texts_are_as_long_as_their_columns_and_random() {
        let mut draws = Draws::new(1, 1_000);
        let mut packet = Vec::new();
        draws.execute(&STATEMENTS[8], 1, false, &mut 1, &mut packet);
        // After head, command, number, cursor, one, NULLs and types: id and k, then two texts.
        let texts = &packet[4 + 12 + 8..];
        assert_eq!((texts[0], texts[120]), (119, 59));
        assert_eq!(texts.len(), 1 + 119 + 1 + 59);
        let groups: Vec<&[u8]> = texts[1..120].split(|byte| *byte == b'-').collect();
        assert_eq!(groups.len(), 10);
        assert!(groups.iter().all(|group| group.len() == 11));
        assert!(groups.iter().all(|group| group.iter().all(u8::is_ascii_digit)));
        assert_ne!(groups[0], groups[1]);
        assert_eq!(packet.len(), 4 + packet[0] as usize, "the head has the length");
    }

    #[test]
    fn an_insert_puts_back_what_the_delete_before_it_took() {
        let mut draws = Draws::new(3, 1_000_000);
        let (mut delete, mut insert) = (Vec::new(), Vec::new());
        let (mut last, mut of_another) = (0, 0);
        draws.execute(&STATEMENTS[7], 1, false, &mut last, &mut delete);
        draws.execute(&STATEMENTS[0], 3, false, &mut of_another, &mut Vec::new());
        draws.execute(&STATEMENTS[8], 2, false, &mut last, &mut insert);
        assert_eq!(delete[16..20], insert[16..20]);
        assert_ne!(insert[16..20], insert[20..24], "k is drawn");
        assert!(STATEMENTS[7].text.starts_with("DELETE"));
        assert!(STATEMENTS[8].text.starts_with("INSERT"));
    }

    #[test]
    fn a_mix_prepares_what_its_steps_run() {
        assert_eq!(Mix::PointSelect.statements().collect::<Vec<_>>(), [POINT_SELECT]);
        assert_eq!(Mix::Update.statements().collect::<Vec<_>>(), [UPDATE]);
        assert_eq!(Mix::ReadWrite.statements().count(), STATEMENTS.len());
        let steps = Mix::ReadWrite.steps();
        assert_eq!(steps.len(), 20, "as sysbench's: 18 statements, BEGIN and COMMIT");
        assert_eq!(steps.iter().filter(|step| **step == Step::Run(POINT_SELECT)).count(), 10);
        for statement in STATEMENTS {
            assert_eq!(statement.text.matches('?').count(), statement.parameters.len());
            assert_eq!(statement.has_rows, statement.text.starts_with("SELECT"));
        }
    }
}
