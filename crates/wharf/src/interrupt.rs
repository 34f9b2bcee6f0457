//! Ctrl-C, termination and panics: nothing partial stays behind, and the exit code states what happened.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use wharf_staging as staging;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// What to say besides "interrupted".
static NOTE: OnceLock<String> = OnceLock::new();
static HANDLER: Mutex<Option<Box<dyn Fn() + Send>>> = Mutex::new(None);
static AT_END: OnceLock<fn()> = OnceLock::new();
static HANDLED: AtomicU8 = AtomicU8::new(0);

/// Ends the process cleanly on SIGINT, SIGTERM and SIGHUP.
///
/// # Errors
/// Where the system refuses the handlers.
pub(crate) fn install() -> Result<(), CliError> {
    let failed = |error| CliError::new(ErrorKind::Internal, "cannot watch for signals").caused_by(error);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                let number = u8::try_from(signal).unwrap_or(0);
                if let Some(handler) = HANDLER.lock().ok().as_ref().and_then(|handler| handler.as_ref()) {
                    HANDLED.store(number, Ordering::SeqCst);
                    handler();
                    continue;
                }
                INTERRUPTED.store(true, Ordering::SeqCst);
                staging::abandon_all();
                AT_END.get().into_iter().for_each(|put_right| put_right());
                let note = NOTE.get().map(|note| format!("hint: {note}\n")).unwrap_or_default();
                let _ = io::stderr().write_all(format!("interrupted\n{note}").as_bytes());
                std::process::exit(i32::from(Exit::Signal(number).code()));
            }
        })
        .map_err(failed)?;
    Ok(())
}

/// Says `note` where the command is interrupted: how to continue. The first one counts.
pub(crate) fn say_when_interrupted(note: String) {
    let _ = NOTE.set(note);
}

/// Calls `put_right` before a signal or a panic ends the process. The first one counts.
pub(crate) fn at_end(put_right: fn()) {
    let _ = AT_END.set(put_right);
}

/// From now on a signal does not end the process but calls `handler`, which sees to it that the command ends.
pub(crate) fn handle_with(handler: impl Fn() + Send + 'static) {
    if let Ok(mut current) = HANDLER.lock() {
        *current = Some(Box::new(handler));
    }
}

/// The signal that the handler was last called for.
pub(crate) fn handled() -> Option<Exit> {
    match HANDLED.load(Ordering::SeqCst) {
        0 => None,
        signal => Some(Exit::Signal(signal)),
    }
}

/// Does not return once an interruption is being dealt with: errors that it provokes in other threads are not
/// worth telling, and the exit code is the signal's.
pub(crate) fn yield_to_interruption() {
    while INTERRUPTED.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Turns a panic into a message that asks for a report, and exit code 1.
pub(crate) fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        staging::abandon_all_if_idle();
        AT_END.get().into_iter().for_each(|put_right| put_right());
        let payload = info.payload();
        let what = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        let place = info.location().map(|place| format!(" ({place})")).unwrap_or_default();
        let text = format!(
            "error: this is a bug in wharf {version}: {what}{place}\n\
             hint: please report it, with the command line and this text, at {repository}/issues\n",
            version = env!("CARGO_PKG_VERSION"),
            repository = env!("CARGO_PKG_REPOSITORY"),
        );
        let _ = io::stderr().write_all(text.as_bytes());
        std::process::exit(i32::from(Exit::Internal.code()));
    }));
}
