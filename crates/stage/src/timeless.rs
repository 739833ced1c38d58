//! Files of which no time tells whether they changed: their contents do.

use crate::copy::read_back;
use crate::dirs::{name, parent};
use crate::pace::Pace;
use crate::stager::Stager;

impl Stager {
    /// Reads the files again that are noted as safe and have no times. Those that have changed are due at the next look; returns how many.
    ///
    /// A file that is rewritten with as many bytes as before is noticed by nothing else.
    pub(crate) fn read_timeless_again(&mut self, pace: &Pace) -> u64 {
        let timeless = self.journal.known.safe.iter().filter(|(path, safe)| {
            safe.numbers.are_timeless() && !safe.is_link && !self.journal.known.purged.contains(*path)
        });
        let has_changed = |path: &[u8], size, checksum| {
            let dir = self.src.dir(parent(path));
            // What is gone or of another size is seen by the next look as it is.
            dir.is_ok_and(|dir| {
                read_back(&dir, name(path), size, None, pace).is_ok_and(|sum| sum != checksum)
            })
        };
        let changed: Vec<Vec<u8>> = timeless
            .filter(|(path, safe)| has_changed(path, safe.numbers.size, safe.checksum))
            .map(|(path, _)| path.clone())
            .collect();
        for path in &changed {
            self.journal.known.safe.remove(path);
        }
        changed.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Numbers;
    use crate::run::run_once;
    use crate::tally::Settings;
    use iotide_testkit::FreshDir;
    use std::fs;
    use std::time::Duration;

    #[test]
    fn a_file_without_times_is_told_by_its_contents() {
        let dir = FreshDir::new("stage-timeless");
        let (src, dst) = (dir.join("src"), dir.join("dst"));
        fs::create_dir(&src).unwrap();
        fs::create_dir(&dst).unwrap();
        fs::write(src.join("same"), "12345").unwrap();
        fs::write(src.join("rewritten"), "12345").unwrap();
        let settings = Settings { quiet: Duration::ZERO, ..Settings::default() };
        let pace = Pace::free();
        let mut stager = Stager::open(&src, &dst, settings, &pace).unwrap();
        assert!(run_once(&mut stager, &pace, None, &mut |_| {}).unwrap().is_none());
        assert_eq!(stager.read_timeless_again(&pace), 0, "these have times");
        for safe in stager.journal.known.safe.values_mut() {
            safe.numbers = Numbers { mtime_ns: 0, ctime_ns: 0, ..safe.numbers };
        }
        assert_eq!(stager.read_timeless_again(&pace), 0);
        fs::write(src.join("rewritten"), "54321").unwrap();
        assert_eq!(stager.read_timeless_again(&pace), 1);
        let safe: Vec<_> = stager.journal.known.safe.keys().collect();
        assert_eq!(safe, [b"same"]);
    }
}
