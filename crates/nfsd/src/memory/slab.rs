//! Inodes by number. Blocks instead of one vector: growing never moves what is there, so that the millionth create takes no
//! longer than the first.

use super::inode::Inode;

/// Slots that are never given back, only used again.
#[derive(Default)]
pub(super) struct Slab {
    blocks: Vec<Vec<Option<Inode>>>,
    free: Vec<u32>,
    slots: u32,
}

impl Slab {
    pub(super) fn get(&self, index: u32) -> Option<&Inode> {
        self.blocks.get(index as usize / BLOCK)?.get(index as usize % BLOCK)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Inode> {
        self.blocks.get_mut(index as usize / BLOCK)?.get_mut(index as usize % BLOCK)?.as_mut()
    }

    /// None once all numbers are taken.
    pub(super) fn insert(&mut self, inode: Inode) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            self.blocks[index as usize / BLOCK][index as usize % BLOCK] = Some(inode);
            return Some(index);
        }
        let index = self.slots;
        self.slots = index.checked_add(1)?;
        if (index as usize).is_multiple_of(BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        self.blocks[index as usize / BLOCK].push(Some(inode));
        Some(index)
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<Inode> {
        let inode = self.blocks.get_mut(index as usize / BLOCK)?.get_mut(index as usize % BLOCK)?.take()?;
        self.free.push(index);
        Some(inode)
    }
}

/// Inodes a block.
const BLOCK: usize = 4096;
