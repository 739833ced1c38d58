//! The kernel's own description of its types: where a field stands in a structure, and the number of a tracepoint's type.
//!
//! Only a kernel writes `/sys/kernel/btf/vmlinux`, but a file there may be another's (a bind mount), so nothing is believed unchecked.

/// The description, with the place of each type.
pub(crate) struct Btf {
    bytes: Vec<u8>,
    /// Where each type stands; the first is `void` and stands nowhere.
    types: Vec<u32>,
    strings: usize,
}

/// Kinds of types, as the format numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Pointer = 2,
    Struct = 4,
    Union = 5,
    Typedef = 8,
    Function = 12,
    Prototype = 13,
}

const MAGIC: u16 = 0xeb9f;
const TYPE_SIZE: usize = 12;
/// A kernel has some 150,000 types.
const MAX_TYPES: usize = 4 << 20;
/// A structure within a structure within…
const MAX_DEPTH: u32 = 8;

impl Btf {
    /// Reads a description; says what is wrong with it otherwise.
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, &'static str> {
        let word = |at: usize| u32_at(&bytes, at).map(|n| n as usize);
        if u32_at(&bytes, 0).is_none_or(|first| first as u16 != MAGIC) {
            return Err("it is no BTF of this byte order");
        }
        let header = || Some((word(4)?, word(8)?, word(12)?, word(16)?));
        let (header, types_at, types_len, strings_at) = header().ok_or("its header is cut")?;
        let at = header.checked_add(types_at).ok_or("its types lie outside")?;
        let end = at.checked_add(types_len).filter(|end| *end <= bytes.len()).ok_or("its types are cut")?;
        let strings = header.checked_add(strings_at).filter(|at| *at <= bytes.len());
        let strings = strings.ok_or("its names lie outside")?;
        let (mut types, mut at) = (vec![0], at);
        while at < end {
            let info = u32_at(&bytes, at + 4).ok_or("a type is cut")?;
            types.push(at as u32);
            at += TYPE_SIZE + extra_size(info).ok_or("a type is of an unknown kind")?;
            if types.len() > MAX_TYPES {
                return Err("it has too many types");
            }
        }
        Ok(Self { bytes, types, strings })
    }

    fn word(&self, id: u32, n: usize) -> Option<u32> {
        let at = *self.types.get(id as usize).filter(|at| **at > 0)?;
        u32_at(&self.bytes, at as usize + 4 * n)
    }

    fn kind(&self, id: u32) -> Option<u8> {
        Some((self.word(id, 1)? >> 24 & 0x1f) as u8)
    }

    fn text(&self, offset: u32) -> Option<&[u8]> {
        self.bytes.get(self.strings + offset as usize..)?.split(|byte| *byte == 0).next()
    }

    /// The number of the type of this kind and name.
    pub(crate) fn find(&self, kind: Kind, name: &str) -> Option<u32> {
        let is_it = |id: &u32| {
            self.kind(*id) == Some(kind as u8)
                && self.word(*id, 0).and_then(|at| self.text(at)) == Some(name.as_bytes())
        };
        (1..self.types.len() as u32).find(is_it)
    }

    /// Where a field begins in a structure, in bytes; also one of a structure or union without a name within it.
    pub(crate) fn offset(&self, structure: &str, field: &str) -> Option<i16> {
        let id = self.find(Kind::Struct, structure)?;
        i16::try_from(self.offset_in(id, field.as_bytes(), 0)?).ok()
    }

    fn offset_in(&self, id: u32, field: &[u8], depth: u32) -> Option<u32> {
        let info = self.word(id, 1)?;
        let is_packed = info >> 31 == 1;
        for member in 0..(info & 0xffff) as usize {
            let [name, kind, bits] = [0, 1, 2].map(|n| self.word(id, 3 + 3 * member + n));
            let name = self.text(name?)?;
            let bits = if is_packed { bits? & 0xff_ffff } else { bits? };
            if name == field {
                return Some(bits / 8);
            }
            if name.is_empty()
                && depth < MAX_DEPTH
                && let Some(kind @ (4 | 5)) = self.kind(kind?)
                && (kind == Kind::Struct as u8 || kind == Kind::Union as u8)
                && let Some(within) = self.offset_in(self.word(id, 3 + 3 * member + 1)?, field, depth + 1)
            {
                return Some(bits / 8 + within);
            }
        }
        None
    }

    /// The types of a tracepoint's arguments: the names of the structures they point to, or nothing.
    pub(crate) fn arguments(&self, tracepoint: &str) -> Option<Vec<Option<&[u8]>>> {
        let id = self.find(Kind::Typedef, &format!("btf_trace_{tracepoint}"))?;
        let pointer = self.word(id, 2)?;
        let prototype = self.word(pointer, 2)?;
        if self.kind(pointer)? != Kind::Pointer as u8 || self.kind(prototype)? != Kind::Prototype as u8 {
            return None;
        }
        let n = (self.word(prototype, 1)? & 0xffff) as usize;
        let pointed_to = |n: usize| {
            let id = self.word(prototype, 3 + 2 * n + 1)?;
            let to = self.word(id, 2).filter(|_| self.kind(id) == Some(Kind::Pointer as u8))?;
            self.word(to, 0).and_then(|name| self.text(name)).filter(|name| !name.is_empty())
        };
        // The first is the tracepoint's own.
        Some((1..n).map(pointed_to).collect())
    }
}

/// Bytes behind the common part of a type.
fn extra_size(info: u32) -> Option<usize> {
    let n = (info & 0xffff) as usize;
    Some(match info >> 24 & 0x1f {
        1 | 14 | 17 => 4,
        3 => 12,
        4 | 5 | 15 | 19 => 12 * n,
        6 | 13 => 8 * n,
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// A description of one array of `n` numbers of 64 bits, and of the number of 32 bits that is its key: what a map that belongs to tasks asks
/// for. The types are 1 (key) and 3 (value).
pub(crate) fn of_task_value(n: u32) -> Vec<u8> {
    let names = b"\0int\0long\0";
    let int = |name: u32, size: u32| [name, 1 << 24, size, size * 8];
    let types: Vec<u32> = [&int(1, 4)[..], &int(5, 8), &[0, 3 << 24, 0, 2, 1, n]].concat();
    let types_len = types.len() as u32 * 4;
    let header = [u32::from(MAGIC) | 1 << 16, 24, 0, types_len, types_len, names.len() as u32];
    let mut bytes: Vec<u8> = header.iter().chain(&types).flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(names);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `struct outer { u32 a; struct { u32 b; u32 c; }; }`
    fn nested() -> Vec<u8> {
        let names = b"\0outer\0a\0b\0c\0";
        let types: [u32; 4 + 9 + 9] = [
            0,
            1 << 24,
            4,
            32, // 1: a number
            0,
            4 << 24 | 2,
            8,
            9,
            1,
            0,
            11,
            1,
            32, // 2: the inner structure: b, c
            1,
            4 << 24 | 2,
            12,
            7,
            1,
            0,
            0,
            2,
            32, // 3: the outer: a, inner
        ];
        let len = types.len() as u32 * 4;
        let header = [u32::from(MAGIC) | 1 << 16, 24, 0, len, len, names.len() as u32];
        let mut bytes: Vec<u8> = header.iter().chain(&types).flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(names);
        bytes
    }

    #[test]
    fn a_field_of_a_nameless_structure_is_found_in_the_one_around_it() {
        let btf = Btf::parse(nested()).unwrap();
        assert_eq!(btf.offset("outer", "a"), Some(0));
        assert_eq!(btf.offset("outer", "c"), Some(8));
        assert_eq!(btf.offset("outer", "d"), None);
        assert_eq!(btf.find(Kind::Struct, "inner"), None);
    }

    #[test]
    fn our_own_description_can_be_read() {
        let btf = Btf::parse(of_task_value(6)).unwrap();
        assert_eq!(btf.types.len(), 4);
        assert_eq!(btf.word(3, 5), Some(6));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_description_or_a_fault(
            changes in prop::collection::vec((0usize..150, any::<u8>()), 0..8),
            cut in 0usize..150,
        ) {
            let mut bytes = nested();
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes.truncate(cut);
            if let Ok(btf) = Btf::parse(bytes) {
                let _ = btf.offset("outer", "c");
                let _ = btf.arguments("outer");
            }
        }
    }
}
