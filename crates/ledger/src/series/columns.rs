//! Names of the columns of rows.

use std::collections::BTreeMap;

use iotide_wire::take_varint;

use super::put_varint;
use super::rows::{ColumnKind, MAX_COLUMNS, SeriesFault};
use crate::identity::Name;

/// The longest text that says whose columns these are.
pub const MAX_OWNER: usize = 512;
const VERSION: u8 = 1;

/// Whose the columns are, and what each is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    owner: String,
    columns: BTreeMap<u32, (Name, ColumnKind)>,
    ids: BTreeMap<Name, u32>,
    /// The lowest number that no column has, nor had.
    next: u32,
}

impl Columns {
    /// Returns no columns. What is too long of the owner is cut.
    pub fn new(owner: &str) -> Self {
        Self { owner: iotide_wire::cut_text(owner, MAX_OWNER).to_owned(), ..Self::default() }
    }

    /// Whose they are: a job's, or a machine's.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The column of a name, made if there is none. `None` if there are too many, or it is of another kind.
    pub fn id_of(&mut self, name: &str, kind: ColumnKind) -> Option<u32> {
        if let Some((id, known)) = self.find(name) {
            return (known == kind).then_some(id);
        }
        if self.columns.len() >= MAX_COLUMNS || self.next == u32::MAX {
            return None;
        }
        let (id, name) = (self.next, Name::new(name)?);
        self.insert(id, name, kind);
        Some(id)
    }

    /// The column of a name.
    pub fn find(&self, name: &str) -> Option<(u32, ColumnKind)> {
        let id = self.ids.get(name)?;
        self.columns.get(id).map(|(_, kind)| (*id, *kind))
    }

    /// All columns.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Name, ColumnKind)> {
        self.columns.iter().map(|(id, (name, kind))| (*id, name, *kind))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// A column of this number had values, whatever it was called: no other gets it.
    pub fn reserve(&mut self, id: u32) {
        self.next = self.next.max(id.saturating_add(1));
    }

    /// Takes over what was said earlier. One that contradicts what is known is left out: whoever says so is wrong.
    pub fn learn(&mut self, said: &Columns) {
        for (id, name, kind) in said.iter() {
            let is_free = !self.columns.contains_key(&id) && !self.ids.contains_key(name);
            if is_free && self.columns.len() < MAX_COLUMNS {
                self.insert(id, name.clone(), kind);
            }
            self.reserve(id);
        }
    }

    fn insert(&mut self, id: u32, name: Name, kind: ColumnKind) {
        self.ids.insert(name.clone(), id);
        self.columns.insert(id, (name, kind));
        self.reserve(id);
    }

    /// Returns them as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_text(&mut out, &self.owner);
        put_varint(&mut out, self.columns.len() as u64);
        for (id, name, kind) in self.iter() {
            put_varint(&mut out, u64::from(id) << 1 | u64::from(kind == ColumnKind::Gauge));
            put_text(&mut out, name.as_str());
        }
        out
    }

    /// Reads them.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, SeriesFault> {
        let bytes = &mut bytes;
        let (&version, rest) = bytes.split_first().ok_or(SeriesFault::Length)?;
        *bytes = rest;
        if version != VERSION {
            return Err(SeriesFault::Version(version));
        }
        let owner = take_text(bytes, MAX_OWNER).ok_or(SeriesFault::Length)?;
        let mut columns = Self::new(owner);
        let n = take_varint(bytes).ok_or(SeriesFault::Length)?;
        if n > MAX_COLUMNS as u64 {
            return Err(SeriesFault::TooMany { what: "columns", claimed: n, most: MAX_COLUMNS as u64 });
        }
        for _ in 0..n {
            let said = take_varint(bytes).ok_or(SeriesFault::Length)?;
            let id = u32::try_from(said >> 1).map_err(|_| SeriesFault::Order)?;
            let kind = if said & 1 == 1 { ColumnKind::Gauge } else { ColumnKind::Counter };
            let name = take_text(bytes, Name::MAX_BYTES).and_then(Name::new).ok_or(SeriesFault::Length)?;
            if columns.columns.contains_key(&id) || columns.ids.contains_key(&name) {
                return Err(SeriesFault::Order);
            }
            columns.insert(id, name, kind);
        }
        if bytes.is_empty() { Ok(columns) } else { Err(SeriesFault::Length) }
    }
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

pub(super) fn take_text<'a>(bytes: &mut &'a [u8], most: usize) -> Option<&'a str> {
    let length =
        take_varint(bytes).and_then(|length| usize::try_from(length).ok()).filter(|it| *it <= most)?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_survive_a_round_trip(owner in ".{0,80}", names in prop::collection::vec((".{0,30}", any::<bool>()), 0..50)) {
            let mut columns = Columns::new(&owner);
            for (name, is_gauge) in &names {
                columns.id_of(name, if *is_gauge { ColumnKind::Gauge } else { ColumnKind::Counter });
            }
            let bytes = columns.encode();
            prop_assert_eq!(Columns::decode(&bytes), Ok(columns));
            for end in 0..bytes.len() {
                prop_assert!(Columns::decode(&bytes[..end]).is_err());
            }
        }

        #[test]
        fn any_bytes_come_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Columns::decode(&[&[VERSION], &bytes[..]].concat());
        }
    }

    #[test]
    fn a_number_means_one_name_for_ever() {
        let mut columns = Columns::new("job");
        assert_eq!(columns.id_of("read_bytes", ColumnKind::Counter), Some(0));
        assert_eq!(columns.id_of("read_bytes", ColumnKind::Gauge), None);
        // Values of a column whose name was lost.
        columns.reserve(7);
        assert_eq!(columns.id_of("load", ColumnKind::Gauge), Some(8));
        let mut other = Columns::new("job");
        assert_eq!(other.id_of("write_bytes", ColumnKind::Counter), Some(0));
        columns.learn(&other);
        assert_eq!(columns.find("read_bytes"), Some((0, ColumnKind::Counter)));
        assert_eq!(columns.find("write_bytes"), None, "the number is another's");
        assert_eq!(columns.id_of(&"x".repeat(129), ColumnKind::Counter), None);
        for n in 0..2000 {
            columns.id_of(&format!("m{n}"), ColumnKind::Counter);
        }
        assert_eq!(columns.len(), MAX_COLUMNS);
    }
}
