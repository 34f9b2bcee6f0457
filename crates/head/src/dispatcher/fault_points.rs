//! Places where tests make the head panic. Outside tests they are empty.

#[cfg(test)]
use std::{cell::RefCell, collections::BTreeMap};

#[cfg(test)]
thread_local! {
    static ARMED: RefCell<BTreeMap<&'static str, u32>> = const { RefCell::new(BTreeMap::new()) };
}

/// Makes the next passes of a place panic.
#[cfg(test)]
pub(crate) fn arm(place: &'static str, times: u32) {
    ARMED.with_borrow_mut(|armed| armed.insert(place, times));
}

/// How many panics of a place are left.
#[cfg(test)]
pub(crate) fn left(place: &'static str) -> u32 {
    ARMED.with_borrow(|armed| armed.get(place).copied().unwrap_or(0))
}

/// A place where a test may have armed a panic.
#[cfg(test)]
pub(crate) fn point(place: &'static str) {
    let is_armed = ARMED.with_borrow_mut(|armed| match armed.get_mut(place) {
        Some(times) if *times > 0 => {
            *times -= 1;
            true
        }
        _ => false,
    });
    assert!(!is_armed, "fault point `{place}`");
}

#[cfg(not(test))]
#[inline]
pub(crate) const fn point(_: &'static str) {}
