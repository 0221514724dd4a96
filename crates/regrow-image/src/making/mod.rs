//! How an image is made: the program runs under trace to its snapshot point, its state is checked and read, and the agent is
//! loaded.

mod agent_code;
mod agent_place;
mod descriptors;
mod fitness;
mod initial_stack;
mod load;
pub mod make;
mod memory;
mod own_state;
mod pointers;
mod processes;
mod remote;
mod report_file;
mod startup;
mod stat;
mod task_facts;
mod trace;
mod warm;
