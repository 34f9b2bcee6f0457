//! Whether a task ended for lack of memory: only the counts of its own cgroup state this. A kill by another process looks the same from outside,
//! whatever the kernel did to other tasks meanwhile.

use crate::task::{Cause, Exit};

/// The end of a task, with lack of memory as its cause where its cgroup counts processes that were killed at its limit.
pub(super) fn judged(exit: Exit, is_counted: bool) -> Exit {
    if !is_counted || exit.code == 0 || exit.interrupted || exit.cause.is_some() {
        return exit;
    }
    let error = "out of memory: the kernel killed processes of the task at its limit".to_owned();
    Exit { cause: Some(Cause::Memory), error, ..exit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lack_of_memory_is_what_the_own_cgroup_counts() {
        let by_itself = |code| Exit { by_itself: true, ..Exit::code(code) };
        for (exit, is_counted, expected) in [
            (by_itself(137), true, true),
            (by_itself(1), true, true),
            (by_itself(0), true, false),
            (by_itself(137), false, false),
            (Exit::code(137), false, false),
            (Exit::lost("gone"), true, false),
        ] {
            let judged = judged(exit.clone(), is_counted);
            assert_eq!(judged.cause == Some(Cause::Memory), expected, "{exit:?}");
            assert_eq!(judged == exit, !expected);
        }
    }
}
