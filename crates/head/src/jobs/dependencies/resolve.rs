//! From the dependencies that a user writes to the single jobs that must start or end.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use wharf_core::{JobId, State};
use wharf_proto::dependency::Kind as DependencyKind;
use wharf_proto::{Dependency, JobSpec as WireSpec};

use crate::jobs::dependencies::{DependentJobs, Edge};

/// A dependency that no job can meet: recorded by an earlier version, which did not refuse it.
const NO_JOB: u32 = u32::MAX;

/// A dependency that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DependencyError {
    #[error("it depends on job {job}, which does not exist")]
    NoJob { job: u32 },
    #[error("it depends on element {array}_{index}, which does not exist")]
    NoElement { array: u32, index: u32 },
    #[error("it has more than {most} dependencies on single jobs, the head's cap max_request_jobs")]
    TooMany { most: u64 },
}

/// What a job, or each element of an array, waits for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Dependencies {
    /// Edges of every element.
    pub(crate) common: Vec<Edge>,
    /// Edges of single elements, in the elements' order; empty where all wait for the same.
    own: Vec<Vec<Edge>>,
}

impl Dependencies {
    pub(crate) fn is_empty(&self) -> bool {
        self.common.is_empty() && self.own.is_empty()
    }

    /// Edges that have to be stored for so many elements.
    pub(crate) fn edge_count(&self, elements: u64) -> u64 {
        let own: u64 = self.own.iter().map(|edges| edges.len() as u64).sum();
        let copies = if self.own.is_empty() { 1 } else { elements };
        own + copies * self.common.len() as u64
    }

    /// The dependencies of jobs with consecutive ids: one group for all, or one for each where elements differ.
    pub(crate) fn into_groups(self, jobs: Range<u32>, is_any: bool, owner: &str) -> Vec<DependentJobs> {
        let owner: Arc<str> = owner.into();
        if self.own.is_empty() {
            return vec![DependentJobs { jobs, edges: self.common, is_any, owner }];
        }
        let each = jobs.zip(self.own);
        each.map(|(job, own)| {
            let edges = self.common.iter().copied().chain(own).collect();
            DependentJobs { jobs: job..job + 1, edges, is_any, owner: owner.clone() }
        })
        .collect()
    }
}

/// Jobs and arrays that others can depend on: those that exist, and earlier ones of the same request.
pub(crate) struct Targets<'a> {
    state: &'a State,
    arrays: &'a BTreeMap<u32, u32>,
    /// Jobs and arrays of the request so far, by first id, with their indexes.
    new: BTreeMap<u32, Vec<u32>>,
    next: u32,
    /// Elements by index, of arrays whose elements were asked for.
    elements: BTreeMap<u32, BTreeMap<u32, u32>>,
}

impl<'a> Targets<'a> {
    pub(crate) fn new(state: &'a State, arrays: &'a BTreeMap<u32, u32>) -> Self {
        Self { state, arrays, new: BTreeMap::new(), next: state.next_job().0, elements: BTreeMap::new() }
    }

    /// Adds a job of the request, which later ones can depend on.
    pub(crate) fn add(&mut self, spec: &WireSpec) {
        self.new.insert(self.next, spec.array.clone());
        self.next = self.next.saturating_add(spec.array.len().max(1) as u32);
    }

    /// The jobs that a submitted job waits for.
    ///
    /// # Errors
    /// A dependency on a job or an array element that does not exist, or on more than `most` jobs.
    pub(crate) fn resolve(&mut self, spec: &WireSpec, most: u64) -> Result<Dependencies, DependencyError> {
        let mut found = Dependencies::default();
        for dependency in &spec.dependencies {
            if dependency.kind() != DependencyKind::Singleton && self.size(dependency.job_id).is_none() {
                return Err(DependencyError::NoJob { job: dependency.job_id });
            }
            self.add_edges(dependency, spec.array.iter().copied(), &mut found, &mut |index| {
                Err(DependencyError::NoElement { array: dependency.job_id, index })
            })?;
            if found.edge_count(spec.array.len().max(1) as u64) > most {
                return Err(DependencyError::TooMany { most });
            }
        }
        Ok(found)
    }

    /// The jobs that a job of the journal waits for: what does not exist can never be met.
    pub(crate) fn recorded(&mut self, spec: &WireSpec, jobs: Range<u32>) -> Dependencies {
        let mut found = Dependencies::default();
        let indexes: Vec<u32> = jobs.filter_map(|job| self.index_of(job)).collect();
        for dependency in &spec.dependencies {
            let kind = dependency.kind();
            if kind != DependencyKind::Singleton && self.size(dependency.job_id).is_none() {
                found.common.push(Edge { kind, job: NO_JOB });
                continue;
            }
            // It has no error to return.
            let _ = self.add_edges(dependency, indexes.iter().copied(), &mut found, &mut |_| Ok(NO_JOB));
        }
        found
    }

    /// Adds the edges of one dependency. `missing` states what stands for an element that does not exist.
    fn add_edges(
        &mut self,
        dependency: &Dependency,
        elements: impl ExactSizeIterator<Item = u32>,
        found: &mut Dependencies,
        missing: &mut dyn FnMut(u32) -> Result<u32, DependencyError>,
    ) -> Result<(), DependencyError> {
        let (kind, job) = (dependency.kind(), dependency.job_id);
        match (kind, dependency.array_index) {
            (DependencyKind::Singleton, _) => {}
            // Element by element, where both sides are arrays; otherwise it is the same as `AfterOk`.
            (DependencyKind::AfterCorr, _) if elements.len() > 0 && self.is_array(job) => {
                let by_index = self.by_index(job);
                found.own.resize(elements.len(), Vec::new());
                for (own, index) in found.own.iter_mut().zip(elements) {
                    let job = by_index.get(&index).copied().map_or_else(|| missing(index), Ok)?;
                    own.push(Edge { kind, job });
                }
            }
            (_, Some(index)) => {
                let element = self.by_index(job).get(&index).copied();
                let job = element.map_or_else(|| missing(index), Ok)?;
                found.common.push(Edge { kind, job });
            }
            (_, None) => {
                let all = job..job + self.size(job).unwrap_or(0);
                found.common.extend(all.map(|job| Edge { kind, job }));
            }
        }
        Ok(())
    }

    fn is_array(&self, job: u32) -> bool {
        self.arrays.contains_key(&job) || self.new.get(&job).is_some_and(|indexes| !indexes.is_empty())
    }

    /// How many jobs an id stands for: a job, or all elements of the array that begins with it.
    fn size(&self, job: u32) -> Option<u32> {
        if let Some(indexes) = self.new.get(&job) {
            return Some(indexes.len().max(1) as u32);
        }
        self.state.has_job(JobId(job)).then(|| self.arrays.get(&job).copied().unwrap_or(1))
    }

    fn index_of(&self, job: u32) -> Option<u32> {
        self.state.spec(JobId(job)).array.as_ref().map(|element| element.index)
    }

    /// The elements of an array by their indexes.
    fn by_index(&mut self, array: u32) -> &BTreeMap<u32, u32> {
        if !self.elements.contains_key(&array) {
            let elements = match self.new.get(&array) {
                Some(indexes) => indexes.iter().copied().zip(array..).collect(),
                None => {
                    let jobs = array..array + self.size(array).unwrap_or(0);
                    jobs.filter_map(|job| Some((self.index_of(job)?, job))).collect()
                }
            };
            self.elements.insert(array, elements);
        }
        &self.elements[&array]
    }
}
