//! Sums that some transactions have changed of which nobody was told how they ended.
//!
//! # Guarantees
//! A deviation is explained exactly when some of the transactions in doubt add up to it, each of
//! them whole. With very many of them, only what none of them touches is judged.

use std::collections::BTreeMap;

/// What a transaction adds, by the name of the sum.
pub(super) type Addition = Vec<(i64, i64)>;

/// Transactions in doubt up to which all their subsets are tried.
const TRIED_MAX: usize = 22;

/// Whether some of the transactions in doubt, each as a whole, make up the deviations.
pub(super) fn explains(deviations: &BTreeMap<i64, i64>, doubtful: &[&Addition]) -> bool {
    if doubtful.len() > TRIED_MAX {
        let touched = |name: &i64| doubtful.iter().any(|adds| adds.iter().any(|(n, _)| n == name));
        return deviations.iter().all(|(name, sum)| *sum == 0 || touched(name));
    }
    let Some((first, rest)) = doubtful.split_first() else {
        return deviations.values().all(|sum| *sum == 0);
    };
    // What nobody else touches must come out even now.
    let later = |name: &i64| rest.iter().any(|adds| adds.iter().any(|(n, _)| n == name));
    let settled = |sums: &BTreeMap<i64, i64>| {
        first.iter().all(|(name, _)| later(name) || sums.get(name).is_none_or(|sum| *sum == 0))
    };
    let mut with = deviations.clone();
    for (name, amount) in first.iter() {
        *with.entry(*name).or_default() -= amount;
    }
    settled(&with) && explains(&with, rest) || settled(deviations) && explains(deviations, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_transactions_explain_and_halves_do_not() {
        let (a, b): (Addition, Addition) = (vec![(1, -5), (2, 5)], vec![(2, -7), (3, 7)]);
        let deviations = |sums: &[(i64, i64)]| sums.iter().copied().collect::<BTreeMap<_, _>>();
        let doubtful = [&a, &b];
        for explained in [
            &[][..],
            &[(1, -5), (2, 5)],
            &[(2, -7), (3, 7)],
            &[(1, -5), (2, -2), (3, 7)],
            &[(1, 0), (9, 0)],
        ] {
            assert!(explains(&deviations(explained), &doubtful), "{explained:?}");
        }
        for wrong in [&[(1, -5)][..], &[(2, 5)], &[(1, -5), (2, -2)], &[(9, 1)]] {
            assert!(!explains(&deviations(wrong), &doubtful), "{wrong:?}");
        }
    }
}
