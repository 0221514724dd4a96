//! Takes in what a collector tells, and shows it meanwhile.

use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use regrow_profile::Profile;
use regrow_profile::traced::{Told, now_us};

use super::live::Live;
use crate::cli::sites::OutputArgs;
use crate::error::CliError;

/// How often the live view is drawn, and which share of the time drawing may take.
const DRAW_EVERY: Duration = Duration::from_millis(250);
const DRAW_SHARE: u32 = 20;
/// How often keys are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a collector gives at its end: how the command ended; `None` where there was none.
pub(super) type Ended = Result<Option<ExitStatus>, CliError>;
/// Runs a command, or watches what runs, and tells.
pub(super) type Collector = Box<dyn FnOnce(Teller) -> Ended + Send>;
/// Takes what a collector tells.
pub(super) type Teller = Box<dyn FnMut(Told) + Send>;

/// What a thread of a collector says.
enum Said {
    Told(Told),
    Ended(Ended),
}

/// What was watched.
pub(super) struct Watched {
    pub(super) profile: Profile,
    pub(super) status: Ended,
}

/// Has a collector watch, and shows what it tells in the meantime, where there is a terminal.
pub(super) fn watch(
    collector: Collector,
    title: &str,
    how: &OutputArgs,
    is_live: bool,
) -> Result<Watched, CliError> {
    // Before the command starts: it has the descriptors from then on.
    let mut live = if is_live { Live::start(title, how)? } else { None };
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("collector".to_owned());
    let work = move || run(collector, &sender);
    let handle = thread.spawn(work).map_err(CliError::system("the collector cannot be started"))?;
    let mut profile = Profile::new();
    let status = take_in(&receiver, &mut profile, live.as_mut());
    // It has said all; a thread that panicked has said it as well.
    let _ = handle.join();
    profile.finish();
    if let Some(live) = live {
        live.end()?;
    }
    Ok(Watched { profile, status })
}

fn run(collector: Collector, sender: &Sender<Said>) {
    let teller = sender.clone();
    // Where nobody listens any more, there is nobody to tell it.
    let ended = collector(Box::new(move |told| drop(teller.send(Said::Told(told)))));
    let _ = sender.send(Said::Ended(ended));
}

fn take_in(receiver: &Receiver<Said>, profile: &mut Profile, mut live: Option<&mut Live>) -> Ended {
    let (mut drawn, mut interval) = (Instant::now(), DRAW_EVERY);
    loop {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok(Said::Told(Told::Event(event))) => profile.take(event),
            Ok(Said::Told(Told::Script(hash, name))) => profile.name_script(hash, name),
            Ok(Said::Ended(ended)) => return ended,
            Err(RecvTimeoutError::Timeout) => profile.pass(now_us()),
            Err(RecvTimeoutError::Disconnected) => {
                let source = std::io::Error::other("its thread is gone");
                return Err(CliError::system("the collector has failed")(source));
            }
        }
        if let Some(live) = live.as_deref_mut()
            && (live.has_new_keys() || drawn.elapsed() >= interval)
        {
            let began = Instant::now();
            profile.pass(now_us());
            live.draw(profile);
            drawn = Instant::now();
            interval = DRAW_EVERY.max((drawn - began) * DRAW_SHARE);
        }
    }
}
