//! The tables of one application: step times by placement, and gradients by batch size and epoch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::error::SiaError;
use super::goodput::{Gradients, StepTime};
use super::numbers::ApplicationNumbers;
use super::table::Table;

/// An application with all its tables.
#[derive(Clone, Debug)]
pub(super) struct Application {
    pub(super) name: String,
    pub(super) numbers: ApplicationNumbers,
    /// By batch size.
    validation: BTreeMap<u32, Vec<Epoch>>,
    /// By device type.
    speeds: BTreeMap<String, Speeds>,
}

/// What was measured in one epoch.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    progress: f64,
    gradients: Gradients,
}

/// A local batch size and its step time.
type Level = (u32, StepTime);

/// A size (nodes and replicas) and its step time.
type Corner = ([f64; 2], StepTime);

/// Step times on one device type.
#[derive(Clone, Debug)]
pub(super) struct Speeds {
    /// By the digits of a placement, each by local batch size.
    placements: BTreeMap<String, Vec<Level>>,
    /// By nodes and replicas: means over placements, and what was measured beyond them.
    sizes: BTreeMap<(u32, u32), Vec<Level>>,
    /// Nodes, replicas and local batch size of what was measured beyond placements.
    beyond: Vec<(u32, u32, u32)>,
    /// The largest local batch size that was measured with so many replicas.
    most_local: BTreeMap<u32, u32>,
    /// The least and the most local batch size.
    pub(super) local: (u32, u32),
}

impl Application {
    /// Reads an application's folder: what is there for the given device types.
    pub(super) fn read<'a>(
        folder: &Path,
        name: &str,
        numbers: &ApplicationNumbers,
        types: impl Iterator<Item = &'a str>,
    ) -> Result<Self, SiaError> {
        let mut validation = BTreeMap::new();
        for (path, batch) in validation_files(folder)? {
            validation.insert(batch, read_epochs(&path)?);
        }
        let mut speeds = BTreeMap::new();
        for device_type in types {
            let placements = folder.join(format!("placements-{device_type}.csv"));
            if placements.is_file() {
                let beyond = folder.join(format!("scalability-{device_type}.csv"));
                speeds.insert(device_type.to_owned(), Speeds::read(&placements, &beyond)?);
            }
        }
        Ok(Self { name: name.to_owned(), numbers: numbers.clone(), validation, speeds })
    }

    /// The batch size that training begins with, and the largest.
    pub(super) fn batch_sizes(&self) -> Option<(u32, u32)> {
        let first = self.validation.first_key_value()?;
        self.validation.last_key_value().map(|last| (*first.0, *last.0))
    }

    pub(super) fn speeds(&self, device_type: &str) -> Option<&Speeds> {
        self.speeds.get(device_type)
    }

    /// Progress at the end of so many epochs: the least over all batch sizes.
    pub(super) fn progress_after(&self, epochs: usize) -> Option<f64> {
        if epochs == 0 {
            return Some(0.0);
        }
        self.validation
            .values()
            .map(|rows| rows.get(epochs - 1).map(|row| row.progress))
            .try_fold(f64::INFINITY, |least, progress| progress.map(|progress| least.min(progress)))
    }

    /// Gradients at a batch size in an epoch, between the neighbours that were measured.
    pub(super) fn gradients(&self, batch: u32, epoch: usize) -> Option<Gradients> {
        let (&low, below) = self.validation.range(..=batch).next_back()?;
        let (&high, above) = self.validation.range(batch..).next()?;
        let (below, above) = (below.get(epoch)?.gradients, above.get(epoch)?.gradients);
        if low == high {
            return Some(below);
        }
        let [batch, low, high] = [batch, low, high].map(f64::from);
        let between =
            |below: f64, above: f64| ((batch - low) * above + (high - batch) * below) / (high - low);
        Some(Gradients {
            square: between(below.square, above.square),
            variance: between(below.variance, above.variance),
        })
    }
}

impl Speeds {
    fn read(placements: &Path, beyond: &Path) -> Result<Self, SiaError> {
        let mut speeds = Self {
            placements: BTreeMap::new(),
            sizes: BTreeMap::new(),
            beyond: Vec::new(),
            most_local: BTreeMap::new(),
            local: (u32::MAX, 0),
        };
        let mut groups: BTreeMap<(u32, u32, u32), Vec<StepTime>> = BTreeMap::new();
        let table = Table::read(placements, &["placement", "local_bsz", "step_time", "sync_time"])?;
        for row in table.rows() {
            let digits = row.text(0).to_owned();
            let (local, time) = (row.count(1)?, StepTime { step_s: row.number(2)?, sync_s: row.number(3)? });
            let nodes = digits.len() as u32;
            let replicas = digits.chars().filter_map(|digit| digit.to_digit(10)).sum();
            groups.entry((nodes, replicas, local)).or_default().push(time);
            speeds.placements.entry(digits).or_default().push((local, time));
            speeds.local = (speeds.local.0.min(local), speeds.local.1.max(local));
            let most = speeds.most_local.entry(replicas).or_default();
            *most = local.max(*most);
        }
        for ((nodes, replicas, local), times) in groups {
            speeds.sizes.entry((nodes, replicas)).or_default().push((local, mean(&times)));
        }
        let columns = ["num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"];
        for row in Table::read(beyond, &columns)?.rows() {
            let (nodes, replicas, local) = (row.count(0)?, row.count(1)?, row.count(2)?);
            let time = StepTime { step_s: row.number(3)?, sync_s: row.number(4)? };
            let levels = speeds.sizes.entry((nodes, replicas)).or_default();
            // Where a point was measured both ways, the mean over its placements is taken.
            if levels.iter().all(|level| level.0 != local) {
                levels.push((local, time));
            }
            speeds.beyond.push((nodes, replicas, local));
        }
        speeds.placements.values_mut().chain(speeds.sizes.values_mut()).for_each(|levels| {
            levels.sort_by_key(|level| level.0);
        });
        Ok(speeds)
    }

    /// The step time of a placement at a local batch size, where the tables tell one.
    pub(super) fn step_time(&self, placement: &[u32], local: u32) -> Option<StepTime> {
        if let Some(levels) = self.placements.get(&digits(placement)) {
            return between(levels, local);
        }
        let nodes = (placement.len() as u32).min(16);
        let replicas = placement.iter().sum();
        match self.sizes.get(&(nodes, replicas)) {
            Some(levels) => between(levels, local),
            None => self.between_sizes(nodes, replicas, local),
        }
    }

    /// The largest local batch size that was measured on a placement; on one that was not, by its size.
    pub(super) fn most_local(&self, placement: &[u32]) -> Option<u32> {
        if let Some(levels) = self.placements.get(&digits(placement)) {
            return levels.last().map(|level| level.0);
        }
        let (nodes, replicas) = (placement.len() as u32, placement.iter().sum());
        let as_large = self.beyond.iter().filter(|row| row.0 >= nodes && row.1 >= replicas);
        as_large.map(|row| row.2).max()
    }

    /// The largest local batch size that was measured with so many replicas, however they were placed.
    pub(super) fn most_local_of(&self, replicas: u32) -> Option<u32> {
        self.most_local.get(&replicas).copied()
    }

    /// Between sizes that were measured: linear in the batch size at each corner of the triangle around the size, then
    /// linear within that triangle. Triangles are Delaunay's: of all that hold the size, the one with the least
    /// interpolated square.
    fn between_sizes(&self, nodes: u32, replicas: u32, local: u32) -> Option<StepTime> {
        let corners: Vec<Corner> = self
            .sizes
            .iter()
            .filter_map(|(&(nodes, replicas), levels)| {
                between(levels, local).map(|time| ([f64::from(nodes), f64::from(replicas)], time))
            })
            .collect();
        let point = [f64::from(nodes), f64::from(replicas)];
        let mut best: Option<(f64, StepTime)> = None;
        for (first, a) in corners.iter().enumerate() {
            for (second, b) in corners.iter().enumerate().skip(first + 1) {
                for c in &corners[second + 1..] {
                    let Some(parts) = barycentric([a.0, b.0, c.0], point) else { continue };
                    let sum = |of: fn(&Corner) -> f64| -> f64 {
                        parts.iter().zip([a, b, c]).map(|(part, corner)| part * of(corner)).sum()
                    };
                    let height = sum(|corner| corner.0[0].powi(2) + corner.0[1].powi(2));
                    if best.is_none_or(|(least, _)| height < least) {
                        let step_s = sum(|corner| corner.1.step_s);
                        let sync_s = sum(|corner| corner.1.sync_s);
                        best = Some((height, StepTime { step_s, sync_s }));
                    }
                }
            }
        }
        best.map(|(_, time)| time)
    }
}

/// How much each corner of a triangle counts at a point inside it; `None` outside, or where there is no triangle.
fn barycentric(corners: [[f64; 2]; 3], point: [f64; 2]) -> Option<[f64; 3]> {
    let [a, b, c] = corners;
    let area = (b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1]);
    if area == 0.0 {
        return None;
    }
    let second = ((point[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (point[1] - a[1])) / area;
    let third = ((b[0] - a[0]) * (point[1] - a[1]) - (point[0] - a[0]) * (b[1] - a[1])) / area;
    let parts = [1.0 - second - third, second, third];
    parts.iter().all(|&part| part >= -1e-12).then_some(parts)
}

/// Linear between the neighbouring batch sizes; `None` outside of them.
fn between(levels: &[Level], local: u32) -> Option<StepTime> {
    let (first, last) = (levels.first()?.0, levels.last()?.0);
    if levels.len() < 2 || local < first || local > last {
        return None;
    }
    let above = levels.partition_point(|level| level.0 < local).clamp(1, levels.len() - 1);
    let ((low, below), (high, above)) = (levels[above - 1], levels[above]);
    let [at, low, high] = [local, low, high].map(f64::from);
    let line = |below: f64, above: f64| (above - below) / (high - low) * (at - low) + below;
    Some(StepTime { step_s: line(below.step_s, above.step_s), sync_s: line(below.sync_s, above.sync_s) })
}

/// A placement's name in the tables: of all rotations the smallest.
fn digits(placement: &[u32]) -> String {
    let rotations = (0..placement.len()).map(|by| [&placement[by..], &placement[..by]].concat());
    rotations.min().unwrap_or_default().iter().map(u32::to_string).collect()
}

fn mean(times: &[StepTime]) -> StepTime {
    let count = times.len() as f64;
    StepTime {
        step_s: times.iter().map(|time| time.step_s).sum::<f64>() / count,
        sync_s: times.iter().map(|time| time.sync_s).sum::<f64>() / count,
    }
}

fn read_epochs(path: &Path) -> Result<Vec<Epoch>, SiaError> {
    let table = Table::read(path, &["progress", "grad_sqr", "grad_var"])?;
    table
        .rows()
        .map(|row| {
            let gradients = Gradients { square: row.number(1)?, variance: row.number(2)? };
            Ok(Epoch { progress: row.number(0)?, gradients })
        })
        .collect()
}

/// The files `validation-BATCH.csv` of a folder.
fn validation_files(folder: &Path) -> Result<Vec<(PathBuf, u32)>, SiaError> {
    let read = |source| SiaError::Read { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let batch =
            name.and_then(|name| name.strip_prefix("validation-")?.strip_suffix(".csv")?.parse().ok());
        if let Some(batch) = batch {
            files.push((path, batch));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_known_by_their_smallest_rotation() {
        for (placement, expected) in [(&[4, 2][..], "24"), (&[8], "8"), (&[4, 4, 1], "144"), (&[], "")] {
            assert_eq!(digits(placement), expected);
        }
    }

    #[test]
    fn between_levels_and_not_beyond_them() {
        let time = |step_s| StepTime { step_s, sync_s: 0.0 };
        let levels = [(32, time(1.0)), (64, time(2.0)), (128, time(3.0))];
        for (local, expected) in
            [(31, None), (32, Some(1.0)), (48, Some(1.5)), (64, Some(2.0)), (96, Some(2.5)), (129, None)]
        {
            assert_eq!(between(&levels, local).map(|time| time.step_s), expected, "{local}");
        }
    }

    #[test]
    fn the_middle_of_a_triangle() {
        let corners = [[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]];
        assert_eq!(barycentric(corners, [0.5, 0.5]), Some([0.5, 0.25, 0.25]));
        assert_eq!(barycentric(corners, [2.0, 2.0]), None);
    }
}
