//! Cube 4 profiles (`.cubex`), as Score-P and TAU write them: a set of folders, one for each point and repetition.
//!
//! A profile is a tar archive. `anchor.xml` (mostly packed by gzip) names metrics, regions and call paths; for the metric with
//! id N, `N.index` lists the call paths that have values and `N.data` holds one value per call path and location. Call
//! paths are counted depth first for exclusive metrics, and children before grandchildren for inclusive ones. Values given are exclusive,
//! as Extra-P models them.

use std::collections::HashMap;
use std::io::Read;

use super::xml::{Piece, Pieces};
use super::{Collector, ReadError, finish};
use crate::measurement::{Experiment, Note};

/// More than any profile holds; a small archive cannot fill the memory.
const MAX_INFLATED: u64 = 1 << 30;

/// How the program was made larger, which says what the values of its processes mean together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scaling {
    /// The work grows with the processes: each process is a repetition.
    #[default]
    Weak,
    /// The same, and threads without a value have no say.
    WeakThreaded,
    /// The work is the same: the sum over all processes counts.
    Strong,
}

/// Reads a set of profiles, each with the name of the folder it lies in: `app.p4.n100.r1`.
///
/// The name of the program ends at the first `.`, the repetition begins with `.r`; between them stand names and numbers of
/// parameters. Parameters that never change are left out. Profiles of one point are its repetitions.
pub fn read_cubes(profiles: &[(String, Vec<u8>)], scaling: Scaling) -> Result<Experiment, ReadError> {
    let mut points = Vec::with_capacity(profiles.len());
    let mut names: Vec<String> = Vec::new();
    for (i, (folder, _)) in profiles.iter().enumerate() {
        let (own, values) =
            parameters_of(folder).ok_or_else(|| ReadError::NoParameters { folder: folder.clone() })?;
        if i == 0 {
            names = own;
        } else if own != names {
            return Err(ReadError::OtherParameters { folder: folder.clone(), first: names.join(", ") });
        }
        points.push(values);
    }
    let changes: Vec<bool> =
        (0..names.len()).map(|p| points.iter().any(|point| point[p] != points[0][p])).collect();
    let kept = |list: &[f64]| -> Vec<f64> {
        list.iter().zip(&changes).filter(|(_, c)| **c).map(|(x, _)| *x).collect()
    };
    let parameters: Vec<String> =
        names.iter().zip(&changes).filter(|(_, c)| **c).map(|(n, _)| n.clone()).collect();
    if parameters.is_empty() {
        let folder = profiles.first().map_or_else(String::new, |(folder, _)| folder.clone());
        return Err(ReadError::NoParameters { folder });
    }
    let mut order: Vec<usize> = (0..profiles.len()).collect();
    order.sort_by(|a, b| points[*a].partial_cmp(&points[*b]).unwrap_or(std::cmp::Ordering::Equal));
    let mut collector = Collector::default();
    let mut notes = Vec::new();
    for i in order {
        let (folder, bytes) = &profiles[i];
        let point = kept(&points[i]);
        match Profile::read(bytes) {
            Ok(profile) => profile.measure(&point, scaling, &mut collector, folder, &mut notes),
            Err(fault) => notes.push(skipped(format!("{folder}: {fault}"))),
        }
    }
    finish(collector.into_experiment(parameters, notes))
}

fn skipped(reason: String) -> Note {
    Note::Skipped { line: 0, reason }
}

/// Names and values of the parameters in the name of a folder.
fn parameters_of(folder: &str) -> Option<(Vec<String>, Vec<f64>)> {
    let start = folder.find('.').map_or(0, |at| at + 1);
    // As Extra-P has it, the repetition may begin before the parameters do; then there are none.
    let text = match folder.find(".r") {
        Some(end) => folder.get(start..end)?,
        None => &folder[start..],
    };
    let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    let (mut names, mut values) = (Vec::new(), Vec::new());
    let mut rest = text;
    while let Some(at) = rest.find(is_number) {
        let (name, after) = rest.split_at(at);
        let end = after.find(|c| !is_number(c)).unwrap_or(after.len());
        let (number, after) = after.split_at(end);
        let number = number.replace(',', ".");
        let number = number.trim_end_matches('.');
        names.push(name.to_owned());
        values.push(number.parse().ok()?);
        rest = after;
    }
    (!names.is_empty() && names.iter().all(|name| !name.is_empty())).then_some((names, values))
}

/// Content of one archive.
struct Profile<'a> {
    files: HashMap<String, &'a [u8]>,
    metrics: Vec<Metric>,
    /// Call paths in the order of the document, which is depth first.
    nodes: Vec<Node>,
    /// Their places, children before grandchildren.
    wide: Vec<usize>,
    n_locations: usize,
}

#[derive(Default)]
struct Metric {
    id: String,
    name: String,
    kind: String,
    is_inclusive: bool,
}

#[derive(Default)]
struct Node {
    callpath: String,
    region: String,
    children: Vec<usize>,
    parent: Option<usize>,
}

impl<'a> Profile<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let files = untar(bytes)?;
        let anchor = files.get("anchor.xml").ok_or("anchor.xml is missing")?;
        let anchor = if anchor.starts_with(&[0x1f, 0x8b]) { gunzip(anchor)? } else { anchor.to_vec() };
        let text = String::from_utf8_lossy(&anchor).into_owned();
        let mut profile =
            Self { files, metrics: Vec::new(), nodes: Vec::new(), wide: Vec::new(), n_locations: 0 };
        profile.read_anchor(&text)?;
        profile.enumerate();
        Ok(profile)
    }

    fn read_anchor(&mut self, text: &str) -> Result<(), String> {
        let mut regions: HashMap<String, String> = HashMap::new();
        let (mut path, mut region) = (Vec::new(), String::new());
        // Only the metrics at the top are read; those below them are parts of them.
        let (mut open_metrics, mut open_nodes): (usize, Vec<usize>) = (0, Vec::new());
        let mut pieces = Pieces::of(text);
        for piece in pieces.by_ref() {
            match piece {
                Piece::Open { name, attributes } => {
                    let attribute = |key: &str| {
                        attributes.iter().find(|(k, _)| k == key).map_or(String::new(), |(_, v)| v.clone())
                    };
                    match name.as_str() {
                        "metric" => {
                            open_metrics += 1;
                            if open_metrics == 1 {
                                let is_inclusive = attribute("type") == "INCLUSIVE";
                                self.metrics.push(Metric {
                                    id: attribute("id"),
                                    is_inclusive,
                                    ..Metric::default()
                                });
                            }
                        }
                        "region" => region = attribute("id"),
                        "cnode" => {
                            let node = self.nodes.len();
                            let parent = open_nodes.last().copied();
                            if let Some(parent) = parent {
                                self.nodes[parent].children.push(node);
                            }
                            self.nodes.push(Node {
                                region: attribute("calleeId"),
                                parent,
                                ..Node::default()
                            });
                            open_nodes.push(node);
                        }
                        "location" => self.n_locations += 1,
                        _ => {}
                    }
                    path.push(name);
                }
                Piece::Text(text) => {
                    let [.., parent, last] = path.as_slice() else { continue };
                    match (parent.as_str(), last.as_str(), self.metrics.last_mut()) {
                        ("metric", "uniq_name", Some(metric)) if open_metrics == 1 => metric.name = text,
                        ("metric", "dtype", Some(metric)) if open_metrics == 1 => metric.kind = text,
                        ("region", "name", _) => {
                            regions.insert(region.clone(), text);
                        }
                        _ => {}
                    }
                }
                Piece::Close { name } => {
                    if path.pop().as_ref() != Some(&name) {
                        return Err(format!("anchor.xml is broken: </{name}> closes another element"));
                    }
                    match name.as_str() {
                        "metric" => open_metrics -= 1,
                        "cnode" => drop(open_nodes.pop()),
                        _ => {}
                    }
                }
            }
        }
        if !path.is_empty() || !pieces.is_done() {
            return Err(format!("anchor.xml is broken at byte {}", pieces.at()));
        }
        for i in 0..self.nodes.len() {
            let own = regions.get(&self.nodes[i].region).map_or("", String::as_str);
            self.nodes[i].callpath = match self.nodes[i].parent {
                Some(parent) => format!("{}->{own}", self.nodes[parent].callpath),
                None => own.to_owned(),
            };
        }
        Ok(())
    }

    /// Counts call paths as inclusive metrics do: a node's children one after another, then those of each.
    fn enumerate(&mut self) {
        let roots = (0..self.nodes.len()).filter(|node| self.nodes[*node].parent.is_none());
        for root in roots {
            self.wide.push(root);
            let mut stack = vec![root];
            while let Some(node) = stack.pop() {
                self.wide.extend(&self.nodes[node].children);
                stack.extend(self.nodes[node].children.iter().rev());
            }
        }
    }

    fn measure(
        &self,
        point: &[f64],
        scaling: Scaling,
        collector: &mut Collector,
        folder: &str,
        notes: &mut Vec<Note>,
    ) {
        for metric in &self.metrics {
            let values = match self.values(metric) {
                Ok(Some(values)) => values,
                // Metrics that nobody measured have no files.
                Ok(None) => continue,
                Err(fault) => {
                    notes.push(skipped(format!("{folder}: metric {}: {fault}", metric.name)));
                    continue;
                }
            };
            for (node, own) in &values.given {
                let exclusive = values.exclusive(self, *node, own);
                let series = collector.series(&self.nodes[*node].callpath, &metric.name);
                match scaling {
                    Scaling::Weak => collector.push(series, point, exclusive),
                    Scaling::WeakThreaded => {
                        let busy: Vec<f64> =
                            exclusive.iter().copied().filter(|value| *value != 0.0).collect();
                        collector.push(series, point, if busy.is_empty() { exclusive } else { busy });
                    }
                    Scaling::Strong => collector.push(series, point, [exclusive.iter().sum()]),
                }
            }
        }
    }

    fn values(&self, metric: &Metric) -> Result<Option<MetricValues>, String> {
        let Some(index) = self.files.get(&format!("{}.index", metric.id)) else { return Ok(None) };
        let data = self.files.get(&format!("{}.data", metric.id)).ok_or("its data are missing")?;
        let (listed, is_little) = read_index(index).ok_or("its index is broken")?;
        let raw = match data.strip_prefix(b"CUBEX.DATA") {
            Some(raw) => raw.to_vec(),
            None => {
                let packed = data.strip_prefix(b"ZCUBEX.DATA").ok_or("its data are of no known kind")?;
                inflate_rows(packed, is_little).ok_or("its data are broken")?
            }
        };
        let kind =
            Kind::of(&metric.kind).ok_or_else(|| format!("values of type {} are not read", metric.kind))?;
        let size = kind.size();
        if raw.len() != listed.len() * self.n_locations * size || self.n_locations == 0 {
            return Err("its data do not fit the index".into());
        }
        let mut given = Vec::with_capacity(listed.len());
        for (place, row) in listed.iter().zip(raw.chunks_exact(size * self.n_locations)) {
            let node = if metric.is_inclusive {
                *self.wide.get(*place).ok_or("its index names a call path that is not there")?
            } else {
                *place
            };
            if node >= self.nodes.len() {
                return Err("its index names a call path that is not there".into());
            }
            given.push((node, row.chunks_exact(size).map(|value| kind.value(value, is_little)).collect()));
        }
        let by_node = given.iter().enumerate().map(|(i, (node, _))| (*node, i)).collect();
        Ok(Some(MetricValues {
            given,
            by_node,
            is_inclusive: metric.is_inclusive,
            is_unsigned: matches!(kind, Kind::Unsigned(_)),
        }))
    }
}

/// One metric's values: call paths that have any, with one value a location.
struct MetricValues {
    given: Vec<(usize, Vec<f64>)>,
    by_node: HashMap<usize, usize>,
    is_inclusive: bool,
    is_unsigned: bool,
}

impl MetricValues {
    /// A call path's values without those of the call paths below it.
    fn exclusive(&self, profile: &Profile, node: usize, own: &[f64]) -> Vec<f64> {
        let mut values = own.to_vec();
        if self.is_inclusive {
            for child in profile.nodes[node].children.iter().filter_map(|child| self.by_node.get(child)) {
                for (value, below) in values.iter_mut().zip(&self.given[*child].1) {
                    *value -= below;
                    // Counters read one after the other may say that a part is more than the whole.
                    if self.is_unsigned {
                        *value = value.max(0.0);
                    }
                }
            }
        }
        values
    }
}

/// A type of values, with its size in bytes.
#[derive(Clone, Copy)]
enum Kind {
    Unsigned(usize),
    Signed(usize),
    Double,
    /// Two doubles, the second to divide by.
    Rate,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        Some(match name.trim() {
            "CHAR" | "UINT8" => Self::Unsigned(1),
            "UINT16" | "UNSIGNED SHORT INT" => Self::Unsigned(2),
            "UINT32" | "UNSIGNED INT" => Self::Unsigned(4),
            "UINT64" | "UNSIGNED INTEGER" => Self::Unsigned(8),
            "INT8" => Self::Signed(1),
            "INT16" | "SHORT INT" | "SIGNED SHORT INT" => Self::Signed(2),
            "INT" | "INT32" | "SIGNED INT" => Self::Signed(4),
            "INT64" | "INTEGER" | "SIGNED INTEGER" => Self::Signed(8),
            "DOUBLE" | "FLOAT" | "MINDOUBLE" | "MAXDOUBLE" => Self::Double,
            "RATE" => Self::Rate,
            _ => return None,
        })
    }

    fn size(self) -> usize {
        match self {
            Self::Unsigned(size) | Self::Signed(size) => size,
            Self::Double => 8,
            Self::Rate => 16,
        }
    }

    fn value(self, bytes: &[u8], is_little: bool) -> f64 {
        /// Counters close to the largest number of 64 bits were never read; CubeLib has them as nothing, too.
        const NEVER_READ: u64 = 0xFFFF_FFFF_FFFF_FBFF;
        let whole = |bytes: &[u8]| {
            let add = |sum: u64, byte: &u8| (sum << 8) | u64::from(*byte);
            if is_little { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) }
        };
        match self {
            Self::Unsigned(_) => match whole(bytes) {
                value if value > NEVER_READ => 0.0,
                value => value as f64,
            },
            Self::Signed(size) => {
                let unused = 64 - 8 * size as u32;
                ((whole(bytes) << unused) as i64 >> unused) as f64
            }
            Self::Double => f64::from_bits(whole(bytes)),
            Self::Rate => {
                let (main, time) = bytes.split_at(8);
                f64::from_bits(whole(main)) / f64::from_bits(whole(time))
            }
        }
    }
}

/// The places of the call paths that have values, and whether the profile was written on a little-endian machine.
fn read_index(index: &[u8]) -> Option<(Vec<usize>, bool)> {
    let rest = index.strip_prefix(b"CUBEX.INDEX")?;
    let is_little = rest.get(..4)? == [1, 0, 0, 0];
    let number = |bytes: &[u8]| -> Option<usize> {
        let bytes: [u8; 4] = bytes.try_into().ok()?;
        let number = if is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) };
        usize::try_from(number).ok()
    };
    // Behind the mark of the byte order: a version in two bytes, and a kind in one.
    let n = number(rest.get(7..11)?)?;
    let places = rest.get(11..)?;
    if places.len() != n.checked_mul(4)? {
        return None;
    }
    Some((places.chunks_exact(4).map(number).collect::<Option<_>>()?, is_little))
}

/// Rows packed one by one: how many, for each its place, its place in the file and its packed size, then the rows.
fn inflate_rows(packed: &[u8], is_little: bool) -> Option<Vec<u8>> {
    let number = |at: usize| -> Option<usize> {
        let bytes: [u8; 8] = packed.get(at..at.checked_add(8)?)?.try_into().ok()?;
        let number = if is_little { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) };
        usize::try_from(number).ok()
    };
    let n = number(0)?;
    let mut at = n.checked_mul(24)?.checked_add(8).filter(|start| *start <= packed.len())?;
    let mut raw = Vec::new();
    for row in 0..n {
        let size = number(8 + 24 * row + 16)?;
        let end = at.checked_add(size)?;
        let left = MAX_INFLATED.saturating_sub(raw.len() as u64);
        if size > 0 {
            flate2::read::ZlibDecoder::new(packed.get(at..end)?).take(left).read_to_end(&mut raw).ok()?;
        }
        at = end;
    }
    Some(raw)
}

fn gunzip(packed: &[u8]) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    let taken = flate2::read::MultiGzDecoder::new(packed).take(MAX_INFLATED).read_to_end(&mut text);
    taken.map_err(|error| format!("anchor.xml cannot be unpacked: {error}"))?;
    Ok(text)
}

/// The files of a tar archive by name. Checksums are not held against it: some versions of Cube write wrong ones.
fn untar(archive: &[u8]) -> Result<HashMap<String, &[u8]>, String> {
    const BLOCK: usize = 512;
    let mut files = HashMap::new();
    let mut at = 0;
    while let Some(header) = archive.get(at..at + BLOCK).filter(|header| header[0] != 0) {
        let cut = || format!("the archive is cut in the file at byte {at}");
        let name = header[..100].split(|byte| *byte == 0).next().unwrap_or_default();
        let size = &header[124..136];
        let size = if size[0] & 0x80 != 0 {
            size[4..].iter().fold(0usize, |sum, byte| (sum << 8) | usize::from(*byte))
        } else {
            let digits: String = size.iter().map(|byte| char::from(*byte)).collect();
            let digits = digits.trim_matches(|c: char| c == '\0' || c.is_whitespace());
            usize::from_str_radix(digits, 8)
                .map_err(|_| "it is no tar archive, and so no profile".to_owned())?
        };
        let start = at + BLOCK;
        let end = start.checked_add(size).ok_or_else(cut)?;
        let contents = archive.get(start..end).ok_or_else(cut)?;
        let name = String::from_utf8_lossy(name);
        files.insert(name.trim_start_matches("./").to_owned(), contents);
        at = end.div_ceil(BLOCK) * BLOCK;
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANCHOR: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<cube version="4.3"><metrics>
 <metric id="0" type="EXCLUSIVE"><uniq_name>visits</uniq_name><dtype>UINT64</dtype></metric>
 <metric id="1" type="INCLUSIVE"><uniq_name>time</uniq_name><dtype>DOUBLE</dtype></metric>
 <metric id="2" type="EXCLUSIVE"><uniq_name>bytes</uniq_name><dtype>UINT64</dtype></metric>
</metrics><program>
 <region id="0"><name>main</name></region><region id="1"><name>a&lt;int&gt;</name></region><region id="2"><name>b</name></region>
 <cnode id="0" calleeId="0"><cnode id="1" calleeId="1"><cnode id="2" calleeId="2"/></cnode><cnode id="3" calleeId="2"/></cnode>
</program><system><systemtreenode Id="0"><locationgroup Id="0"><location Id="0"/><location Id="1"/></locationgroup></systemtreenode></system></cube>"#;

    fn tar(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, contents) in files {
            let mut header = [0u8; 512];
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[124..135].copy_from_slice(format!("{:011o}", contents.len()).as_bytes());
            out.extend(header);
            out.extend(contents);
            out.resize(out.len().div_ceil(512) * 512, 0);
        }
        out.extend([0; 1024]);
        out
    }

    fn index(places: &[u32]) -> Vec<u8> {
        let mut out = b"CUBEX.INDEX".to_vec();
        out.extend([1, 0, 0, 0, 0, 0, 1]);
        out.extend((places.len() as u32).to_le_bytes());
        places.iter().for_each(|place| out.extend(place.to_le_bytes()));
        out
    }

    /// A profile of main → a<int> → b and main → b on two threads, with `scale` times the usual time.
    fn profile(scale: f64, packed: bool) -> Vec<u8> {
        let visits: Vec<u8> = [1u64, 0, 2, 2, 3, 3, 4, 0].iter().flat_map(|v| v.to_le_bytes()).collect();
        // Inclusive values: main, its children a and b, then a's child b.
        let time = [10.0, 0.0, 6.0, 2.0, 1.0, 1.0, 4.0, 0.0].map(|t: f64| t * scale);
        let time: Vec<u8> = time.iter().flat_map(|v| v.to_le_bytes()).collect();
        let data = |raw: &[u8]| {
            if !packed {
                return [b"CUBEX.DATA".as_slice(), raw].concat();
            }
            let mut rows = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            std::io::Write::write_all(&mut rows, raw).unwrap();
            let rows = rows.finish().unwrap();
            let head = [1u64, 0, 0, rows.len() as u64];
            let head: Vec<u8> = head.iter().flat_map(|n| n.to_le_bytes()).collect();
            [b"ZCUBEX.DATA".as_slice(), &head, &rows].concat()
        };
        tar(&[
            ("anchor.xml", ANCHOR.into()),
            ("0.index", index(&[0, 1, 2, 3])),
            ("0.data", data(&visits)),
            ("1.index", index(&[0, 1, 2, 3])),
            ("1.data", data(&time)),
        ])
    }

    fn means(experiment: &Experiment, metric: &str) -> Vec<(String, Vec<f64>)> {
        let of_metric = experiment.series.iter().filter(|series| series.metric == metric);
        of_metric
            .map(|series| {
                let mean = series.measurements.iter().map(|m| m.values.summary().mean);
                (series.callpath.clone(), mean.collect())
            })
            .collect()
    }

    fn set(packed: bool) -> Vec<(String, Vec<u8>)> {
        vec![
            ("app.p8.n2.r1".into(), profile(2.0, packed)),
            ("app.p4.n2.r1".into(), profile(1.0, packed)),
            ("app.p4.n2.r2".into(), profile(1.0, packed)),
        ]
    }

    #[test]
    fn times_are_exclusive_and_threads_repetitions_under_weak_scaling() {
        for packed in [false, true] {
            let experiment = read_cubes(&set(packed), Scaling::Weak).unwrap();
            assert_eq!(experiment.parameters, ["p"]);
            let mut time = means(&experiment, "time");
            time.sort_by(|a, b| a.0.cmp(&b.0));
            // main: (10 − 7, 0 − 3) / 2; a: (6 − 4, 2 − 0) / 2.
            let want = [("main", 0.0), ("main->a<int>", 2.0), ("main->a<int>->b", 2.0), ("main->b", 1.0)];
            let want: Vec<(String, Vec<f64>)> =
                want.iter().map(|(path, t)| ((*path).to_owned(), vec![*t, 2.0 * t])).collect();
            assert_eq!(time, want);
            assert!(means(&experiment, "bytes").is_empty() && experiment.notes.is_empty());
        }
    }

    #[test]
    fn strong_scaling_adds_up_and_threaded_leaves_idle_threads_out() {
        let strong = read_cubes(&set(false), Scaling::Strong).unwrap();
        assert_eq!(means(&strong, "visits")[0], ("main".to_owned(), vec![1.0, 1.0]));
        assert_eq!(means(&strong, "visits")[3], ("main->b".to_owned(), vec![4.0, 4.0]));
        let threaded = read_cubes(&set(false), Scaling::WeakThreaded).unwrap();
        assert_eq!(means(&threaded, "visits")[3], ("main->b".to_owned(), vec![4.0, 4.0]));
    }

    #[test]
    fn names_of_folders_tell_the_parameters() {
        let of = |folder: &str| parameters_of(folder);
        let named = |names: &[&str], values: &[f64]| {
            Some((names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>(), values.to_vec()))
        };
        assert_eq!(of("mm.x10y1z1.r1"), named(&["x", "y", "z"], &[10.0, 1.0, 1.0]));
        assert_eq!(of("mm.x22.5.y22.5.z1.25.r1"), named(&["x", "y", "z"], &[22.5, 22.5, 1.25]));
        assert_eq!(of("mm.x20,5.y20,5.z1,5.r1"), named(&["x", "y", "z"], &[20.5, 20.5, 1.5]));
        assert_eq!(of("x10y1z1"), named(&["x", "y", "z"], &[10.0, 1.0, 1.0]));
        assert_eq!(of("app"), None);
    }

    #[test]
    fn a_broken_profile_costs_that_profile() {
        let mut profiles = set(false);
        profiles[2].1.truncate(700);
        let experiment = read_cubes(&profiles, Scaling::Weak).unwrap();
        assert_eq!(experiment.notes.len(), 1);
        let whole = profile(1.0, true);
        for end in (0..whole.len()).step_by(37) {
            let _ = read_cubes(
                &[("a.p1.r1".into(), whole[..end].to_vec()), ("a.p2.r1".into(), whole.clone())],
                Scaling::Weak,
            );
        }
        for at in (0..whole.len()).step_by(5) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x41;
            let _ =
                read_cubes(&[("a.p1.r1".into(), damaged), ("a.p2.r1".into(), whole.clone())], Scaling::Weak);
        }
    }
}
