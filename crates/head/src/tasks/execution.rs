//! One placement of a job being carried out: a task on each of its nodes.

use wharf_core::{NodeId, NodeShare, Time};
use wharf_proto::{Cause, NodeFault};

/// Where one node's part of a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskPhase {
    /// The worker was, or has to be, ordered to start it.
    Ordered,
    /// It runs.
    Started,
    /// It is over.
    Ended {
        /// Its exit code, as a shell reports it.
        code: i32,
    },
}

/// How a task ended, as its worker reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) code: i32,
    /// The job had no part in it.
    pub(crate) is_blameless: bool,
    /// Its lease was over or it was requested to stop; it has saved and has more to do.
    pub(crate) is_interrupted: bool,
    /// It had not been requested to stop.
    pub(crate) is_by_itself: bool,
    /// Why, where its worker knows more than the code.
    pub(crate) cause: Cause,
    /// The signal that ended it; 0: none did.
    pub(crate) signal: i32,
}

impl End {
    /// The same, where a fault of the node is to blame: the job is not.
    pub(crate) fn blamed(self, fault: NodeFault) -> Self {
        match fault {
            NodeFault::NoNodeFault => self,
            NodeFault::DiskFull => Self { is_blameless: true, cause: Cause::NodeAway, ..self },
        }
    }

    /// The end of a forgotten task.
    pub(crate) fn lost(code: i32, cause: Cause) -> Self {
        Self { code, is_blameless: true, is_interrupted: false, is_by_itself: false, cause, signal: 0 }
    }
}

/// One node's part of a job.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) share: NodeShare,
    pub(crate) phase: TaskPhase,
}

/// A job's tasks under one placement.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) generation: u32,
    pub(crate) tasks: Vec<Task>,
    /// When its tasks were ordered; none where that was before the head was last started.
    pub(crate) ordered_at: Option<Time>,
    /// Iterations of the checkpoint that it continues from, as far as its trainer reported.
    pub(crate) began_at: f64,
    /// It is being stopped because it has failed, with this exit code.
    pub(crate) failing: Option<i32>,
    /// Its tasks were requested to stop.
    pub(crate) is_stopping: bool,
    /// The engine knows that it runs.
    pub(crate) is_launched: bool,
    /// The first task runs the others' commands: they only hold their devices until it ends.
    pub(crate) is_led: bool,
    /// A task ended with more to do.
    is_interrupted: bool,
    /// A task ended because it was requested to stop, or was lost.
    is_cut_short: bool,
    /// The first failure of a task that came to its own end.
    failure: Option<Failure>,
    /// The first failure of a task that was lost, or stopped without an order of this head: an earlier head may have ordered it.
    echo: Option<Failure>,
}

/// A task that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Never 0.
    pub(crate) code: i32,
    pub(crate) cause: Cause,
    pub(crate) node: NodeId,
    pub(crate) signal: i32,
}

impl Execution {
    pub(crate) fn new(generation: u32, placement: &[NodeShare], phase: TaskPhase) -> Self {
        let tasks = placement.iter().map(|&share| Task { share, phase }).collect();
        let is_launched = phase == TaskPhase::Started;
        Self {
            generation,
            tasks,
            ordered_at: None,
            began_at: 0.0,
            failing: None,
            is_stopping: false,
            is_launched,
            is_led: false,
            is_interrupted: false,
            is_cut_short: false,
            failure: None,
            echo: None,
        }
    }

    /// The tasks of a placement that is being given up.
    pub(crate) fn stopping(generation: u32, placement: &[NodeShare]) -> Self {
        Self { is_stopping: true, ..Self::new(generation, placement, TaskPhase::Started) }
    }

    pub(crate) fn task_on(&mut self, node: NodeId) -> Option<&mut Task> {
        self.tasks.iter_mut().find(|task| task.share.node == node)
    }

    /// Notes the end of a task. Returns whether the others have to be stopped because of it.
    pub(crate) fn end_task(&mut self, node: NodeId, end: End) -> bool {
        let is_stopping = self.is_stopping;
        let Some(task) = self.task_on(node).filter(|task| !matches!(task.phase, TaskPhase::Ended { .. }))
        else {
            return false;
        };
        let code = end.code;
        task.phase = TaskPhase::Ended { code };
        // One that is only held has nothing to be kept from, unless it is lost.
        let is_held = self.is_led && self.tasks.first().is_some_and(|first| first.share.node != node);
        self.is_cut_short |= !end.is_by_itself && (!is_held || end.is_blameless);
        if code == 0 {
            return false;
        }
        let cause = if end.cause == Cause::NoCause { Cause::UserError } else { end.cause };
        let failure = Failure { code, cause, node, signal: end.signal };
        if end.is_by_itself {
            self.failure.get_or_insert(failure);
        } else if !is_stopping {
            self.echo.get_or_insert(failure);
        }
        !is_stopping && !self.is_over()
    }

    /// Notes the end of a task that has saved and has more to do, whatever its code.
    pub(crate) fn interrupt_task(&mut self, node: NodeId) {
        let is_open = |task: &&mut Task| !matches!(task.phase, TaskPhase::Ended { .. });
        if let Some(task) = self.task_on(node).filter(is_open) {
            task.phase = TaskPhase::Ended { code: 0 };
            self.is_interrupted = true;
            self.is_cut_short = true;
        }
    }

    /// Whether the job has more to do: a task reported so, and no other failed.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted && self.is_clean()
    }

    /// Whether a task was kept from coming to its own end.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.is_cut_short
    }

    /// Whether all tasks run or have run.
    pub(crate) fn is_up(&self) -> bool {
        self.tasks.iter().all(|task| task.phase != TaskPhase::Ordered)
    }

    /// Whether all tasks have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.tasks.iter().all(|task| matches!(task.phase, TaskPhase::Ended { .. }))
    }

    /// Whether all tasks ended with 0.
    pub(crate) fn is_clean(&self) -> bool {
        self.tasks.iter().all(|task| task.phase == TaskPhase::Ended { code: 0 })
    }

    /// The job's exit code: that of the task that failed first, else 0. A task that was stopped failed after another.
    pub(crate) fn exit_code(&self) -> i32 {
        self.failure().map_or(0, |failure| failure.code)
    }

    /// What went wrong first, where anything did. One that was lost may have made others fail.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let lost = self.echo.filter(|echo| echo.cause.is_infrastructure());
        lost.or(self.failure).or(self.echo)
    }

    /// The first task's node, where that task is not over.
    pub(crate) fn first_open(&self) -> Option<NodeId> {
        let first = self.tasks.first().filter(|task| !matches!(task.phase, TaskPhase::Ended { .. }));
        first.map(|task| task.share.node)
    }

    /// Nodes whose tasks are not over.
    pub(crate) fn open_nodes(&self) -> Vec<NodeId> {
        let is_open = |task: &&Task| !matches!(task.phase, TaskPhase::Ended { .. });
        self.tasks.iter().filter(is_open).map(|task| task.share.node).collect()
    }
}

#[cfg(test)]
mod tests {
    use wharf_core::DeviceSet;

    use super::*;

    fn pair() -> Execution {
        let share = |node| NodeShare::new(NodeId(node), DeviceSet::first(1));
        Execution::new(1, &[share(0), share(1)], TaskPhase::Ordered)
    }

    fn told(code: i32) -> End {
        let cause = Cause::NoCause;
        End { code, is_blameless: false, is_interrupted: false, is_by_itself: true, cause, signal: 0 }
    }

    #[test]
    fn failure_of_one_task_stops_the_others_and_gives_the_code() {
        let mut execution = pair();
        assert!(!execution.is_up());
        assert!(execution.end_task(NodeId(0), told(3)), "the other task is still there");
        assert!(!execution.is_over());
        execution.is_stopping = true;
        assert!(!execution.end_task(NodeId(1), told(143)), "it was requested to stop");
        assert!(execution.is_over());
        assert_eq!(execution.exit_code(), 3);
    }

    #[test]
    fn exit_code_is_that_of_the_first_failure_in_any_order_of_reports() {
        // After a restart a head hears of both ends again: of the task that failed, and of the one stopped for it.
        let stopped = End { is_by_itself: false, ..told(143) };
        for (first, second) in [(told(5), stopped), (stopped, told(5))] {
            let mut execution = pair();
            execution.is_stopping = execution.end_task(NodeId(0), first);
            execution.end_task(NodeId(1), second);
            assert_eq!(execution.exit_code(), 5);
        }
    }

    #[test]
    fn is_interrupted_when_no_other_task_failed() {
        // The codes of the other task, and whether it was requested to stop before.
        for (code, is_stopping, expected) in [(0, false, true), (3, false, false), (143, true, false)] {
            let mut execution = pair();
            execution.is_stopping = is_stopping;
            execution.interrupt_task(NodeId(0));
            assert!(!execution.is_interrupted() && !execution.is_over());
            execution.end_task(NodeId(1), told(code));
            assert_eq!(execution.is_interrupted(), expected, "{code}");
        }
    }

    #[test]
    fn an_end_counts_once() {
        let mut execution = pair();
        execution.end_task(NodeId(0), told(0));
        assert!(!execution.end_task(NodeId(0), told(9)));
        assert_eq!(execution.exit_code(), 0);
        assert_eq!(execution.open_nodes(), [NodeId(1)]);
    }
}
