//! A bounded memory: what is used stays, the rest is forgotten a generation at a time. For what can be asked again.

use crate::key_map::KeyMap;
use midas_core::key::Key;

/// At most twice [`YOUNG_MAX`] values.
#[derive(Debug)]
pub(crate) struct Generations<V> {
    young: KeyMap<V>,
    old: KeyMap<V>,
}

impl<V> Default for Generations<V> {
    fn default() -> Self {
        Self { young: KeyMap::default(), old: KeyMap::default() }
    }
}

impl<V: Copy> Generations<V> {
    pub(crate) fn find(&mut self, key: Key) -> Option<V> {
        if let Some(value) = self.young.get(&key) {
            return Some(*value);
        }
        let value = self.old.remove(&key)?;
        self.insert(key, value);
        Some(value)
    }

    pub(crate) fn insert(&mut self, key: Key, value: V) {
        if self.young.len() >= YOUNG_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.young.is_empty() && self.old.is_empty()
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<V> {
        let old = self.old.remove(&key);
        self.young.remove(&key).or(old)
    }
}

/// Values of one generation.
pub(crate) const YOUNG_MAX: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_is_forgotten() {
        let mut generations = Generations::default();
        for key in 0..10 * YOUNG_MAX as u64 {
            generations.insert(Key(key), key);
            assert_eq!(generations.find(Key(0)), Some(0));
        }
        assert_eq!(generations.find(Key(1)), None);
        assert!(generations.young.len() + generations.old.len() <= 2 * YOUNG_MAX);
        assert_eq!((generations.remove(Key(0)), generations.find(Key(0))), (Some(0), None));
    }
}
