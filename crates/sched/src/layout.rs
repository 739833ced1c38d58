//! How a file system lays files out over its storage targets, as its own tool says.

/// Where the stripes of a file lie, or of files that will be made in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How much of a file lies at one target before the next.
    pub stripe_bytes: u64,
    /// Over how many targets; `None` is over all.
    pub n_stripes: Option<usize>,
    /// The targets of a file, in order; empty for a directory.
    pub targets: Vec<u32>,
    /// The target that files of a directory begin at; `None` if the file system chooses one for each.
    pub first: Option<u32>,
}

/// Why an answer of a tool says no layout that a map can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Parts of the file have stripes of their own.
    #[error("a composite layout, with other stripes further on in the file")]
    Composite,
    /// Stripes are at groups of targets.
    #[error("the stripes are mirrored ({0})")]
    Mirrored(String),
    /// Something is missing.
    #[error("it does not say {0}")]
    Missing(&'static str),
    /// Something makes no sense.
    #[error("{0} is no {1}")]
    NoSuch(String, &'static str),
}

/// No file is laid out over more targets.
const MOST_TARGETS: usize = 4096;

impl Layout {
    /// Reads what `lfs getstripe -y` says of a file or, with `-d`, of a directory: in lines, or all in one.
    pub fn of_lustre(text: &str) -> Result<Self, LayoutError> {
        let mut words = text.split_ascii_whitespace();
        let (mut count, mut size, mut offset, mut targets) = (None, None, None, Vec::new());
        while let Some(word) = words.next() {
            let mut number = |what| {
                let value = words.next().unwrap_or_default().trim_end_matches(',');
                value.parse::<i64>().map_err(|_| LayoutError::NoSuch(value.to_owned(), what))
            };
            match word.strip_prefix("lmm_").unwrap_or(word) {
                "lcm_entry_count:" if number("number of components")? > 1 => {
                    return Err(LayoutError::Composite);
                }
                "stripe_count:" => count = Some(number("number of stripes")?),
                "stripe_size:" => size = Some(number("size of a stripe")?),
                "stripe_offset:" => offset = Some(number("target")?),
                "l_ost_idx:" if targets.len() < MOST_TARGETS => {
                    let target = number("target")?;
                    let number = u32::try_from(target);
                    targets.push(number.map_err(|_| LayoutError::NoSuch(target.to_string(), "target"))?);
                }
                _ => {}
            }
        }
        let size = size.ok_or(LayoutError::Missing("how large stripes are"))?;
        let count = count.ok_or(LayoutError::Missing("over how many targets"))?;
        Ok(Self {
            stripe_bytes: u64::try_from(size).map_err(|_| no_stripe(size))?,
            // All of them is −1 for a directory.
            n_stripes: usize::try_from(count).ok().filter(|count| (1..MOST_TARGETS).contains(count)),
            targets,
            first: offset.and_then(|offset| u32::try_from(offset).ok()),
        })
    }

    /// Reads what `beegfs-ctl --getentryinfo` says of a file or a directory.
    pub fn of_beegfs(text: &str) -> Result<Self, LayoutError> {
        let (mut size, mut count, mut targets) = (None, None, Vec::new());
        let mut lists_targets = false;
        for line in text.lines() {
            let line = line.trim();
            let Some(line) = line.strip_prefix('+').map(str::trim) else {
                lists_targets = false;
                continue;
            };
            match line.split_once(':').map(|(name, value)| (name.trim(), value.trim())) {
                Some(("Type", kind)) if kind != "RAID0" => {
                    return Err(LayoutError::Mirrored(kind.to_owned()));
                }
                Some(("Chunksize", value)) => size = Some(size_of(value).ok_or_else(|| no_stripe(value))?),
                Some(("Number of storage targets", value)) => {
                    let desired = value.split([':', ';']).nth(1).map(str::trim).unwrap_or_default();
                    let parsed = desired.parse::<usize>().ok().filter(|n| (1..=MOST_TARGETS).contains(n));
                    count = Some(
                        parsed.ok_or_else(|| LayoutError::NoSuch(desired.to_owned(), "number of stripes"))?,
                    );
                }
                Some(("Storage targets", _)) => lists_targets = true,
                _ if lists_targets && targets.len() < MOST_TARGETS => {
                    let word = line.split_ascii_whitespace().next().unwrap_or_default();
                    let target = word.parse().map_err(|_| LayoutError::NoSuch(word.to_owned(), "target"));
                    targets.push(target?);
                }
                _ => {}
            }
        }
        Ok(Self {
            stripe_bytes: size.ok_or(LayoutError::Missing("how large stripes are"))?,
            n_stripes: Some(count.ok_or(LayoutError::Missing("over how many targets"))?),
            targets,
            first: None,
        })
    }

    /// The places of the arbiters to ask, of those that are there by target, in the order of the stripes; the target that has none, if one is missing.
    pub fn among<'a, T>(&self, arbiters: &'a [(u32, T)]) -> Result<Vec<&'a T>, u32> {
        let of = |target: &u32| {
            let found = arbiters.iter().find(|(known, _)| known == target);
            found.map(|(_, arbiter)| arbiter).ok_or(*target)
        };
        if !self.targets.is_empty() {
            return self.targets.iter().map(of).collect();
        }
        let mut all: Vec<&(u32, T)> = arbiters.iter().collect();
        if let Some(first) = self.first {
            all.sort_by_key(|(target, _)| *target);
            let at = all.iter().position(|(target, _)| *target == first).ok_or(first)?;
            all.rotate_left(at);
            // Which targets follow is known only in order.
            all.truncate(self.n_stripes.unwrap_or(usize::MAX));
        }
        Ok(all.into_iter().map(|(_, arbiter)| arbiter).collect())
    }

    /// Whether it is known at which target a file begins.
    pub fn is_known(&self) -> bool {
        !self.targets.is_empty() || self.first.is_some()
    }
}

fn no_stripe(value: impl ToString) -> LayoutError {
    LayoutError::NoSuch(value.to_string(), "size of a stripe")
}

/// `512k`, `512K`, `1M`, `1048576`.
fn size_of(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return None,
    };
    digits.trim_end().parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_of_lustre_are_read_from_lines_and_from_one() {
        let file = "lmm_stripe_count:  2\nlmm_stripe_size:   1048576\nlmm_pattern:       raid0\nlmm_layout_gen:    0\n\
                    lmm_stripe_offset: 1\nlmm_objects:\n      - l_ost_idx: 1\n        l_fid:     0x100010000:0x2:0x0\n      \
                    - l_ost_idx: 0\n        l_fid:     0x100000000:0x3:0x0\n";
        let layout = Layout::of_lustre(file).unwrap();
        assert_eq!((layout.stripe_bytes, layout.targets), (1 << 20, vec![1, 0]));
        let layout = Layout::of_lustre(
            "stripe_count:  -1 stripe_size:   4194304 pattern:       raid0 stripe_offset: 3\n",
        )
        .unwrap();
        assert_eq!((layout.stripe_bytes, layout.n_stripes, layout.first), (4 << 20, None, Some(3)));
        let composite = "  lcm_layout_gen:    2\n  lcm_entry_count:   2\n    lcme_id: 1\n";
        assert_eq!(Layout::of_lustre(composite), Err(LayoutError::Composite));
        for wrong in
            ["", "stripe_count: 2", "stripe_count: x stripe_size: 1", "stripe_count: 1 stripe_size: -5"]
        {
            assert!(Layout::of_lustre(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn layouts_of_beegfs_are_read_of_files_and_of_directories() {
        let file = "Entry type: file\nEntryID: 0-5D285750-1\nMetadata node: n1 [ID: 1]\nStripe pattern details:\n+ Type: RAID0\n\
                    + Chunksize: 512K\n+ Number of storage targets: desired: 4; actual: 2\n+ Storage targets:\n  \
                    + 101 @ n1.local [ID: 1]\n  + 201 @ n2.local [ID: 2]\nChunk path: u0/0/r\n";
        let layout = Layout::of_beegfs(file).unwrap();
        assert_eq!((layout.stripe_bytes, &layout.targets), (512 << 10, &vec![101, 201]));
        let directory = "EntryID: root\nStripe pattern details:\n+ Type: RAID0\n+ Chunksize: 1M\n\
                         + Number of storage targets: desired: 4\n+ Storage Pool: 1 (Default)\n";
        let layout = Layout::of_beegfs(directory).unwrap();
        assert_eq!((layout.n_stripes, layout.targets.is_empty(), layout.is_known()), (Some(4), true, false));
        let mirrored = file.replace("RAID0", "Buddy Mirror");
        assert!(matches!(Layout::of_beegfs(&mirrored), Err(LayoutError::Mirrored(_))));
        assert!(Layout::of_beegfs("").is_err());
    }

    #[test]
    fn arbiters_stand_in_the_order_of_the_stripes() {
        let arbiters = [(0, 'a'), (1, 'b'), (2, 'c')];
        let layout = |targets: &[u32], first, n_stripes| Layout {
            stripe_bytes: 1 << 20,
            n_stripes,
            targets: targets.to_vec(),
            first,
        };
        let order =
            |layout: Layout| layout.among(&arbiters).map(|found| found.into_iter().collect::<String>());
        assert_eq!(order(layout(&[2, 0], None, Some(2))), Ok("ca".to_owned()));
        assert_eq!(order(layout(&[], Some(1), Some(2))), Ok("bc".to_owned()));
        assert_eq!(order(layout(&[], Some(2), None)), Ok("cab".to_owned()));
        assert_eq!(order(layout(&[], None, Some(1))), Ok("abc".to_owned()));
        assert_eq!(order(layout(&[7], None, None)), Err(7));
        assert_eq!(order(layout(&[], Some(9), None)), Err(9));
    }
}
