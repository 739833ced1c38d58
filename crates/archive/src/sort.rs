//! Sorting more than memory holds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use iotide_private::nameless_in;

/// Takes records in any order and gives them back sorted by their bytes.
///
/// Bytes beyond [`Sorter::IN_MEMORY`] go to files without a name in `folder`: nothing is left of them when the process
/// ends, however it ends. Few records never touch the disk.
pub(crate) struct Sorter {
    folder: PathBuf,
    /// The bytes of all records, one after the other.
    bytes: Vec<u8>,
    /// Where each begins and ends.
    places: Vec<(u32, u32)>,
    spilled: Vec<File>,
}

impl Sorter {
    /// How many bytes of records wait in memory to be sorted.
    pub(crate) const IN_MEMORY: usize = 2 << 20;
    /// How many files are merged at once; each has a buffer and a descriptor.
    const FAN_IN: usize = 128;
    /// The longest record; far longer than a line of results.
    const LONGEST: usize = 1 << 30;

    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), bytes: Vec::new(), places: Vec::new(), spilled: Vec::new() }
    }

    pub(crate) fn push(&mut self, record: &[u8]) -> io::Result<()> {
        if record.len() > Self::LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a record of more than 1 GiB"));
        }
        if !self.places.is_empty() && self.bytes.len() + record.len() > Self::IN_MEMORY {
            self.spill()?;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record);
        self.places.push((start as u32, self.bytes.len() as u32));
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<Sorted> {
        self.sort();
        let mut sources: Vec<Source> = Vec::new();
        for file in std::mem::take(&mut self.spilled) {
            sources.push(Source::of_file(file)?);
        }
        sources.push(Source::Memory { bytes: self.bytes, places: self.places.into_iter() });
        Sorted::of(sources)
    }

    fn sort(&mut self) {
        let Self { bytes, places, .. } = self;
        let record = |&(start, end): &(u32, u32)| &bytes[start as usize..end as usize];
        places.sort_unstable_by(|a, b| record(a).cmp(record(b)));
    }

    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let mut out = BufWriter::new(nameless_in(&self.folder)?);
        for &(start, end) in &self.places {
            write_record(&mut out, &self.bytes[start as usize..end as usize])?;
        }
        self.spilled.push(rewound(out)?);
        self.bytes.clear();
        self.places.clear();
        if self.spilled.len() == Self::FAN_IN {
            let sources: io::Result<Vec<Source>> =
                std::mem::take(&mut self.spilled).into_iter().map(Source::of_file).collect();
            let mut merged = Sorted::of(sources?)?;
            let mut out = BufWriter::new(nameless_in(&self.folder)?);
            while let Some(record) = merged.next_record()? {
                write_record(&mut out, &record)?;
            }
            self.spilled.push(rewound(out)?);
        }
        Ok(())
    }
}

/// Sorted records, one at a time.
pub(crate) struct Sorted {
    sources: Vec<Source>,
    /// The next record of each source that has one.
    heads: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
}

impl Sorted {
    fn of(mut sources: Vec<Source>) -> io::Result<Self> {
        let mut heads = BinaryHeap::new();
        for (i, source) in sources.iter_mut().enumerate() {
            let mut record = Vec::new();
            if source.read(&mut record)? {
                heads.push(Reverse((record, i)));
            }
        }
        Ok(Self { sources, heads })
    }

    /// Returns the next record; `None` at the end.
    pub(crate) fn next_record(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        let Reverse((record, i)) = &mut *head;
        let mut next = Vec::new();
        if self.sources[*i].read(&mut next)? {
            return Ok(Some(std::mem::replace(record, next)));
        }
        let Reverse((record, _)) = PeekMut::pop(head);
        Ok(Some(record))
    }
}

impl Iterator for Sorted {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

enum Source {
    Memory { bytes: Vec<u8>, places: std::vec::IntoIter<(u32, u32)> },
    File(BufReader<File>),
}

impl Source {
    fn of_file(file: File) -> io::Result<Self> {
        Ok(Source::File(BufReader::with_capacity(16 << 10, file)))
    }

    /// Reads the next record; `false` at the end.
    fn read(&mut self, record: &mut Vec<u8>) -> io::Result<bool> {
        match self {
            Source::Memory { bytes, places } => {
                let Some((start, end)) = places.next() else { return Ok(false) };
                record.extend_from_slice(&bytes[start as usize..end as usize]);
                Ok(true)
            }
            Source::File(file) => {
                let mut length = [0; 4];
                match file.read_exact(&mut length) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                    read => read?,
                }
                record.resize(u32::from_le_bytes(length) as usize, 0);
                file.read_exact(record)?;
                Ok(true)
            }
        }
    }
}

fn write_record(out: &mut impl Write, record: &[u8]) -> io::Result<()> {
    out.write_all(&(record.len() as u32).to_le_bytes())?;
    out.write_all(record)
}

fn rewound(out: BufWriter<File>) -> io::Result<File> {
    let mut file = out.into_inner().map_err(|error| error.into_error())?;
    file.rewind()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use proptest::prelude::*;

    fn sorted(folder: &Path, records: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut sorter = Sorter::new(folder);
        for record in records {
            sorter.push(record).unwrap();
        }
        sorter.finish().unwrap().map(Result::unwrap).collect()
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out_in_order(records in prop::collection::vec(prop::collection::vec(0u8..4, 0..6), 0..60)) {
            let dir = FreshDir::new("sort");
            let mut expected = records.clone();
            expected.sort();
            prop_assert_eq!(sorted(dir.path(), &records), expected);
        }
    }

    #[test]
    fn more_than_memory_holds_is_sorted_too_and_leaves_nothing() {
        let dir = FreshDir::new("sort-large");
        // More spills than are merged at once, so that merging in two steps is seen, too.
        let n_records = 4 * (Sorter::FAN_IN as u32 + 2);
        let mut sorter = Sorter::new(dir.path());
        for i in 0..n_records {
            let mut record = i.wrapping_mul(2_654_435_761).to_be_bytes().to_vec();
            record.resize(Sorter::IN_MEMORY / 4, 7);
            sorter.push(&record).unwrap();
        }
        assert_eq!(dir.names(), Vec::<String>::new(), "what is spilled has no name");
        let (mut n, mut last) = (0, Vec::new());
        for record in sorter.finish().unwrap() {
            let record = record.unwrap();
            assert!(record > last);
            last = record;
            n += 1;
        }
        assert_eq!(n, n_records);
    }

    #[test]
    fn without_records_there_are_none() {
        assert!(Sorter::new(Path::new("/nowhere")).finish().unwrap().next().is_none());
    }
}
