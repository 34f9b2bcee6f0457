//! The speeds of all jobs of a trace, from the tables that come with Crius.

use super::decisions::{Kind, Lookup, Question, Shape, Site, Source, doubling_shapes};
use wharf_core::JobSpec;
use wharf_perf::cells::{Cell, Cells};
use wharf_perf::profile::Workload;

use super::error::CriusError;

/// One workload's rows of the tables.
struct Rows<'a> {
    cells: &'a Cells,
    site: &'a Site,
    workload: &'a Workload,
}

impl Source for Rows<'_> {
    fn throughput(&self, question: Question, kind: Kind, shape: Shape) -> f64 {
        let device_type = self.site.kind(kind).name.clone();
        let cell = Cell { device_type, hosts: shape.hosts, per_host: shape.per_host };
        self.cells.query(question.mode, question.checks_memory, self.workload, &cell).throughput
    }
}

/// The answers, and each job's row in them.
pub(super) fn lookup(
    jobs: &[JobSpec],
    cells: &Cells,
    site: &Site,
    devices_max: u32,
) -> Result<(Lookup, Vec<u32>), CriusError> {
    let mut lookup = Lookup::new(site.kinds().count());
    let shapes = doubling_shapes(devices_max);
    let mut known: std::collections::BTreeMap<Workload, u32> = std::collections::BTreeMap::new();
    let mut rows = Vec::with_capacity(jobs.len());
    for job in jobs {
        let (Some(model), Some(_)) = (&job.model, job.batch_size) else {
            return Err(CriusError::NoModel { job: job.name.to_string() });
        };
        let workload = Workload { model: model.clone(), batch_size: job.batch_size };
        let row = match known.get(&workload) {
            Some(&row) => row,
            None => {
                let row = lookup.add(&shapes, &Rows { cells, site, workload: &workload });
                known.insert(workload, row);
                row
            }
        };
        rows.push(row);
    }
    Ok((lookup, rows))
}
