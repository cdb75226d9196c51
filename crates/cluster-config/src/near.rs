//! Words that were nearly written: what an unknown one may have been meant for.

/// The known word that is nearest to one that is not known, if any is near: a letter in four, and
/// one more, may be wrong. Letter case is of no matter. Of equally near words the first is taken.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    if word.len() > SIZE_MAX {
        return None;
    }
    let known =
        known.into_iter().map(|known| (distance(&word, &known.to_ascii_lowercase()), known));
    let near = known.filter(|(distance, _)| *distance <= limit(&word));
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// How many changes make a word another one.
pub(crate) fn limit(word: &str) -> usize {
    1 + word.len() / 4
}

/// How many characters have to be typed, deleted, exchanged or swapped with their neighbour to get
/// from one word to the other.
pub(crate) fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    let mut previous = None;
    for (row, char) in one.chars().enumerate() {
        let mut next = vec![row + 1];
        for (column, against) in other.iter().enumerate() {
            let exchanged = last[column] + usize::from(char != *against);
            let mut least = exchanged.min(last[column + 1] + 1).min(next[column] + 1);
            if column > 0 && previous == Some(*against) && char == other[column - 1] {
                least = least.min(before_last[column - 1] + 1);
            }
            next.push(least);
        }
        before_last = std::mem::replace(&mut last, next);
        previous = Some(char);
    }
    last[other.len()]
}

/// Longer words than any there is are not compared with all of them.
pub(crate) const SIZE_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found() {
        let words = ["show", "status", "stop", "shutdown"];
        let near = |word| nearest(word, words);
        assert_eq!(near("shwo"), Some("show"));
        assert_eq!(near("STATSU"), Some("status"));
        assert_eq!(near("shutdwon"), Some("shutdown"));
        assert_eq!(near("restart"), None);
        assert_eq!(near(""), None);
        assert_eq!(near(&"s".repeat(1_000)), None);
    }

    #[test]
    fn distances() {
        for (one, other, expected) in
            [("", "", 0), ("a", "", 1), ("abc", "acb", 1), ("kitten", "sitting", 3), ("é", "e", 1)]
        {
            assert_eq!(distance(one, other), expected, "{one} {other}");
            assert_eq!(distance(other, one), expected, "{other} {one}");
        }
    }
}
