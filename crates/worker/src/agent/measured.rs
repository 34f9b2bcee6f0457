//! Progress and metrics of a task, as the agent passes them on to the head.

use wharf_curve::{Curves, Number, Points, Refused, Segment};
use wharf_proto::{MetricPoints, RefusedMetrics, TaskProgress, from_worker};

use super::Agent;
use crate::Notice;
use crate::supervisor::protocol::Progress;
use crate::task::TaskKey;

/// Points in one message: a batch of messages stays far below what gRPC takes.
const POINTS_PER_MESSAGE: usize = 256;

/// What the supervisor has reported of a task.
#[derive(Default)]
pub(super) struct Measured {
    progress: Option<Progress>,
    curves: Curves,
}

impl Measured {
    /// Takes a report and returns messages with what is new.
    fn take(
        &mut self,
        task: TaskKey,
        progress: Progress,
        points: &Points,
        refused: &Refused,
    ) -> Vec<TaskProgress> {
        self.progress = Some(progress);
        self.curves.extend(points);
        self.curves.note_refused(refused);
        let fresh = self.curves.take_fresh();
        self.messages(task, fresh)
    }

    /// The latest progress, without points.
    pub(super) fn latest(&self, task: TaskKey) -> Option<TaskProgress> {
        let progress = self.progress.as_ref()?;
        Some(TaskProgress {
            task: Some(task.into()),
            iterations: progress.iterations,
            checkpointed: progress.checkpointed,
            metrics: progress.metrics.iter().map(|(name, &Number(value))| (name.clone(), value)).collect(),
            total: progress.total,
            ..TaskProgress::default()
        })
    }

    /// Everything, for a head that may know nothing of it.
    pub(super) fn all(&self, task: TaskKey) -> Vec<TaskProgress> {
        self.messages(task, self.curves.points())
    }

    fn messages(&self, task: TaskKey, points: Points) -> Vec<TaskProgress> {
        let Some(latest) = self.latest(task) else { return Vec::new() };
        let Refused { points: count, example } = self.curves.refused().clone();
        let refused = (count > 0).then_some(RefusedMetrics { points: count, example });
        let mut messages = vec![TaskProgress { refused, ..latest }];
        let mut room = POINTS_PER_MESSAGE;
        for (name, Segment { stride, points }) in points {
            for part in points.chunks(POINTS_PER_MESSAGE) {
                if part.len() > room {
                    let task = Some(task.into());
                    let last = messages.last().cloned().unwrap_or_default();
                    messages.push(TaskProgress {
                        task,
                        points: Vec::new(),
                        metrics: [].into(),
                        refused: None,
                        ..last
                    });
                    room = POINTS_PER_MESSAGE;
                }
                room -= part.len();
                let points = MetricPoints {
                    name: name.clone(),
                    stride,
                    step: part.iter().map(|point| point.step).collect(),
                    time_s: part.iter().map(|point| point.time_s).collect(),
                    value: part.iter().map(|point| point.value).collect(),
                    run: Vec::new(),
                };
                if let Some(message) = messages.last_mut() {
                    message.points.push(points);
                }
            }
        }
        messages
    }
}

impl<N: FnMut(Notice)> Agent<N> {
    /// Takes what the supervisor reports of a task's progress, and passes on what is new.
    pub(super) fn on_progress(
        &mut self,
        task: TaskKey,
        progress: Progress,
        points: &Points,
        refused: &Refused,
    ) {
        let Some(known) = self.tasks.get_mut(&task) else { return };
        for message in known.measured.take(task, progress, points, refused) {
            self.tell(from_worker::Message::Progress(message));
        }
    }
}

#[cfg(test)]
mod tests {
    use wharf_curve::Point;

    use super::*;

    #[test]
    fn messages_have_all_points_and_none_has_too_many() {
        let task = TaskKey { job: 3, generation: 2 };
        let point = |step| Point { step, time_s: 1.0, value: f64::NAN };
        let segment = Segment { stride: 1, points: (0..300).map(point).collect() };
        let points: Points = (0..5).map(|index| (format!("m{index}"), segment.clone())).collect();
        let mut measured = Measured::default();
        let refused = Refused { points: 4, example: "x".into() };
        let fresh = measured.take(task, Progress::default(), &points, &refused);
        for messages in [fresh, measured.all(task)] {
            let counts =
                |message: &TaskProgress| message.points.iter().map(|one| one.step.len()).sum::<usize>();
            assert!(messages.iter().all(|message| counts(message) <= POINTS_PER_MESSAGE));
            assert_eq!(messages.iter().map(counts).sum::<usize>(), 1500);
            assert_eq!(messages[0].refused.as_ref().map(|refused| refused.points), Some(4));
        }
        assert!(measured.take(task, Progress::default(), &points, &refused)[0].points.is_empty());
    }
}
