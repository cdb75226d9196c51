//! OVER and WINDOW.

use super::{Parser, Result};
use crate::ast::{
    FrameBound, FrameExclusion, FrameOffset, FrameUnit, NamedWindow, Over, WindowFrame, WindowSpec,
};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// At OVER.
    pub(super) fn over(&mut self) -> Result<Over> {
        self.expect_word(K::Over)?;
        if self.at(Kind::Open) {
            self.window_spec().map(Over::Spec)
        } else {
            self.ident().map(Over::Name)
        }
    }

    /// An element of WINDOW.
    pub(super) fn named_window(&mut self) -> Result<NamedWindow> {
        let name = self.ident()?;
        self.expect_word(K::As)?;
        Ok(NamedWindow { name, spec: self.window_spec()? })
    }

    fn window_spec(&mut self) -> Result<WindowSpec> {
        self.expect(Kind::Open)?;
        // ROWS and GROUPS are reserved; PARTITION and ORDER too: any identifier is the base.
        let base = if self.at_ident() { Some(self.ident()?) } else { None };
        let partition_by = if self.eat_words(&[K::Partition, K::By]) {
            self.list(Self::expr)?
        } else {
            Vec::new()
        };
        let order_by = self.order_by()?;
        let unit = match self.eat_any(&[K::Rows, K::Range, K::Groups]) {
            Some(K::Rows) => Some(FrameUnit::Rows),
            Some(K::Range) => Some(FrameUnit::Range),
            Some(_) => Some(FrameUnit::Groups),
            None => None,
        };
        let frame = match unit {
            Some(unit) => Some(self.window_frame(unit)?),
            None => None,
        };
        self.expect(Kind::Close)?;
        Ok(WindowSpec { base, partition_by, order_by, frame })
    }

    fn window_frame(&mut self, unit: FrameUnit) -> Result<WindowFrame> {
        let (start, end) = if self.eat_word(K::Between) {
            let start = self.frame_bound()?;
            self.expect_word(K::And)?;
            (start, Some(self.frame_bound()?))
        } else {
            (self.frame_bound()?, None)
        };
        let exclude = if self.eat_word(K::Exclude) { Some(self.frame_exclusion()?) } else { None };
        Ok(WindowFrame { unit, start, end, exclude })
    }

    fn frame_bound(&mut self) -> Result<FrameBound> {
        if self.eat_words(&[K::Current, K::Row]) {
            return Ok(FrameBound::CurrentRow);
        }
        if self.eat_word(K::Unbounded) {
            return match self.eat_any(&[K::Preceding, K::Following]) {
                Some(K::Preceding) => Ok(FrameBound::UnboundedPreceding),
                Some(_) => Ok(FrameBound::UnboundedFollowing),
                None => Err(self.error()),
            };
        }
        let offset = match self.token.kind {
            Kind::Integer | Kind::Decimal | Kind::Float | Kind::Parameter => {
                FrameOffset::Value(self.primary()?)
            }
            Kind::Word if self.at_word(K::Interval) => {
                let (amount, unit) = self.plain_interval()?;
                FrameOffset::Interval(*amount, unit)
            }
            _ => return Err(self.error()),
        };
        match self.eat_any(&[K::Preceding, K::Following]) {
            Some(K::Preceding) => Ok(FrameBound::Preceding(offset)),
            Some(_) => Ok(FrameBound::Following(offset)),
            None => Err(self.error()),
        }
    }

    fn frame_exclusion(&mut self) -> Result<FrameExclusion> {
        if self.eat_words(&[K::Current, K::Row]) {
            Ok(FrameExclusion::CurrentRow)
        } else if self.eat_words(&[K::No, K::Others]) {
            Ok(FrameExclusion::NoOthers)
        } else if self.eat_word(K::Group) {
            Ok(FrameExclusion::Group)
        } else if self.eat_word(K::Ties) {
            Ok(FrameExclusion::Ties)
        } else {
            Err(self.error())
        }
    }
}
