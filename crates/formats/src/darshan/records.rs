//! Counter records: what a module knows of one file, on one rank or on all of them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::bytes::{Cursor, Endian, text};
use super::counters::{self, Layout};
use super::packed::{Carry, PackedRegion, Records, Take};
use super::streams::Feed;

/// The counters of a module, one row per record, as stored.
///
/// A counter that the module's version does not have has no column: absent is not zero. A few rows are kept; where there are
/// many, they are unpacked again whenever they are wanted, so that the table of any log fits into memory.
#[derive(Clone, Debug, Default)]
pub struct CounterTable {
    int_names: Vec<Cow<'static, str>>,
    float_names: Vec<Cow<'static, str>>,
    ids: Vec<u64>,
    ranks: Vec<i64>,
    /// Row by row, `int_names.len()` each.
    ints: Vec<i64>,
    /// Row by row, `float_names.len()` each.
    floats: Vec<f64>,
    /// Where the rows are if they are too many to keep.
    packed: Option<Box<PackedRows>>,
}

/// Rows that stay in the log.
#[derive(Clone, Debug)]
struct PackedRows {
    region: PackedRegion,
    shape: RowShape,
    sums: RowSums,
}

/// Fields around the counters of a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowShape {
    Layout(&'static Layout),
    /// Ends in a count per server.
    Mdhim(&'static Layout),
    /// Ends in the name of a node; a record of another kind may stand before the first.
    Apmpi,
}

impl RowShape {
    fn take(self, table: &mut CounterTable, cursor: &mut Cursor) -> Option<()> {
        match self {
            RowShape::Layout(layout) => table.take(cursor, layout.head, layout.tail),
            RowShape::Mdhim(layout) => table.take_mdhim(cursor, layout),
            RowShape::Apmpi => {
                let _ = apmpi_header(cursor);
                table.take(cursor, 0, APMPI_NODE_LEN)
            }
        }
    }
}

/// The counters of a table, added up.
#[derive(Clone, Debug, Default, PartialEq)]
struct RowSums {
    len: usize,
    ints: Vec<i128>,
    floats: Vec<f64>,
}

impl RowSums {
    /// Adds the rows of a table that are kept.
    fn add(&mut self, table: &CounterTable) {
        self.len += table.ids.len();
        self.ints.resize(table.int_names.len(), 0);
        self.floats.resize(table.float_names.len(), 0.0);
        for row in table.ints.chunks_exact(table.int_names.len().max(1)) {
            self.ints.iter_mut().zip(row).for_each(|(sum, value)| *sum += i128::from(*value));
        }
        for row in table.floats.chunks_exact(table.float_names.len().max(1)) {
            self.floats.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
    }
}

/// Adds up the rows of a region that is too large to keep.
#[derive(Clone, Debug)]
pub(super) struct SumRows {
    table: CounterTable,
    shape: RowShape,
    endian: Endian,
    sums: RowSums,
    carry: Carry,
}

impl SumRows {
    pub(super) fn new(table: CounterTable, shape: RowShape, endian: Endian) -> Self {
        let mut sums = RowSums::default();
        sums.add(&table);
        Self { table, shape, endian, sums, carry: Carry::default() }
    }

    /// The table, whose rows stay in the log, and how many bytes at the end were no whole record.
    pub(super) fn finish(self, region: PackedRegion) -> (CounterTable, u64) {
        let Self { mut table, shape, sums, carry, .. } = self;
        table.packed = Some(Box::new(PackedRows { region, shape, sums }));
        (table, carry.left())
    }
}

impl Feed for SumRows {
    fn feed(&mut self, piece: &[u8]) {
        let Self { table, shape, endian, sums, carry } = self;
        let _ = carry.feed(piece, *endian, |cursor| {
            shape.take(table, cursor)?;
            Some(ControlFlow::Continue(()))
        });
        sums.add(table);
        table.clear();
    }
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
        self.packed.as_ref().map_or(self.ids.len(), |packed| packed.sums.len)
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` with one record after the other, in the order of the log, until it breaks.
    pub fn for_each<B>(&self, mut each: impl FnMut(Record<'_>) -> ControlFlow<B>) -> ControlFlow<B> {
        let Some(PackedRows { region, shape, .. }) = self.packed.as_deref() else {
            let rows = self.ids.iter().zip(&self.ranks).enumerate();
            return rows.map(|(row, (&id, &rank))| Record { id, rank, table: self, row }).try_for_each(each);
        };
        let mut table = Self {
            int_names: self.int_names.clone(),
            float_names: self.float_names.clone(),
            ..Self::default()
        };
        region.for_each(|cursor| {
            table.clear();
            shape.take(&mut table, cursor)?;
            Some(each(Record { id: table.ids[0], rank: table.ranks[0], table: &table, row: 0 }))
        })
    }

    /// Forgets the rows that are kept.
    fn clear(&mut self) {
        self.ids.clear();
        self.ranks.clear();
        self.ints.clear();
        self.floats.clear();
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
        let mut kept = RowSums::default();
        let RowSums { ints, floats, .. } = match &self.packed {
            Some(packed) => &packed.sums,
            None => {
                kept.add(self);
                &kept
            }
        };
        let held = |sum: i128| Value::Int(sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64);
        let ints = self.int_names.iter().zip(ints).map(|(name, sum)| (&**name, held(*sum)));
        let floats = self.float_names.iter().zip(floats).map(|(name, sum)| (&**name, Value::Float(*sum)));
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
    pub(super) fn take(&mut self, cursor: &mut Cursor, head: usize, tail: usize) -> Option<()> {
        let endian = cursor.endian();
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

/// Reads the records of a module of counters; returns how many bytes at the end were no whole one as well.
pub(super) fn parse_counters(
    bytes: &[u8],
    endian: Endian,
    layout: &'static Layout,
    shape: RowShape,
) -> (CounterTable, u64) {
    let mut table = CounterTable::of_layout(layout);
    let n_records = bytes.len() / layout.record_len();
    table.ints.reserve_exact(n_records * layout.ints.len());
    table.floats.reserve_exact(n_records * layout.floats.len());
    let mut cursor = Cursor::new(bytes, endian);
    while shape.take(&mut table, &mut cursor).is_some() {}
    (table, cursor.rest().len() as u64)
}

impl CounterTable {
    /// A table without rows.
    pub(super) fn of_layout(layout: &'static Layout) -> Self {
        Self::new(layout.ints.iter().copied(), layout.floats.iter().copied())
    }

    /// Takes a record of the MDHIM module, which ends in a count per server.
    fn take_mdhim(&mut self, cursor: &mut Cursor, layout: &Layout) -> Option<()> {
        let servers_at = 16 + 8 * self.int_column("MDHIM_SERVERS").unwrap_or(0);
        let n_servers = cursor.rest().get(servers_at..servers_at + 8).and_then(|bytes| bytes.first_chunk());
        // Room for one server is always there.
        let n_servers = n_servers.map_or(1, |bytes| cursor.endian().i64(*bytes).max(1));
        let tail = usize::try_from(n_servers).ok()?.checked_mul(8)?;
        self.take(cursor, layout.head, tail)
    }
}

/// Data of the APMPI module on the job's MPI calls.
#[derive(Clone, Debug, Default)]
pub struct Apmpi {
    /// The record that stands before those of the ranks.
    pub header: Option<ApmpiHeader>,
    /// One record per rank.
    pub ranks: CounterTable,
    /// The node each of them ran on; empty if the ranks are too many to keep.
    pub nodes: Vec<String>,
}

/// Of the name of a node.
const APMPI_NODE_LEN: usize = 128;

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

    /// The table of the module, without rows.
    pub(super) fn table() -> CounterTable {
        let (ints, floats) = counters::apmpi_names();
        CounterTable::new(ints, floats)
    }

    pub(super) fn parse(bytes: &[u8], endian: Endian) -> (Self, u64) {
        let mut apmpi = Apmpi { ranks: Self::table(), ..Apmpi::default() };
        let mut cursor = Cursor::new(bytes, endian);
        apmpi.header = apmpi_header(&mut cursor);
        loop {
            let before = cursor;
            if apmpi.ranks.take(&mut cursor, 0, APMPI_NODE_LEN).is_none() {
                return (apmpi, cursor.rest().len() as u64);
            }
            let taken = &before.rest()[..before.rest().len() - cursor.rest().len()];
            apmpi.nodes.push(text(&taken[taken.len() - APMPI_NODE_LEN..]));
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
pub fn lustre_totals(records: &Records<LustreRecord>) -> LustreTotals {
    let mut osts = BTreeSet::new();
    let mut totals = LustreTotals::default();
    let _: ControlFlow<()> = records.for_each(|record| {
        osts.extend(record.osts.iter().copied());
        totals.components += record.components.len() as u64;
        totals.stripes += record.osts.len() as u64;
        ControlFlow::Continue(())
    });
    LustreTotals { unique_osts: osts.len() as u64, ..totals }
}

/// Takes a record of the LUSTRE module, version 1 or 2.
pub(super) fn take_lustre(version: u32) -> Take<LustreRecord> {
    if version == 1 { lustre_v1 } else { lustre_v2 }
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
