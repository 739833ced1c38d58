use super::*;
use iotide_ledger::series::{ColumnKind, Sample, points};
use iotide_testkit::FreshDir;
use std::collections::BTreeMap;
use std::fs;

const NAMES: (&str, &str) = ("job.series", "owner");

fn folder(dir: &FreshDir) -> OpenDir {
    OpenDir::open(dir.path()).unwrap()
}

/// Rows of one counter and one gauge, whose values tell their tick.
fn rows(file: &mut SeriesFile, seconds: std::ops::Range<u64>) -> Rows {
    let columns = std::sync::Arc::make_mut(file.columns());
    let bytes = columns.id_of("write_bytes", ColumnKind::Counter).unwrap();
    let load = columns.id_of("load", ColumnKind::Gauge).unwrap();
    let mut rows = Rows::new(file.folds());
    for second in seconds {
        rows.add(
            second,
            [(bytes, Sample::Counter(second * 1000)), (load, Sample::Gauge(second as f64 / 4.0))],
        );
    }
    rows
}

fn write(dir: &FreshDir, n_blocks: u64, ticks: u64) -> SeriesFile {
    let (mut file, loss) = SeriesFile::open(&folder(dir), NAMES, 5).unwrap();
    assert_eq!(loss, None);
    for block in 0..n_blocks {
        let rows = rows(&mut file, block * ticks..(block + 1) * ticks);
        file.append(&folder(dir), 7, &rows).unwrap();
    }
    file
}

/// The values of both metrics, by tick.
type Values = BTreeMap<u64, (Option<u64>, Option<f64>)>;

/// All values; each must be what was written.
fn values(dir: &FreshDir) -> (Values, Contents) {
    let mut pieces = Vec::new();
    let contents = read(&folder(dir), NAMES, u64::MAX, |_, _| true, |_, rows| pieces.push(rows)).unwrap();
    let mut values = Values::new();
    for (name, is_counter) in [("write_bytes", true), ("load", false)] {
        let Some((id, kind)) = contents.columns.find(name) else { continue };
        assert_eq!(kind == ColumnKind::Counter, is_counter);
        for (tick, sample, n) in pieces.iter().flat_map(|rows| rows.column(id)) {
            assert_eq!(n, 1);
            let value = values.entry(tick).or_default();
            match sample {
                Sample::Counter(bytes) => assert_eq!((value.0.replace(bytes), bytes), (None, tick * 1000)),
                Sample::Gauge(load) => assert_eq!((value.1.replace(load), load), (None, tick as f64 / 4.0)),
            }
        }
    }
    (values, contents)
}

#[test]
fn a_file_cut_at_any_byte_is_read_as_far_as_it_is_whole_and_goes_on() {
    let dir = FreshDir::new("series-cut");
    write(&dir, 5, 8);
    let path = dir.join(NAMES.0);
    let whole = fs::read(&path).unwrap();
    let mut n_before = 0;
    for end in 0..=whole.len() {
        fs::write(&path, &whole[..end]).unwrap();
        let (read, contents) = values(&dir);
        let n = read.len() as u64;
        assert!(n.is_multiple_of(8) && n >= n_before, "{end}");
        assert!(read.keys().copied().eq(0..n), "{end}");
        assert_eq!(contents.loss().is_some(), contents.good_end < end as u64 || end == 0, "{end}");
        n_before = n;
        // Every other length also as a daemon finds it: it cuts, and adds.
        if end % 7 == 0 {
            let (mut file, loss) = SeriesFile::open(&folder(&dir), NAMES, 9).unwrap();
            assert_eq!(loss, contents.loss());
            let more = rows(&mut file, n..n + 3);
            file.append(&folder(&dir), 8, &more).unwrap();
            let (read, contents) = values(&dir);
            assert!(read.keys().copied().eq(0..n + 3), "{end}");
            assert_eq!(contents.loss(), None);
        }
    }
    assert_eq!(n_before, 40);
}

#[test]
fn a_flipped_byte_costs_a_block_and_never_makes_a_wrong_value() {
    let dir = FreshDir::new("series-flipped");
    write(&dir, 5, 8);
    let path = dir.join(NAMES.0);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&path, &damaged).unwrap();
        // Whether values are right is checked in there.
        let (read, contents) = values(&dir);
        assert!(contents.loss().is_some(), "{at}");
        // Without names, all values are still there for who finds the names again.
        assert!(
            read.len() == 32 || contents.columns.is_empty() && contents.n_blocks == 5,
            "{at}: {}",
            read.len()
        );
        if at % 11 == 0 {
            let (mut file, loss) = SeriesFile::open(&folder(&dir), NAMES, 9).unwrap();
            assert!(loss.unwrap().starts_with(LOSS));
            let more = rows(&mut file, 100..103);
            file.append(&folder(&dir), 8, &more).unwrap();
            let (read, contents) = values(&dir);
            assert!(contents.loss().is_none() && read.contains_key(&102), "{at}");
        }
    }
}

#[test]
fn a_folded_file_is_half_as_long_and_keeps_the_last_value() {
    let dir = FreshDir::new("series-fold");
    let mut file = write(&dir, 40, 64);
    let before = fs::metadata(dir.join(NAMES.0)).unwrap().len();
    assert_eq!(before, file.length());
    file.rewrite(&folder(&dir), 9, true).unwrap();
    assert_eq!((file.folds(), file.length()), (1, fs::metadata(dir.join(NAMES.0)).unwrap().len()));
    assert!(file.length() < before / 2);
    // It goes on in the new period.
    let more = rows(&mut file, 40 * 64..40 * 64 + 6);
    assert_eq!(more.ticks().len(), 3);
    file.append(&folder(&dir), 9, &more).unwrap();
    let mut pieces = Vec::new();
    let contents = read(&folder(&dir), NAMES, u64::MAX, |_, _| true, |_, rows| pieces.push(rows)).unwrap();
    let (id, _) = contents.columns.find("write_bytes").unwrap();
    let all = points(pieces.iter(), id, (0, u64::MAX), usize::MAX).unwrap();
    assert_eq!((all.period_s(), all.values.len(), all.start_s()), (2, 20 * 64 + 3, 0));
    assert_eq!(all.values.last().unwrap().unwrap().0, Sample::Counter((40 * 64 + 5) * 1000));
    // A later daemon finds it so.
    let (file, loss) = SeriesFile::open(&folder(&dir), NAMES, 9).unwrap();
    assert_eq!((file.folds(), loss, dir.names().len()), (1, None, 1));
}

#[test]
fn larger_blocks_hold_the_same() {
    let dir = FreshDir::new("series-large");
    let mut file = write(&dir, 40, 64);
    let (before, _) = values(&dir);
    assert!(file.is_in_small_blocks());
    file.rewrite(&folder(&dir), 9, false).unwrap();
    let (after, contents) = values(&dir);
    assert_eq!((after, file.is_in_small_blocks()), (before, false));
    assert_eq!(contents.n_blocks, 1 + 3, "names, and three of 1,024 ticks");
}

#[test]
fn a_file_under_another_name_is_nobodys() {
    let dir = FreshDir::new("series-foreign");
    write(&dir, 2, 8);
    let others = (NAMES.0, "someone else");
    let mut n = 0;
    let contents = read(&folder(&dir), others, u64::MAX, |_, _| true, |_, _| n += 1).unwrap();
    assert!(n == 0 && contents.columns.is_empty() && contents.loss().is_some());
    assert!(SeriesFile::open(&folder(&dir), others, 9).is_err());
}

#[test]
fn the_oldest_go_when_there_is_too_much_or_they_are_too_old() {
    let dir = FreshDir::new("series-sweep");
    let now_s = 1_000_000_000;
    for n in 0..10u64 {
        let path = dir.write(format!("{n}.series"), vec![0; 1000]);
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(now_s - n * 1000);
        fs::File::options().append(true).open(path).unwrap().set_modified(at).unwrap();
    }
    dir.write("other", "x");
    let limits = SeriesLimits { all_bytes: 5500, files: 100, age_s: 1_000_000, file_bytes: 1 };
    let swept = sweep(&folder(&dir), now_s, &limits, |name| name == "9.series").unwrap();
    assert_eq!(swept, Swept { n_files: 5, n_bytes: 5000, n_removed: 5 });
    assert_eq!(dir.names(), ["0.series", "1.series", "2.series", "3.series", "9.series", "other"]);
    let swept = sweep(&folder(&dir), now_s, &SeriesLimits { files: 4, ..limits }, |_| false).unwrap();
    assert_eq!((swept.n_files, swept.n_removed), (4, 1));
    let swept = sweep(&folder(&dir), now_s, &SeriesLimits { age_s: 1500, ..limits }, |_| false).unwrap();
    assert_eq!((swept.n_files, dir.names().len()), (2, 3));
}

#[test]
fn for_room_the_oldest_of_the_user_with_most_go_and_others_keep_theirs() {
    let dir = FreshDir::new("series-sweep-users");
    let now_s = 1_000_000_000;
    let write = |name: String, age_s: u64, size: usize| {
        let path = dir.write(name, vec![0; size]);
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(now_s - age_s);
        fs::File::options().append(true).open(path).unwrap().set_modified(at).unwrap();
    };
    let name_of = |uid: u32, n: u64| {
        let id = iotide_ledger::JobId::new(format!("job.{n}")).unwrap();
        names_of(&JobKey { cluster: iotide_ledger::Name::default(), uid, id, start_ns: n }).0
    };
    // The victim's are the oldest of all, and so is the machine's.
    (0..3).for_each(|n| write(name_of(1001, n), 50_000 + n, 1000));
    write(names_of_node("n1", 7).0, 60_000, 1000);
    (0..40).for_each(|n| write(name_of(1000, n), 1000 + n, 1000));
    let limits = SeriesLimits { all_bytes: 10_000, files: 100, age_s: 1_000_000, file_bytes: 1 };
    let swept = sweep(&folder(&dir), now_s, &limits, |_| false).unwrap();
    assert_eq!(swept, Swept { n_files: 10, n_bytes: 10_000, n_removed: 34 });
    let names = dir.names();
    assert!((0..3).all(|n| names.contains(&name_of(1001, n))) && names.contains(&names_of_node("n1", 7).0));
    assert!((0..6).all(|n| names.contains(&name_of(1000, n))), "the newest stay: {names:?}");
    // Many small ones are too many; those that are open stay, and then it is another's turn.
    (0..40).for_each(|n| write(name_of(1002, n), 10, 1));
    let is_open = |name: &str| (0..40).any(|n| name == name_of(1002, n));
    let swept = sweep(&folder(&dir), now_s, &SeriesLimits { files: 45, ..limits }, is_open).unwrap();
    assert_eq!((swept.n_files, swept.n_removed), (45, 5));
    let swept = sweep(&folder(&dir), now_s, &SeriesLimits { files: 10, ..limits }, |_| false).unwrap();
    assert_eq!(swept.n_files, 10);
    assert!((0..3).all(|n| dir.names().contains(&name_of(1001, n))));
}
