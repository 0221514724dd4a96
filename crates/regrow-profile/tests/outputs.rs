//! Each output of a fixed stream of events, of hostile names, of very many sites and of very deep trees; pages are looked at in a browser, and pprof
//! files by `go tool pprof`.
//!
//! `REGROW_WRITE=1` writes what is expected anew, into `tests/outputs/expected`. Screenshots go to the folder that `REGROW_PICTURES` names, by default
//! `regrow-profile-pictures` in the temporary folder.

#[path = "outputs/browser.rs"]
mod browser;
#[path = "outputs/files.rs"]
mod files;
#[path = "outputs/hostile.rs"]
mod hostile;
#[path = "outputs/page.rs"]
mod page;
#[path = "outputs/scene.rs"]
mod scene;
