//! Work on many nodes, on some of them at once.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Does all of it, so much at once; what comes of it is in the order of the work. To drop this ends what is under way.
pub(crate) async fn pooled<W>(work: impl IntoIterator<Item = W>, parallel: usize) -> Vec<W::Output>
where
    W: Future<Output: Send + 'static> + Send + 'static,
{
    let pool = Arc::new(Semaphore::new(parallel.max(1)));
    let mut tasks = JoinSet::new();
    for (index, one) in work.into_iter().enumerate() {
        let pool = pool.clone();
        tasks.spawn(async move {
            // The pool is never closed.
            let _permit = pool.acquire_owned().await;
            (index, one.await)
        });
    }
    let mut done = tasks.join_all().await;
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}
