#!/usr/bin/env python3
"""Weakens what has models one ordering, fence or step at a time: a model fails each time (`make loom-mutants`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A model of a mutant may not end: what waits for a line that never comes looks for ever.
LIMIT_S = 240


@dataclass(frozen=True)
class Mutant:
    """A change of a file, which the models with this text in their names are to find."""

    file: str
    old: str
    new: str
    models: str
    # Where the text stands in the file: only there is it changed.
    after: str = ""
    package: str = "regrow-memory"

    def of(self, text: str) -> str:
        """The file with the change."""
        start = text.index(self.after)
        at = text.index(self.old, start)
        return text[:at] + self.new + text[at + len(self.old) :]


FENCE = "fence(Ordering::SeqCst);"
CHANGE = "word.compare_exchange(self.word(), to.word(), Ordering::AcqRel, Ordering::Relaxed).is_ok()"
IN_TWO_STEPS = "word.load(Ordering::Acquire) == self.word() && { word.store(to.word(), Ordering::Release); true }"
PUT = "self.slot(position).compare_exchange(0, word, Ordering::Release, Ordering::Relaxed).is_ok()"
PUT_IN_TWO_STEPS = (
    "self.slot(position).load(Ordering::Acquire) == 0 && { self.slot(position).store(word, Ordering::Release); true }"
)


def relaxed(file: str, after: str, ordering: str, models: str) -> Mutant:
    """An ordering that orders nothing."""
    return Mutant(file, f"Ordering::{ordering}", "Ordering::Relaxed", models, after)


def without(file: str, after: str, what: str, models: str) -> Mutant:
    """A step that is not made."""
    return Mutant(file, what, "", models, after)


MUTANTS = (
    # The entry of a block.
    relaxed("shared/entry.rs", "fn change", "AcqRel", "shared::model"),
    Mutant("shared/entry.rs", "Ordering::AcqRel", "Ordering::Acquire", "shared::model", "fn change"),
    Mutant("shared/entry.rs", "Ordering::AcqRel", "Ordering::Release", "shared::model", "fn change"),
    Mutant("shared/entry.rs", CHANGE, IN_TWO_STEPS, "shared::model"),
    without("shared/entry.rs", "fn accept", "self.is_pending && ", "shared::model"),
    without("shared/entry.rs", "fn hand", ".wrapping_add(1)", "shared::model"),
    # The steps of handing over.
    Mutant("shared/handing.rs", "!presence.is(receiver)", "false", "shared::model", "fn hand"),
    Mutant("shared/handing.rs", "presence.is_still(receiver)", "true", "shared::model", "fn hand"),
    Mutant("shared/handing.rs", "recall(word, handed, giver)", "true", "shared::model", "fn hand"),
    Mutant("shared/handing.rs", "is_there(entry.owner)", "false", "shared::model", "fn collect"),
    without("shared/handing.rs", "fn accept", "is_meant && ", "shared::model"),
    # Who is there.
    without("shared/layout.rs", "fn is_still", FENCE, "shared::model"),
    without("shared/layout.rs", "fn leave", FENCE, "shared::model"),
    relaxed("shared/layout.rs", "fn come", "Release", "shared::model"),
    # The inbox.
    relaxed("shared/inbox.rs", "fn put", "Release", "shared::model"),
    relaxed("shared/inbox.rs", "fn take", "Acquire", "shared::model"),
    Mutant("shared/inbox.rs", PUT, PUT_IN_TWO_STEPS, "shared::model"),
    # The bell.
    without("bell.rs", "fn ring", FENCE, "model"),
    without("bell.rs", "fn wake_if_asleep", FENCE, "model"),
    without("bell.rs", "fn attend", FENCE, "model"),
    without("bell.rs", "fn take", FENCE, "model"),
    without("bell.rs", "fn wait", FENCE, "model"),
    without("bell.rs", "fn has_rung", FENCE, "model"),
    Mutant("bell.rs", "self.wake();", "", "bell::model", "fn ring"),
    Mutant("bell.rs", "self.wake();", "", "bell::model", "fn wake_if_asleep"),
    # The ring of a lane.
    relaxed("ring.rs", "fn publish", "Release", "ring::model"),
    relaxed("ring.rs", "fn peek", "Acquire", "ring::model"),
    relaxed("ring.rs", "fn advance", "Release", "ring::model"),
    relaxed("ring.rs", "fn room", "Acquire", "ring::model"),
    # The token of a zone.
    Mutant("seat.rs", "while self.due.has_rung()", "while false", "seat::model", "fn catch_up"),
    Mutant("seat.rs", "while self.due.has_rung()", "if self.due.has_rung()", "seat::model", "fn catch_up"),
)


def of_package(package: str, *mutants: Mutant) -> tuple[Mutant, ...]:
    """Mutants of another package."""
    return tuple(replace(mutant, package=package) for mutant in mutants)


# Locks that one thread takes without a locked instruction.
LIGHT = "/// The other side.\n    pub fn light() {\n        "
HEAVY = "pub fn heavy() {\n        fence"
MUTANTS += of_package(
    "regrow-sync",
    without("lib.rs", HEAVY, FENCE, "biased::model"),
    without("lib.rs", LIGHT, FENCE, "biased::model"),
    relaxed("biased.rs", "barrier::light();", "Acquire", "biased::model"),
    Mutant("biased.rs", " && self.owner.load(Ordering::Relaxed) == thread", "", "biased::model", "barrier::light();"),
    Mutant("biased.rs", "self.claim.load(Ordering::Acquire) == 0", "true", "biased::model", "fn try_own"),
    relaxed("biased.rs", "fn try_claim", "Acquire", "biased::model"),
    relaxed("biased.rs", "fn take(self)", "Acquire", "biased::model"),
    Mutant("biased.rs", "self.0.held.load(Ordering::Acquire) == 0", "true", "biased::model", "fn take(self)"),
    relaxed("biased.rs", "for Turn<'_, T> {\n    #[inline]\n    fn drop", "Release", "biased::model"),
    # Those that are never given back to their owner.
    without("lib.rs", HEAVY, FENCE, "owned::model"),
    without("lib.rs", LIGHT, FENCE, "owned::model"),
    relaxed("owned.rs", "fn try_own", "Release", "owned::model"),
    relaxed("owned.rs", "while self.claim.compare_exchange", "Acquire", "owned::model"),
    without("owned.rs", "fn share", "self.owner.store(SHARED, Ordering::Relaxed);", "owned::model"),
    relaxed("owned.rs", "while owner.0.load", "Acquire", "owned::model"),
    Mutant("owned.rs", "owner.0.load(Ordering::Acquire) == self.address()", "false", "owned::model", "fn share"),
    relaxed("owned.rs", "Some(desk) => desk.0.store", "Release", "owned::model"),
    relaxed("owned.rs", "None => self.lock.claim.store", "Release", "owned::model"),
)

# Fibers: what stands between workers, tasks and threads.
MUTANTS += of_package(
    "regrow-fiber",
    # Posts.
    without("post.rs", "fn wake", FENCE, "model::post"),
    without("post.rs", "fn wake", "thread.unpark();", "model::post"),
    without("post.rs", "fn send", "self.wake();", "model::post"),
    without("post.rs", "fn fall_asleep", FENCE, "model::post"),
    Mutant("post.rs", "self.messages.is_empty()", "true", "model::post", "fn fall_asleep"),
    Mutant("post.rs", "self.next_number.store(next_number, Ordering::Relaxed);", "", "model::post", "fn give_back"),
    Mutant("post.rs", "number << NUMBERS", "number", "model::post"),
    # Waits of threads.
    relaxed("wait.rs", "parked.is_over.store", "Release", "model::wait"),
    relaxed("wait.rs", "while !self.is_over.load", "Acquire", "model::wait"),
    without("wait.rs", "fn wake(self) {\n        match self", "parked.thread.unpark();", "model::wait"),
    Mutant("wait.rs", "NUMBERS.fetch_add(1", "NUMBERS.fetch_add(0", "model::wait"),
    # Futures.
    Mutant("future.rs", "if bell.has_rung.load(Ordering::SeqCst)", "if false", "model::wait"),
    relaxed("future.rs", "self.has_rung.store", "SeqCst", "model::wait"),
    relaxed("future.rs", "bell.has_rung.swap", "SeqCst", "model::wait"),
    without("future.rs", "fn wake", "waiter.wake();", "model::wait"),
    # The ends of tasks.
    without("join.rs", "fn end", "waiters.wake_all();", "model::packet"),
    relaxed("join.rs", "fetch_or(BEGUN", "AcqRel", "model::packet"),
    relaxed("join.rs", "fetch_or(CANCELLED", "AcqRel", "model::packet"),
    without("join.rs", "fn cancel(&self) {\n        if", "post.send(Message::Cancel { control, birth });", "model::packet"),
    Mutant("join.rs", "function.filter(|_| !packet.is_cancelled())", "function", "model::packet"),
    # Scopes.
    without("scope.rs", "for Member", "waiters.into_iter().for_each(Waiter::wake);", "model::scope"),
    Mutant("scope.rs", "if count.0 == 0 { std::mem::take", "if true { std::mem::take", "model::scope", "for Member"),
    # Locks.
    without("mutex.rs", "for MutexGuard", "next.wake();", "model::mutex"),
    without("mutex.rs", "fn lock", "state.waiters.push_own(&wait);", "model::mutex"),
    without("mutex.rs", "fn withdraw", "next.wake();", "turn_at_a_lock"),
    # Workers.
    without("worker.rs", "fn wake_a_colleague(", FENCE, "a_task_is_run"),
    without("worker.rs", "fn wake_a_colleague(", " && post.wake()", "a_task_is_run"),
    without("worker.rs", "fn sleep", "self.next_fresh_is_there() || ", "a_task_is_run"),
    without("worker.rs", "fn sleep", " || is_over()", "all_workers_end"),
    without("worker.rs", "fn wake(", " && block.task.wait.load(Ordering::Relaxed) == wait", "what_comes_late"),
    without("worker.rs", "fn end_all", "self.tell_all(|_| true);", "what_waits_on_another"),
    without("runtime.rs", "fn tell", "post.wake();", "all_workers_end"),
    # Channels.
    without("channel.rs", "fn withdraw", "next.wake();", "leaves_the_room"),
    Mutant("channel.rs", "{ waiters.pop() }", "{ waiters.pop().filter(|_| false) }", "leaves_the_value", "fn withdraw"),
    without("channel.rs", "else if let Some(waiter) = waiters.pop_other()", "waiter.wake();", "model::channel"),
    without("channel.rs", "fn wake_one", "task.wake();", "model::runtime::a_task"),
    without("channel.rs", "fn take", "wake_one(state, Side::Sending);", "let_others_send"),
    without("channel.rs", "fn put", "state.close_hand();", "open_hand"),
    Mutant("channel.rs", "if task != NOBODY", "if false", "open_hand", "fn close_hand"),
    Mutant("channel.rs", "Some((Woken::Cancelled, own))", "Some((Woken::Disturbed, own))", "leaves_the_room"),
    Mutant("worker.rs", "block.birth.load(Ordering::Relaxed) == birth", "false", "open_hand", "fn disturb"),
    Mutant("worker.rs", "0 => self.close_hand(&block.task, Woken::Cancelled)", "0 => {}", "open_hand", "fn cancel"),
    without("channel.rs", "for Sender<T> {\n    fn drop", "waiters.wake_all();", "model::channel"),
    without("channel.rs", "for Receiver<T> {\n    fn drop", "waiters.wake_all();", "model::channel"),
)


def copy_to(tree: Path) -> None:
    """Copies what git knows of, and what is new, so that the mutants are nobody else's."""
    shutil.rmtree(tree, ignore_errors=True)
    words = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def run(tree: Path, target: Path, mutant: Mutant) -> tuple[bool, str]:
    """Whether the models pass, and what they say. One that does not end has failed."""
    words = ["cargo", "test", "--quiet", "--locked", "--profile", "checked", "--target-dir", str(target)]
    words += ["--package", mutant.package, "--lib", mutant.models]
    env = {**os.environ, "RUSTFLAGS": "--cfg loom", "RUST_BACKTRACE": "0"}
    try:
        done = subprocess.run(words, cwd=tree, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return False, "it does not end"
    return done.returncode == 0, done.stdout + done.stderr


def main() -> int:
    """Runs all mutants, or those with one of the texts in their place."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
    # A folder of its own: cargo takes what a mutant was built to for the tree that is like it.
    tree = target / "mutants"
    copy_to(tree)
    survivors = 0
    chosen = [
        mutant
        for mutant in MUTANTS
        if not sys.argv[1:] or any(text in f"{mutant.package}/{mutant.file} {mutant.after}" for text in sys.argv[1:])
    ]
    for mutant in chosen:
        path = tree / "crates" / mutant.package / "src" / mutant.file
        text = path.read_text()
        path.write_text(mutant.of(text))
        passes, said = run(tree, target / "loom-mutants", mutant)
        path.write_text(text)
        if "could not compile" in said:
            sys.exit(f"the mutant is no program: {mutant}\n{said}")
        survivors += passes
        verdict = "SURVIVES" if passes else "is found"
        place = f"{mutant.package}/{mutant.file}"
        after = " ".join(mutant.after.split())
        print(f"{verdict}: {place}: {after}: {mutant.old} -> {mutant.new or 'nothing'}", flush=True)
    print(f"{len(chosen)} mutants, {survivors} of them survive")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
