//! A list of independent pieces of work on several threads, results in the list's order.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// All cores, where no other number is asked for.
pub fn thread_count(asked: Option<NonZeroUsize>) -> NonZeroUsize {
    asked.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
}

/// Applies `work` to the items with the indexes in `order`, taken up in that order by up to `threads` threads.
///
/// The results come by index; an item that `order` does not name gives `None`.
///
/// # Errors
/// After a failure no further item is begun; of several failures the one with the lowest index is returned.
pub fn map_in_order<T: Sync, R: Send, E: Send>(
    items: &[T],
    order: &[usize],
    threads: NonZeroUsize,
    work: impl Fn(usize, &T) -> Result<R, E> + Sync,
) -> Result<Vec<Option<R>>, E> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let slots: Vec<Mutex<Option<Result<R, E>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let take_turns = || {
        while !failed.load(Ordering::Relaxed)
            && let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let result = work(index, &items[index]);
            if result.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            *slots[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.get().min(order.len()) {
            scope.spawn(take_turns);
        }
        take_turns();
    });
    let taken = slots.into_iter().map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
    taken.map(Option::transpose).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_thread_count() {
        let items: Vec<u32> = (0..50).collect();
        let order: Vec<usize> = (0..50).rev().filter(|index| index % 7 != 0).collect();
        let double = |_, item: &u32| Ok::<_, ()>(item * 2);
        let alone = map_in_order(&items, &order, NonZeroUsize::MIN, double).unwrap();
        assert_eq!((alone[0], alone[3]), (None, Some(6)));
        for threads in [2, 8, 100] {
            let threads = NonZeroUsize::new(threads).unwrap();
            assert_eq!(map_in_order(&items, &order, threads, double).unwrap(), alone);
        }
    }

    #[test]
    fn failure_stops_the_rest() {
        let done = AtomicUsize::new(0);
        let items = [0, 1, 2, 3];
        let failed = map_in_order(&items, &[0, 1, 2, 3], NonZeroUsize::MIN, |_, item| {
            done.fetch_add(1, Ordering::Relaxed);
            if *item == 1 { Err(*item) } else { Ok(()) }
        });
        assert_eq!(failed, Err(1));
        assert_eq!(done.load(Ordering::Relaxed), 2);
    }
}
