//! State machines: each state leads where it says, and others have their turn in between.

use std::cell::RefCell;
use std::rc::Rc;

use regrow_fiber::{Progress, Runtime, Step, spawn_step, steps};

steps! {
    /// Writes its letters down, one in a state.
    struct Spell { name: char, written: Rc<RefCell<String>>, rounds: u32 } -> u32 {
        First(this) => { this.written.borrow_mut().push(this.name); Next(Second) }
        Second(this) => {
            this.written.borrow_mut().push(this.name.to_ascii_uppercase());
            this.rounds -= 1;
            if this.rounds == 0 { Done(7) } else { Next(First) }
        }
    }
}

#[test]
fn each_state_leads_to_the_next() {
    let written = Rc::new(RefCell::new(String::new()));
    let mut machine = Spell::new('a', written.clone(), 2);
    assert_eq!([machine.step(), machine.step(), machine.step()], [Progress::More; 3]);
    assert_eq!(written.borrow().as_str(), "aAa");
    assert_eq!(machine.step(), Progress::Done(7));
    assert_eq!(Spell::new('b', written.clone(), 1).finish(), 7);
    assert_eq!(written.borrow().as_str(), "aAaAbB");
}

#[test]
fn two_machines_take_turns() {
    let written = Rc::new(RefCell::new(String::new()));
    let [first, second] =
        [('a', 1), ('b', 2)].map(|(name, rounds)| Spell::new(name, written.clone(), rounds));
    assert_eq!(first.beside(second).finish(), 7);
    assert_eq!(written.borrow().as_str(), "abABbB");
}

#[test]
#[cfg_attr(miri, ignore = "stacks are switched by instructions of the processor's")]
fn a_runtime_runs_machines_beside_tasks() {
    let written = Runtime::with_workers(1).run(|| {
        let written = Rc::new(RefCell::new(String::new()));
        let machines = ['a', 'b', 'c'].map(|name| spawn_step(Spell::new(name, written.clone(), 2)));
        for machine in machines {
            assert_eq!(machine.join().unwrap(), 7);
        }
        written.take()
    });
    assert_eq!(written.unwrap(), "abcABCabcABC");
}
