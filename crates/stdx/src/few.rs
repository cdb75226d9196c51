//! A list that most often has one element: that one needs no allocation.

use std::ops::{Deref, DerefMut};
use std::{slice, vec};

/// A growable list; up to one element lies in place.
#[derive(Clone, Debug)]
pub struct Few<T>(Content<T>);

#[derive(Clone, Debug)]
enum Content<T> {
    /// None or one.
    Here(Option<T>),
    /// Any number.
    Away(Vec<T>),
}

impl<T> Few<T> {
    /// An empty list.
    pub const fn new() -> Self {
        Self(Content::Here(None))
    }

    /// A list of one element.
    pub const fn one(element: T) -> Self {
        Self(Content::Here(Some(element)))
    }

    /// Adds an element at the end.
    pub fn push(&mut self, element: T) {
        match &mut self.0 {
            Content::Here(here @ None) => *here = Some(element),
            Content::Here(here) => {
                let mut all = Vec::with_capacity(4);
                all.extend(here.take());
                all.push(element);
                self.0 = Content::Away(all);
            }
            Content::Away(all) => all.push(element),
        }
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Content::Here(here) => here.as_slice(),
            Content::Away(all) => all,
        }
    }
}

impl<T> DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Content::Here(here) => here.as_mut_slice(),
            Content::Away(all) => all,
        }
    }
}

impl<T: PartialEq> PartialEq for Few<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for Few<T> {}

impl<T> From<Vec<T>> for Few<T> {
    fn from(all: Vec<T>) -> Self {
        Self(Content::Away(all))
    }
}

impl<T> Extend<T> for Few<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        elements.into_iter().for_each(|element| self.push(element));
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut few = Self::new();
        few.extend(elements);
        few
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        IntoIter(match self.0 {
            Content::Here(here) => Rest::Here(here),
            Content::Away(all) => Rest::Away(all.into_iter()),
        })
    }
}

/// The elements of a list that is taken apart.
#[derive(Debug)]
pub struct IntoIter<T>(Rest<T>);

#[derive(Debug)]
enum Rest<T> {
    Here(Option<T>),
    Away(vec::IntoIter<T>),
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match &mut self.0 {
            Rest::Here(here) => here.take(),
            Rest::Away(all) => all.next(),
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Rest::Here(here) => here.iter().len(),
            Rest::Away(all) => all.len(),
        };
        (left, Some(left))
    }
}

impl<T> ExactSizeIterator for IntoIter<T> {}

impl<'a, T> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_elements() {
        for count in 0..6 {
            let few: Few<String> = (0..count).map(|n| n.to_string()).collect();
            let all: Vec<String> = (0..count).map(|n| n.to_string()).collect();
            assert_eq!(*few, *all);
            assert_eq!(few.iter().count(), count);
            assert_eq!((&few).into_iter().count(), count);
            assert_eq!(few, Few::from(all.clone()), "wherever they lie");
            assert_eq!(few.clone().into_iter().len(), count);
            assert_eq!(few.into_iter().collect::<Vec<_>>(), all);
        }
    }

    #[test]
    fn one_lies_in_place() {
        let mut few = Few::one(1);
        assert!(matches!(few.0, Content::Here(_)));
        few[0] = 2;
        few.push(3);
        assert_eq!(*few, [2, 3]);
        assert!(Few::<i32>::default().is_empty());
    }
}
