//! Counter records: what a module knows of one file, on one rank or on all of them.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::bytes::{Cursor, Endian, text};
use super::counters::{self, Layout};

/// The counters of a module, one row per record, as stored.
///
/// A counter that the module's version does not have has no column: absent is not zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterTable {
    int_names: Vec<Cow<'static, str>>,
    float_names: Vec<Cow<'static, str>>,
    ids: Vec<u64>,
    ranks: Vec<i64>,
    /// Row by row, `int_names.len()` each.
    ints: Vec<i64>,
    /// Row by row, `float_names.len()` each.
    floats: Vec<f64>,
}

/// A counter's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A count, a size, a rank.
    Int(i64),
    /// Seconds, or a variance.
    Float(f64),
}

impl Value {
    /// The value as a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Int(value) => value as f64,
            Value::Float(value) => value,
        }
    }
}

/// One row of a [`CounterTable`].
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Names the file, by [`super::Names`].
    pub id: u64,
    /// Who saw it; -1 if all ranks did and their counters were put together.
    pub rank: i64,
    table: &'a CounterTable,
    row: usize,
}

impl<'a> Record<'a> {
    /// All counters, in the order they are stored.
    pub fn counters(self) -> impl Iterator<Item = (&'a str, Value)> {
        let ints = self.table.int_names.iter().zip(self.ints());
        let floats = self.table.float_names.iter().zip(self.floats());
        ints.map(|(name, value)| (&**name, Value::Int(*value)))
            .chain(floats.map(|(name, value)| (&**name, Value::Float(*value))))
    }

    /// The integer in a column found with [`CounterTable::int_column`].
    pub fn int(self, column: usize) -> Option<i64> {
        self.ints().get(column).copied()
    }

    /// The float in a column found with [`CounterTable::float_column`].
    pub fn float(self, column: usize) -> Option<f64> {
        self.floats().get(column).copied()
    }

    fn ints(self) -> &'a [i64] {
        let n = self.table.int_names.len();
        &self.table.ints[self.row * n..][..n]
    }

    fn floats(self) -> &'a [f64] {
        let n = self.table.float_names.len();
        &self.table.floats[self.row * n..][..n]
    }
}

impl CounterTable {
    pub(super) fn new(
        int_names: impl IntoIterator<Item = impl Into<Cow<'static, str>>>,
        float_names: impl IntoIterator<Item = impl Into<Cow<'static, str>>>,
    ) -> Self {
        Self {
            int_names: int_names.into_iter().map(Into::into).collect(),
            float_names: float_names.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The records, in the order of the log.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let rows = self.ids.iter().zip(&self.ranks).enumerate();
        rows.map(|(row, (&id, &rank))| Record { id, rank, table: self, row })
    }

    /// Where an integer counter of that name stands.
    pub fn int_column(&self, name: &str) -> Option<usize> {
        self.int_names.iter().position(|known| known == name)
    }

    /// Where a float counter of that name stands.
    pub fn float_column(&self, name: &str) -> Option<usize> {
        self.float_names.iter().position(|known| known == name)
    }

    pub(super) fn int_name(&self, column: usize) -> Option<&str> {
        self.int_names.get(column).map(|name| &**name)
    }

    pub(super) fn float_name(&self, column: usize) -> Option<&str> {
        self.float_names.get(column).map(|name| &**name)
    }

    /// Each counter summed over the records as they are stored, under its own name.
    ///
    /// For most counters that is the total of the job. For others (a mode, a rank, a time stamp) it means nothing, and
    /// serves only to compare readers. Sums that do not fit are held at the largest integer.
    pub fn totals(&self) -> Vec<(&str, Value)> {
        let mut ints = vec![0_i128; self.int_names.len()];
        for row in self.ints.chunks_exact(self.int_names.len().max(1)) {
            ints.iter_mut().zip(row).for_each(|(sum, value)| *sum += i128::from(*value));
        }
        let mut floats = vec![0.0; self.float_names.len()];
        for row in self.floats.chunks_exact(self.float_names.len().max(1)) {
            floats.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
        let held = |sum: i128| Value::Int(sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64);
        let ints = self.int_names.iter().zip(ints).map(|(name, sum)| (&**name, held(sum)));
        let floats = self.float_names.iter().zip(floats).map(|(name, sum)| (&**name, Value::Float(sum)));
        ints.chain(floats).collect()
    }

    /// Adds a row. The values must be as many as the names; a row of any other length is not added.
    pub(super) fn push(&mut self, id: u64, rank: i64, ints: &[i64], floats: &[f64]) {
        if ints.len() == self.int_names.len() && floats.len() == self.float_names.len() {
            self.ids.push(id);
            self.ranks.push(rank);
            self.ints.extend_from_slice(ints);
            self.floats.extend_from_slice(floats);
        }
    }

    /// Corrects the rank of a row.
    pub(super) fn set_rank(&mut self, row: usize, rank: i64) {
        if let Some(known) = self.ranks.get_mut(row) {
            *known = rank;
        }
    }

    /// Takes one record: id, rank, `head` bytes, integers, floats. Takes nothing if it is not all there.
    pub(super) fn take(
        &mut self,
        cursor: &mut Cursor,
        endian: Endian,
        head: usize,
        tail: usize,
    ) -> Option<()> {
        let mut ahead = *cursor;
        let id = ahead.u64()?;
        let rank = ahead.i64()?;
        ahead.take(head)?;
        let ints = ahead.take(8 * self.int_names.len())?;
        let floats = ahead.take(8 * self.float_names.len())?;
        ahead.take(tail)?;
        self.ids.push(id);
        self.ranks.push(rank);
        self.ints.extend(ints.as_chunks().0.iter().map(|bytes| endian.i64(*bytes)));
        self.floats.extend(floats.as_chunks().0.iter().map(|bytes| endian.f64(*bytes)));
        *cursor = ahead;
        Some(())
    }
}

/// Reads the records of a module whose records all have one size; returns how many bytes at the end were no whole one.
pub(super) fn parse_counters(bytes: &[u8], endian: Endian, layout: &'static Layout) -> (CounterTable, usize) {
    let mut table = CounterTable::new(layout.ints.iter().copied(), layout.floats.iter().copied());
    let n_records = bytes.len() / layout.record_len();
    table.ints.reserve_exact(n_records * layout.ints.len());
    table.floats.reserve_exact(n_records * layout.floats.len());
    let mut cursor = Cursor::new(bytes, endian);
    while table.take(&mut cursor, endian, layout.head, layout.tail).is_some() {}
    (table, cursor.rest().len())
}

/// Reads the records of the MDHIM module, which end in a count per server.
pub(super) fn parse_mdhim(bytes: &[u8], endian: Endian, layout: &'static Layout) -> (CounterTable, usize) {
    let mut table = CounterTable::new(layout.ints.iter().copied(), layout.floats.iter().copied());
    let servers_column = table.int_column("MDHIM_SERVERS").unwrap_or(0);
    let mut cursor = Cursor::new(bytes, endian);
    loop {
        let servers_at = 16 + 8 * servers_column;
        let n_servers = cursor.rest().get(servers_at..servers_at + 8).and_then(|bytes| bytes.first_chunk());
        // Room for one server is always there.
        let n_servers = n_servers.map_or(1, |bytes| endian.i64(*bytes).max(1));
        let tail = usize::try_from(n_servers).ok().and_then(|n| n.checked_mul(8));
        let taken = tail.and_then(|tail| table.take(&mut cursor, endian, layout.head, tail));
        if taken.is_none() {
            return (table, cursor.rest().len());
        }
    }
}

/// What the APMPI module knows of the job's MPI calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Apmpi {
    /// The record that stands before those of the ranks.
    pub header: Option<ApmpiHeader>,
    /// One record per rank.
    pub ranks: CounterTable,
    /// The node each of them ran on.
    pub nodes: Vec<String>,
}

/// Facts of all ranks together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ApmpiHeader {
    /// Whether waiting in collective calls was measured apart.
    pub synchronised: bool,
    /// How the ranks' total time in MPI calls varies.
    pub variance_total_time: f64,
    /// How the ranks' total time of waiting in MPI calls varies.
    pub variance_total_sync_time: f64,
}

impl Apmpi {
    /// How many records there are, the header included.
    pub fn n_records(&self) -> usize {
        self.ranks.len() + usize::from(self.header.is_some())
    }

    pub(super) fn parse(bytes: &[u8], endian: Endian) -> (Self, usize) {
        /// Of the name of a node.
        const NODE_LEN: usize = 128;
        let (ints, floats) = counters::apmpi_names();
        let mut apmpi = Apmpi { ranks: CounterTable::new(ints, floats), ..Apmpi::default() };
        let mut cursor = Cursor::new(bytes, endian);
        if let Some(header) = apmpi_header(&mut cursor) {
            apmpi.header = Some(header);
        }
        loop {
            let before = cursor;
            if apmpi.ranks.take(&mut cursor, endian, 0, NODE_LEN).is_none() {
                return (apmpi, cursor.rest().len());
            }
            let taken = &before.rest()[..before.rest().len() - cursor.rest().len()];
            apmpi.nodes.push(text(&taken[taken.len() - NODE_LEN..]));
        }
    }
}

/// Takes the header if there is one: the record of rank 0 alone has this magic number in place of its first counter.
fn apmpi_header(cursor: &mut Cursor) -> Option<ApmpiHeader> {
    const MAGIC: i64 = i64::from_be_bytes(*b"\0\0\0APMPI");
    let mut ahead = *cursor;
    ahead.take(16)?;
    if ahead.i64()? != MAGIC {
        return None;
    }
    let synchronised = ahead.u32()? != 0;
    ahead.take(4)?;
    let header = ApmpiHeader {
        synchronised,
        variance_total_time: ahead.f64()?,
        variance_total_sync_time: ahead.f64()?,
    };
    *cursor = ahead;
    Some(header)
}

/// How a file is laid out on a Lustre file system.
#[derive(Clone, Debug, PartialEq)]
pub struct LustreRecord {
    /// Names the file.
    pub id: u64,
    /// Who opened it; -1 if all ranks did.
    pub rank: i64,
    /// The parts of the layout. Module version 1 knows one part only.
    pub components: Vec<LustreComponent>,
    /// The storage targets, those of the first component first.
    pub osts: Vec<i64>,
}

/// One part of a file's layout.
#[derive(Clone, Debug, PartialEq)]
pub struct LustreComponent {
    /// Counters by name, as stored.
    pub counters: Vec<(Cow<'static, str>, i64)>,
    /// The pool the targets are from.
    pub pool: Option<String>,
}

/// The sums of the LUSTRE module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LustreTotals {
    /// Parts of layouts.
    pub components: u64,
    /// Stripes of all files.
    pub stripes: u64,
    /// Different storage targets.
    pub unique_osts: u64,
}

/// Sums up the records of the LUSTRE module.
pub fn lustre_totals(records: &[LustreRecord]) -> LustreTotals {
    let osts: BTreeSet<i64> = records.iter().flat_map(|record| record.osts.iter().copied()).collect();
    LustreTotals {
        components: records.iter().map(|record| record.components.len() as u64).sum(),
        stripes: records.iter().map(|record| record.osts.len() as u64).sum(),
        unique_osts: osts.len() as u64,
    }
}

/// Reads the records of the LUSTRE module, version 1 or 2; returns how many bytes at the end were no whole record.
pub(super) fn parse_lustre(bytes: &[u8], endian: Endian, version: u32) -> (Vec<LustreRecord>, usize) {
    let mut records = Vec::new();
    let mut cursor = Cursor::new(bytes, endian);
    loop {
        let mut ahead = cursor;
        let record = if version == 1 { lustre_v1(&mut ahead) } else { lustre_v2(&mut ahead) };
        let Some(record) = record else { return (records, cursor.rest().len()) };
        records.push(record);
        cursor = ahead;
    }
}

fn lustre_v1(cursor: &mut Cursor) -> Option<LustreRecord> {
    const NAMES: [&str; 5] =
        ["LUSTRE_OSTS", "LUSTRE_MDTS", "LUSTRE_STRIPE_OFFSET", "LUSTRE_STRIPE_SIZE", "LUSTRE_STRIPE_WIDTH"];
    let id = cursor.u64()?;
    let rank = cursor.i64()?;
    let values = cursor.i64s(NAMES.len())?;
    let n_osts = usize::try_from(*values.last()?).ok()?;
    let osts = cursor.i64s(n_osts)?;
    let component =
        LustreComponent { counters: NAMES.into_iter().map(Cow::Borrowed).zip(values).collect(), pool: None };
    Some(LustreRecord { id, rank, components: vec![component], osts })
}

fn lustre_v2(cursor: &mut Cursor) -> Option<LustreRecord> {
    const NAMES: [&str; 7] = [
        "LUSTRE_COMP_STRIPE_SIZE",
        "LUSTRE_COMP_STRIPE_COUNT",
        "LUSTRE_COMP_STRIPE_PATTERN",
        "LUSTRE_COMP_FLAGS",
        "LUSTRE_COMP_EXT_START",
        "LUSTRE_COMP_EXT_END",
        "LUSTRE_COMP_MIRROR_ID",
    ];
    const POOL_LEN: usize = 16;
    let id = cursor.u64()?;
    let rank = cursor.i64()?;
    let n_components = usize::try_from(cursor.i64()?).ok()?;
    let n_stripes = usize::try_from(cursor.i64()?).ok()?;
    // Checked before anything is allocated: what is claimed must be there.
    let needed =
        n_components.checked_mul(8 * NAMES.len() + POOL_LEN)?.checked_add(n_stripes.checked_mul(8)?)?;
    if needed > cursor.rest().len() {
        return None;
    }
    let mut components = Vec::with_capacity(n_components);
    for _ in 0..n_components {
        let values = cursor.i64s(NAMES.len())?;
        let pool = text(cursor.take(POOL_LEN)?);
        let counters = NAMES.into_iter().map(Cow::Borrowed).zip(values).collect();
        components.push(LustreComponent { counters, pool: (!pool.is_empty()).then_some(pool) });
    }
    let osts = cursor.i64s(n_stripes)?;
    Some(LustreRecord { id, rank, components, osts })
}
