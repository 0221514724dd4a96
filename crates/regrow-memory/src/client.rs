//! A client of the service: asks its zone for blocks, and keeps a few that it has just given back.
//!
//! What it keeps it has alone, so that a pair of request and return needs no token and no atomic operation.

use std::sync::Arc;

use crate::block::Block;
use crate::error::ServiceError;
use crate::request::{Mode, Owner, Want};
use crate::store::Store;
use crate::units::{CHUNK_ORDER, MAX_ORDER, order_for, pages_of};

/// How many pages a client keeps in blocks of one order.
const KEPT_PAGES: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct Client {
    service: Arc<Store>,
    number: Owner,
    zone: usize,
    /// Blocks with all their pages mapped, by order.
    kept: [Vec<Block>; CHUNK_ORDER as usize + 1],
}

impl Client {
    pub(crate) fn new(service: Arc<Store>, number: Owner, zone: usize) -> Client {
        Client { service, number, zone, kept: Default::default() }
    }

    /// A block of so many pages at least. What is in it is zero, or what this client has written to a block before.
    ///
    /// # Errors
    /// [`ServiceError::TooLarge`], [`ServiceError::NoMemory`], [`ServiceError::System`].
    pub fn alloc(&mut self, pages: u64, mode: Mode) -> Result<Block, ServiceError> {
        let order = order_for(pages).ok_or(ServiceError::TooLarge { pages, most: pages_of(MAX_ORDER) })?;
        match self.kept.get_mut(usize::from(order)).and_then(Vec::pop) {
            Some(block) => Ok(block),
            None => self.ask(order, mode, false),
        }
    }

    /// The same, all of it zero.
    ///
    /// # Errors
    /// As [`Client::alloc`].
    pub fn alloc_zeroed(&mut self, pages: u64, mode: Mode) -> Result<Block, ServiceError> {
        let order = order_for(pages).ok_or(ServiceError::TooLarge { pages, most: pages_of(MAX_ORDER) })?;
        self.ask(order, mode, true)
    }

    /// Gives a block back. A block that is dropped goes home too, by a slower way.
    pub fn free(&mut self, block: Block) {
        let order = block.order();
        let may_keep = block.is_of(&self.service, self.number) && block.mode() == Mode::Immediate;
        match self.kept.get_mut(usize::from(order)) {
            Some(kept) if may_keep && kept.len() < (KEPT_PAGES >> order).max(1) => kept.push(block),
            _ => drop(block),
        }
    }

    /// Gives back what it keeps.
    pub fn trim(&mut self) {
        self.kept.iter_mut().for_each(Vec::clear);
    }

    fn ask(&mut self, order: u8, mode: Mode, zeroed: bool) -> Result<Block, ServiceError> {
        let want = Want { order, owner: self.number, mapped: mode == Mode::Immediate, zeroed };
        let page = self.service.alloc(&mut self.zone, want)?;
        Ok(Block::new(Arc::clone(&self.service), page, want))
    }
}
