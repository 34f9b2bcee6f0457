//! Maximum-weight matching in general graphs.
//!
//! [`Matcher`] is the O(n³) primal-dual Blossom algorithm with the tie-breaks of Muri's published simulator: where several
//! matchings are optimal (training jobs have few distinct profiles, so nearly always), it picks the same one.
//! [`maximum_weight`] is the plain question for callers that do not care about ties.

mod blossom;

pub use blossom::{Matcher, UNMATCHED};

/// The pairs of a maximum-weight matching, each as `(smaller, larger)`, by their larger vertex.
///
/// `weights` is row-major, `n` × `n`; entries that are not positive are no edges.
///
/// # Panics
/// Panics if `weights` has not `n * n` entries.
pub fn maximum_weight(n: usize, weights: &[f64]) -> Vec<(usize, usize)> {
    let mut matcher = Matcher::new();
    let mates = matcher.solve(n, weights);
    mutual_pairs(mates).collect()
}

/// The pairs in which both vertices name each other, each as `(smaller, larger)`, by their larger vertex.
///
/// [`Matcher::solve`] can leave a vertex that names a partner which names another: such a vertex is in no pair.
pub fn mutual_pairs(mates: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    mates
        .iter()
        .enumerate()
        .filter(|&(vertex, &mate)| mate < vertex && mates[mate] == vertex)
        .map(|(vertex, &mate)| (mate, vertex))
}
