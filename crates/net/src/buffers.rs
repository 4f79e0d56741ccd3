//! Buffers that connections borrow while bytes are on their way. A pool, because ten thousand idle connections must not hold
//! ten thousand buffers, and because a busy one must not allocate per batch.

/// Spare buffers of one event loop.
#[derive(Debug)]
pub struct Buffers {
    spare: Vec<Vec<u8>>,
    bytes: usize,
}

impl Buffers {
    /// An empty pool.
    pub fn new() -> Self {
        Self { spare: Vec::new(), bytes: 0 }
    }

    /// An empty buffer.
    pub fn take(&mut self) -> Vec<u8> {
        match self.spare.pop() {
            Some(buffer) => {
                self.bytes -= buffer.capacity();
                buffer
            }
            None => Vec::with_capacity(FRESH),
        }
    }

    /// Gives a buffer back; its content is dropped.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        if self.spare.len() < SPARES && bytes >= FRESH && self.bytes + bytes <= BYTES {
            buffer.clear();
            self.bytes += bytes;
            self.spare.push(buffer);
        }
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Self::new()
    }
}

/// What the sockets of one event loop are read into, one after the other.
#[derive(Debug)]
pub struct Scratch(pub(crate) Box<[u8]>);

impl Scratch {
    /// Room for one read.
    pub fn new() -> Self {
        Self(vec![0; SCRATCH].into_boxed_slice())
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

/// One read: some hundred small calls, and a quarter of a large WRITE.
const SCRATCH: usize = 256 << 10;
/// A new buffer's capacity.
const FRESH: usize = 4 << 10;
/// Buffers kept for reuse, and what they may take.
const SPARES: usize = 64;
const BYTES: usize = 8 << 20;
