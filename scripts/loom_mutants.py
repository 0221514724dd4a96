#!/usr/bin/env python3
"""Weakens the memory service one ordering, fence or step at a time: a model fails each time (`make loom-mutants`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "crates/regrow-memory/src"
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


def copy_to(tree: Path) -> None:
    """Copies what git knows of, and what is new, so that the mutants are nobody else's."""
    shutil.rmtree(tree, ignore_errors=True)
    words = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def run(tree: Path, target: Path, models: str) -> tuple[bool, str]:
    """Whether the models pass, and what they say. One that does not end has failed."""
    words = ["cargo", "test", "--quiet", "--locked", "--profile", "checked", "--target-dir", str(target)]
    words += ["--package", "regrow-memory", "--lib", models]
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
        if not sys.argv[1:] or any(text in f"{mutant.file} {mutant.after}" for text in sys.argv[1:])
    ]
    for mutant in chosen:
        path = tree / SOURCE / mutant.file
        text = path.read_text()
        path.write_text(mutant.of(text))
        passes, said = run(tree, target / "loom-mutants", mutant.models)
        path.write_text(text)
        if "could not compile" in said:
            sys.exit(f"the mutant is no program: {mutant}\n{said}")
        survivors += passes
        verdict = "SURVIVES" if passes else "is found"
        print(f"{verdict}: {mutant.file}: {mutant.after}: {mutant.old} -> {mutant.new or 'nothing'}", flush=True)
    print(f"{len(chosen)} mutants, {survivors} of them survive")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
