//! Activity of a run, as parts of its page: ranks over time, time in calls, operations, request sizes, access order, mount points, files.
//!
//! Bars stand in tables: they need no script, fit any width, and their numbers are beside them.

use std::fmt::Write;

use iotide_analysis::is_foreign;
use iotide_look::html::{Section, capitalised, escape};
use iotide_look::{Untrusted, text};
use iotide_report::{
    AccessOrder, Activity, ActivityOperation as Operation, File, FileCounts, FileGroup, LayerTime,
    MpiIoCalls, MpiIoWay, OrderCounts, Patterns, RequestSizes, SizeRange, Timeline,
};

use super::heat_map::{Field, Way, binary_bytes, for_page};
use super::timeline;

/// All parts, in the order they are read.
pub(super) fn sections(
    activity: &Activity,
    patterns: Option<&Patterns>,
    timeline: Option<&Timeline>,
    run_idx: usize,
    processes: &str,
) -> Vec<Section> {
    let mut sections = Vec::new();
    sections.extend(ranks(activity, run_idx, processes));
    sections.extend(timeline.and_then(|timeline| timeline::section(timeline, processes)));
    sections.extend(time(activity));
    if let Some(patterns) = patterns {
        sections.extend(sizes(patterns, activity));
        sections.extend(order(patterns));
        sections.extend(mpi_io(patterns));
    }
    sections.extend(operations(activity));
    sections.extend(metadata(activity));
    if let Some(patterns) = patterns {
        sections.extend(counts(&patterns.file_counts));
        sections.extend(mounts(patterns));
    }
    sections.extend(files(activity));
    sections
}

/// A cell with a number and a bar; `whole` fills the cell.
fn bar(class: &str, value: f64, whole: f64, told: &str) -> String {
    // Where a column is narrow, a line ends before the share and nowhere else.
    let told = &told.replace(' ', "\u{a0}").replace("\u{a0}(", " (");
    if value <= 0.0 || whole <= 0.0 {
        return format!("<td data-v=\"{value}\">{}</td>", escape(told));
    }
    // What is there at all is seen.
    let share = (value / whole * 100.0).clamp(1.0, 100.0);
    format!("<td class=\"{class}\" data-v=\"{value}\" style=\"--s:{share:.1}%\">{}</td>", escape(told))
}

/// A table of rows of cells, each cell as HTML, that scrolls within itself where it is too wide.
fn bars(class: &str, head: &[&str], rows: impl IntoIterator<Item = (String, Vec<String>)>) -> String {
    let mut html =
        format!("<div class=\"wide\" tabindex=\"0\">\n<table class=\"bars {class}\">\n<thead><tr>");
    for name in head {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(name));
    }
    html += "</tr></thead>\n<tbody>\n";
    for (name, cells) in rows {
        let _ = writeln!(html, "<tr><th scope=\"row\">{}</th>{}</tr>", escape(&name), cells.concat());
    }
    html + "</tbody>\n</table>\n</div>\n"
}

/// Ranks over time.
fn ranks(activity: &Activity, run_idx: usize, processes: &str) -> Option<Section> {
    let heat = &for_page(activity.heat_map.as_ref()?);
    let mut body = String::new();
    /// A direction that moves less than this of all bytes is folded away.
    const MINOR: f64 = 1e-3;
    let all_bytes: f64 =
        [Way::Write, Way::Read].iter().filter_map(|&way| Some(Field::new(heat, way)?.bytes())).sum();
    for (way, moved) in [(Way::Write, "written"), (Way::Read, "read")] {
        let Some(field) = Field::new(heat, way) else { continue };
        let mut caption = format!("Bytes {moved} by each rank, in steps of {}", text::seconds(heat.bin_s));
        if heat.ranks_per_row > 1 {
            let _ = write!(caption, "; a row is {} ranks", heat.ranks_per_row);
        }
        caption.push_str(". The shades are logarithmic.");
        if heat.rows[0].first_rank < 0 {
            caption.push_str(" “all”: what the source does not tell apart by rank.");
        }
        let figure = format!(
            "<figure class=\"heat\" data-name=\"ranks-{moved}\">\n<div class=\"bar\">{}</div>\n{}<figcaption>{}</figcaption>\n{}\
             <script type=\"application/json\">{}</script>\n</figure>\n",
            field.legend_html(),
            field.to_inline_svg(&format!("{moved}-{run_idx}")),
            escape(&caption),
            field.numbers_html(),
            field.to_json()
        );
        // Next to nothing has no place among what matters, but is there for who asks.
        if field.bytes() < MINOR * all_bytes {
            let _ = write!(
                body,
                "<details class=\"minor\"><summary>{} {moved}</summary>\n{figure}</details>\n",
                text::bytes(field.bytes())
            );
        } else {
            body += &figure;
        }
    }
    (!body.is_empty()).then(|| Section {
        id: "ranks",
        title: format!("{} over time", capitalised(processes)),
        body,
        narrow: false,
    })
}

/// Time in reads, writes and metadata per layer.
fn time(activity: &Activity) -> Option<Section> {
    if activity.time.is_empty() {
        return None;
    }
    let shares = |time: &LayerTime| [time.read_share, time.write_share, time.metadata_share];
    let sum = |time: &LayerTime| shares(time).into_iter().flatten().sum::<f64>();
    let longest = activity.time.iter().flat_map(shares).flatten().fold(0.0, f64::max);
    let told = |class: &str, time_s: Option<f64>, share: Option<f64>| match (time_s, share) {
        (Some(time_s), Some(share)) => {
            let told = format!("{} ({})", text::seconds(time_s), text::percent(share));
            bar(class, time_s, time_s / share.max(1e-300) * longest, &told)
        }
        (Some(time_s), None) => bar(class, time_s, 0.0, &text::seconds(time_s)),
        (None, _) => bar(class, 0.0, 0.0, "–"),
    };
    let rows = activity.time.iter().map(|time| {
        let cells = vec![
            told("r", time.read_s, time.read_share),
            told("w", time.write_s, time.write_share),
            told("m", time.metadata_s, time.metadata_share),
        ];
        (time.layer.unwrap_or("calls").to_owned(), cells)
    });
    let mut body = bars("", &["layer", "reading", "writing", "metadata"], rows);
    let mut note = format!(
        "Time in calls summed over ranks, and as a share of {} × {}. A layer above another includes it.",
        text::counted(activity.n_ranks, "rank"),
        text::seconds(activity.run_time_s)
    );
    if activity.time.iter().any(|time| sum(time) > 1.0) {
        note.push_str(" More than all of it: several threads of a rank did I/O at the same time.");
    }
    let _ = writeln!(body, "<p class=\"note\">{}</p>", escape(&note));
    Some(Section { id: "time", title: "Time in I/O".into(), body, narrow: true })
}

/// How often what was done.
fn operations(activity: &Activity) -> Option<Section> {
    if activity.operations.is_empty() {
        return None;
    }
    let most = activity.operations.iter().filter_map(|operation| operation.calls).max().unwrap_or(0) as f64;
    let rows = activity.operations.iter().map(|operation| {
        let Operation { layer, op, calls, bytes } = operation;
        let moves = *bytes > 0.0;
        let mean = calls.filter(|&calls| calls > 0 && moves).map(|calls| bytes / calls as f64);
        let class = match *op {
            "read" => "r",
            "write" => "w",
            _ => "m",
        };
        let counted = calls.map_or("–".into(), text::count);
        let cells = vec![
            bar(class, calls.unwrap_or(0) as f64, most, &counted),
            bar("", *bytes, 0.0, &if moves { text::bytes(*bytes) } else { "–".into() }),
            bar("", mean.unwrap_or(0.0), 0.0, &mean.map_or("–".into(), text::bytes)),
        ];
        ([layer.unwrap_or(""), op].join(" ").trim().to_owned(), cells)
    });
    let mut body = bars("", &["operation", "calls", "bytes", "per call"], rows);
    if activity.operations.iter().any(|operation| operation.calls.is_none()) {
        body.push_str("<p class=\"note\">–: the source has sums over time and does not count calls.</p>\n");
    }
    Some(Section { id: "operations", title: "Operations".into(), body, narrow: true })
}

/// How often names and attributes were asked for, beside the files and the run time.
fn metadata(activity: &Activity) -> Option<Section> {
    let is_metadata = |operation: &&Operation| !matches!(operation.op, "read" | "write");
    let calls: u64 = (activity.operations.iter())
        .filter(is_metadata)
        .filter_map(|operation| operation.calls)
        .fold(0, u64::saturating_add);
    if calls == 0 {
        return None;
    }
    let n_files = activity.files.len() as u64 + activity.n_more_files;
    let mut by_op: Vec<(&str, u64)> = Vec::new();
    for operation in activity.operations.iter().filter(is_metadata) {
        let calls = operation.calls.unwrap_or(0);
        match by_op.iter_mut().find(|(op, _)| *op == operation.op) {
            Some((_, sum)) => *sum = sum.saturating_add(calls),
            None => by_op.push((operation.op, calls)),
        }
    }
    by_op.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
    let most = by_op.first().map_or(0, |(_, calls)| *calls) as f64;
    let rows = by_op.into_iter().filter(|(_, calls)| *calls > 0).map(|(op, calls)| {
        let per =
            |whole: f64| if whole > 0.0 { text::digits(calls as f64 / whole, 3) } else { "–".to_owned() };
        let cells = vec![
            bar("m", calls as f64, most, &text::count(calls)),
            bar("", 0.0, 0.0, &per(n_files as f64)),
            bar("", 0.0, 0.0, &per(activity.run_time_s)),
        ];
        (op.to_owned(), cells)
    });
    let mut body = bars("", &["operation", "calls", "per file", "per second"], rows);
    let time_s: f64 = activity.time.iter().filter_map(|time| time.metadata_s).fold(0.0, f64::max);
    if time_s > 0.0 {
        let _ = writeln!(
            body,
            "<p class=\"note\">{} in all, {} of rank time: {} each.</p>",
            escape(&text::counted(calls, "call")),
            escape(&text::seconds(time_s)),
            escape(&text::seconds(time_s / calls as f64))
        );
    }
    Some(Section { id: "metadata", title: "Metadata operations".into(), body, narrow: true })
}

/// How large calls were, in Darshan's ranges.
fn sizes(patterns: &Patterns, activity: &Activity) -> Option<Section> {
    let mut body = String::new();
    for sizes in &patterns.request_sizes {
        write_sizes(&mut body, sizes, patterns.request_sizes.len() > 1);
    }
    if body.is_empty() {
        return None;
    }
    let mut notes = Vec::new();
    // A source that counts its calls has them all in ranges.
    let averaged = activity.access_sizes.iter().map(|row| row.reads_on_average + row.writes_on_average).sum();
    if averaged > 0 && patterns.request_sizes.iter().all(|sizes| sizes.layer.is_none()) {
        notes.push(format!("Not shown: {} of which only sums are known.", text::counted(averaged, "call")));
    }
    if activity.empty_calls > 0 {
        notes.push(format!("{} moved nothing.", capitalised(&text::counted(activity.empty_calls, "call"))));
    }
    if activity.bytes_of_unknown_size > 0.0 {
        let bytes = text::bytes(activity.bytes_of_unknown_size);
        notes.push(format!("{bytes} were moved in calls that the source does not count."));
    }
    if !notes.is_empty() {
        let _ = writeln!(body, "<p class=\"note\">{}</p>", escape(&notes.join(" ")));
    }
    Some(Section { id: "sizes", title: "Request sizes".into(), body, narrow: true })
}

/// A range of sizes: `100 B – 1 KiB`.
pub(super) fn range_in_words(from_bytes: u64, to_bytes: Option<u64>) -> String {
    let name = |bytes: u64| match bytes {
        0 => "0".to_owned(),
        bytes => binary_bytes(bytes as f64),
    };
    match to_bytes {
        Some(to_bytes) => format!("{} – {}", name(from_bytes), name(to_bytes)),
        None => format!("> {}", name(from_bytes)),
    }
}

fn write_sizes(body: &mut String, sizes: &RequestSizes, with_name: bool) {
    let used = |range: &&SizeRange| range.reads > 0 || range.writes > 0;
    let most = sizes.ranges.iter().map(|range| range.reads.max(range.writes)).max().unwrap_or(0) as f64;
    let first = sizes.ranges.iter().position(|range| used(&range)).unwrap_or(0);
    let last = sizes.ranges.iter().rposition(|range| used(&range)).unwrap_or(0);
    if let (true, Some(layer)) = (with_name, sizes.layer) {
        let _ = writeln!(body, "<h3>{}</h3>", escape(layer));
    }
    let rows = sizes.ranges[first..=last].iter().map(|range| {
        let label = range_in_words(range.from_bytes, range.to_bytes);
        let cells = vec![
            bar("r", range.reads as f64, most, &text::count(range.reads)),
            bar("w", range.writes as f64, most, &text::count(range.writes)),
        ];
        (label, cells)
    });
    body.push_str(&bars("sizes", &["bytes per call", "reads", "writes"], rows));
    if !sizes.common.is_empty() {
        let told: Vec<String> = (sizes.common.iter().take(4))
            .map(|size| {
                format!("{} ({})", text::counted(size.bytes, "byte"), text::counted(size.calls, "call"))
            })
            .collect();
        let _ = writeln!(body, "<p class=\"note\">Commonest sizes: {}.</p>", escape(&told.join(", ")));
    }
}

/// In which order calls went through their files.
fn order(patterns: &Patterns) -> Option<Section> {
    let mut body = String::new();
    for AccessOrder { layer, reads, writes, strided } in &patterns.access_order {
        if let (true, Some(layer)) = (patterns.access_order.len() > 1, layer) {
            let _ = writeln!(body, "<h3>{}</h3>", escape(layer));
        }
        let most = reads.calls.max(writes.calls) as f64;
        let counted = |class: &str, calls: Option<u64>, of: u64| match calls {
            Some(calls) if of > 0 => {
                let told = format!("{} ({})", text::count(calls), text::percent(calls as f64 / of as f64));
                bar(class, calls as f64, most, &told)
            }
            Some(calls) => bar(class, calls as f64, most, &text::count(calls)),
            None => bar(class, 0.0, 0.0, "–"),
        };
        let row = |name: &str, of: fn(&OrderCounts) -> Option<u64>| {
            let cells = vec![counted("r", of(reads), reads.calls), counted("w", of(writes), writes.calls)];
            (name.to_owned(), cells)
        };
        let rows = [
            row("all", |way| Some(way.calls)),
            row("sequential", |way| way.sequential),
            row("consecutive", |way| way.consecutive),
            row("back in the file", |way| way.random),
        ];
        body.push_str(&bars("", &["calls", "reads", "writes"], rows));
        let mut note =
            "Sequential: at a higher offset than the call before; consecutive: exactly where that one ended."
                .to_owned();
        if let Some(strided) = strided.filter(|&strided| strided > 0) {
            let _ = write!(
                note,
                " {} at one of the four commonest strides of their file.",
                capitalised(&text::counted(strided, "call"))
            );
        }
        let _ = writeln!(body, "<p class=\"note\">{}</p>", escape(&note));
    }
    (!body.is_empty()).then(|| Section { id: "order", title: "Access pattern".into(), body, narrow: true })
}

/// How ranks called MPI-IO.
fn mpi_io(patterns: &Patterns) -> Option<Section> {
    let MpiIoCalls { reads, writes } = patterns.mpi_io.as_ref()?;
    let most = reads.calls.max(writes.calls) as f64;
    let counted = |class: &str, calls: Option<u64>| match calls {
        Some(calls) => bar(class, calls as f64, most, &text::count(calls)),
        None => bar(class, 0.0, 0.0, "–"),
    };
    let row = |name: &str, of: fn(&MpiIoWay) -> Option<u64>| {
        (name.to_owned(), vec![counted("r", of(reads)), counted("w", of(writes))])
    };
    let rows = [
        row("all", |way| Some(way.calls)),
        row("collective", |way| way.collective),
        row("independent", |way| way.independent),
        row("nonblocking", |way| way.nonblocking),
    ];
    let body = bars("", &["calls", "reads", "writes"], rows);
    Some(Section { id: "mpi-io", title: "MPI-IO calls".into(), body, narrow: true })
}

/// Returns the section on bytes moved on each file system.
fn mounts(patterns: &Patterns) -> Option<Section> {
    let mounts = &patterns.mounts;
    if mounts.is_empty() {
        return None;
    }
    let most = mounts.iter().map(|sums| sums.bytes_read.max(sums.bytes_written)).fold(0.0, f64::max);
    let rows = mounts.iter().map(|sums| {
        let kind = sums.kind.as_ref().map_or(String::new(), |kind| format!(" ({})", kind.for_terminal()));
        let cells = vec![
            bar("r", sums.bytes_read, most, &text::bytes(sums.bytes_read)),
            bar("w", sums.bytes_written, most, &text::bytes(sums.bytes_written)),
            bar("", sums.files as f64, 0.0, &text::count(sums.files)),
            bar("", sums.files_read as f64, 0.0, &text::count(sums.files_read)),
            bar("", sums.files_written as f64, 0.0, &text::count(sums.files_written)),
        ];
        (format!("{}{kind}", sums.path.shortened(120).for_terminal()), cells)
    });
    let head = ["mount point", "read", "written", "files", "files read", "files written"];
    let mut body = bars("", &head, rows);
    if mounts.iter().all(|sums| sums.kind.is_none()) {
        body.push_str(
            "<p class=\"note\">The source has no mount points: files by their first directory.</p>\n",
        );
    }
    Some(Section { id: "mounts", title: "Data by mount point".into(), body, narrow: false })
}

/// How many files were only read, only written, or both.
fn counts(counts: &FileCounts) -> Option<Section> {
    if counts.total.files == 0 {
        return None;
    }
    let most = counts.total.files as f64;
    let row = |name: &str, class: &str, group: &FileGroup| {
        let cells = vec![
            bar(class, group.files as f64, most, &text::count(group.files)),
            bar("", group.mean_bytes, 0.0, &text::bytes(group.mean_bytes)),
            bar("", group.most_bytes, 0.0, &text::bytes(group.most_bytes)),
        ];
        (name.to_owned(), cells)
    };
    let mut rows = vec![
        row("all", "m", &counts.total),
        row("read-only", "r", &counts.read_only),
        row("write-only", "w", &counts.write_only),
        row("read and written", "m", &counts.read_write),
    ];
    if counts.untouched.files > 0 {
        rows.push(row("no bytes moved", "m", &counts.untouched));
    }
    let body = bars("", &["files", "number", "moved on average", "moved at most"], rows);
    Some(Section { id: "counts", title: "File counts".into(), body, narrow: true })
}

/// The heaviest files, and folded below them those of libraries and of the system.
fn files(activity: &Activity) -> Option<Section> {
    /// How long the names on a page may be, all together.
    const MOST_NAMES: usize = 80_000;
    let mut n_bytes = 0;
    let shown = activity.files.iter().take_while(|file| {
        let is_first = n_bytes == 0;
        n_bytes += file.path.as_said().chars().take(200).map(char::len_utf8).sum::<usize>().max(1);
        is_first || n_bytes <= MOST_NAMES
    });
    let (shown, hidden) = activity.files.split_at(shown.count());
    let (foreign, own): (Vec<&File>, Vec<&File>) =
        shown.iter().partition(|file| is_foreign(file.path.as_said()));
    let mut body = match (own.is_empty(), foreign.is_empty()) {
        (true, true) => return None,
        (true, false) => String::from("<p class=\"note\">No file of the program's own.</p>\n"),
        (false, _) => file_table(&own),
    };
    let n_more = activity.n_more_files + hidden.len() as u64;
    if n_more > 0 {
        let bytes = activity.bytes_of_more_files
            + hidden.iter().map(|file| file.bytes_read + file.bytes_written).sum::<f64>();
        let _ = writeln!(
            body,
            "<p class=\"note\">These are the heaviest; {} more moved {} together.</p>",
            text::counted(n_more, "file"),
            text::bytes(bytes)
        );
    }
    if !foreign.is_empty() {
        let bytes = foreign.iter().map(|file| file.bytes_read + file.bytes_written).sum::<f64>();
        let _ = write!(
            body,
            "<details class=\"minor\"><summary>{} of libraries and of the system ({})</summary>\n{}</details>\n",
            text::counted(foreign.len() as u64, "file"),
            text::bytes(bytes),
            file_table(&foreign)
        );
    }
    let title = format!("Files ({})", text::count(activity.files.len() as u64 + activity.n_more_files));
    Some(Section { id: "files", title, body, narrow: false })
}

/// Returns the folder that all files lie in, with the slash at its end; empty if there is none, or nothing is won by naming it once.
fn common_folder<'a>(files: &[&'a File]) -> &'a str {
    let [first, rest @ ..] = files else { return "" };
    if rest.is_empty() {
        return "";
    }
    let first = first.path.as_said();
    let n_common = rest.iter().fold(first.len(), |n, file| {
        first.bytes().zip(file.path.as_said().bytes()).take(n).take_while(|(a, b)| a == b).count()
    });
    // Bytes up to and with a slash end at a character.
    let folder =
        first.as_bytes()[..n_common].iter().rposition(|byte| *byte == b'/').map_or("", |at| &first[..=at]);
    if folder.len() > 1 { folder } else { "" }
}

/// A table of files, which the script makes searchable and sortable.
fn file_table(files: &[&File]) -> String {
    let most = |value: fn(&File) -> f64| files.iter().map(|file| value(file)).fold(0.0, f64::max);
    let (most_read, most_written) = (most(|file| file.bytes_read), most(|file| file.bytes_written));
    let most_time = most(|file| file.time_s.unwrap_or(0.0));
    let folder = common_folder(files);
    let mut html = String::new();
    if !folder.is_empty() {
        let named = Untrusted::from(folder.to_owned()).shortened(200).for_html();
        let _ = writeln!(html, "<p class=\"note\">All in <code>{named}</code></p>");
    }
    html += "<div class=\"files\" tabindex=\"0\">\n<table>\n<thead><tr><th>file</th><th>read</th><th>written</th><th>time</th><th>calls</th>\
         <th>opens</th><th>ranks</th></tr></thead>\n<tbody>\n";
    for file in files {
        // The script searches in whole names, which a pointer shows, too.
        let title = match folder {
            "" => String::new(),
            _ => format!(" title=\"{}\"", file.path.shortened(200).for_html()),
        };
        let name = Untrusted::from(file.path.as_said()[folder.len()..].to_owned()).shortened(200).for_html();
        let bytes = |bytes: f64| if bytes > 0.0 { text::bytes(bytes) } else { "–".to_owned() };
        let (rank_order, ranks) = match (file.n_ranks, file.more_ranks) {
            (None, _) => (u64::MAX >> 11, "all".to_owned()),
            (Some(n), true) => (n.into(), format!("≥ {}", text::count(n.into()))),
            (Some(n), false) => (n.into(), text::count(n.into())),
        };
        let _ = writeln!(
            html,
            "<tr><td{title}>{name}</td>{}{}{}{}{}<td data-v=\"{rank_order}\">{ranks}</td></tr>",
            bar("r", file.bytes_read, most_read, &bytes(file.bytes_read)),
            bar("w", file.bytes_written, most_written, &bytes(file.bytes_written)),
            bar("m", file.time_s.unwrap_or(0.0), most_time, &file.time_s.map_or("–".into(), text::seconds)),
            bar("", file.calls as f64, 0.0, &text::count(file.calls)),
            bar("", file.opens as f64, 0.0, &text::count(file.opens)),
        );
    }
    html + "</tbody>\n</table>\n</div>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> File {
        File { path: Untrusted::from(path.to_owned()), ..File::default() }
    }

    #[test]
    fn a_folder_of_all_files_is_named_once() {
        let folder_of = |paths: &[&str]| {
            let files: Vec<File> = paths.iter().map(|path| file(path)).collect();
            common_folder(&files.iter().collect::<Vec<_>>()).to_owned()
        };
        assert_eq!(
            folder_of(&["/scratch/u/run/a", "/scratch/u/run/ab", "/scratch/u/run/in/c"]),
            "/scratch/u/run/"
        );
        assert_eq!(folder_of(&["/scratch/ö/1", "/scratch/ä/1"]), "/scratch/");
        assert_eq!(folder_of(&["/a", "/b"]), "", "the root says nothing");
        assert_eq!(folder_of(&["/scratch/u/run/a"]), "", "one file has its whole name");
        assert_eq!(folder_of(&["a", "b", "<STDOUT>"]), "");
    }

    #[test]
    fn files_of_libraries_are_folded_below_those_of_the_program() {
        let files =
            ["/data/u/out.0", "/usr/lib/libm.so.6", "/data/u/out.1", "/usr/lib/python3.11/json/__init__.py"];
        let activity =
            Activity { files: files.iter().map(|path| file(path)).collect(), ..Activity::default() };
        let body = super::files(&activity).unwrap().body;
        let (own, foreign) = body.split_once("<details").unwrap();
        assert!(
            own.contains("All in <code>/data/u/</code>")
                && own.contains("<td title=\"/data/u/out.1\">out.1</td>"),
            "{own}"
        );
        assert!(
            !own.contains("libm") && foreign.contains("2 files of libraries and of the system"),
            "{foreign}"
        );
        assert!(
            foreign.contains(">libm.so.6</td>") && foreign.contains("All in <code>/usr/lib/</code>"),
            "{foreign}"
        );
    }
}
