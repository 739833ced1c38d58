//! What each module of a Darshan log counted by itself, beside what the analysis made of all of them.

use std::fmt::Write;

use iotide_look::html::{Section, escape};
use iotide_look::{Untrusted, text};
use iotide_trace::SIZE_RANGES;
use serde::Serialize;

use crate::patterns::CommonSize;

/// A Darshan log as its modules left it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LogModules {
    /// The version of its format.
    pub version: Untrusted,
    /// The Darshan library that wrote it.
    pub library_version: Option<Untrusted>,
    /// Its modules, in Darshan's order.
    pub modules: Vec<ModuleFacts>,
}

/// What one module noted.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ModuleFacts {
    /// Its name, as Darshan has it.
    pub name: String,
    /// The version of its records.
    pub version: u32,
    /// Whether it ran out of memory, so that files or calls are missing.
    pub partial: bool,
    /// How long its part of the log is, packed.
    pub packed_bytes: Option<u64>,
    /// What its counters add up to, where it has any.
    pub counted: Option<ModuleCounts>,
}

/// What the counters of a module add up to. What it does not count is absent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ModuleCounts {
    /// Files; of H5D data sets, of PNETCDF_VAR variables.
    pub files: u64,
    /// Bytes read.
    pub bytes_read: Option<f64>,
    /// Bytes written.
    pub bytes_written: Option<f64>,
    /// Time in reads, writes and metadata, summed over ranks.
    pub times_s: Option<[f64; 3]>,
    /// The mean of the highest offsets that files were used up to.
    pub mean_extent_bytes: Option<f64>,
    /// The highest of them.
    pub largest_extent_bytes: Option<f64>,
    /// The files by what was done to them.
    pub files_by_use: Option<FilesByUse>,
    /// Calls by kind; those that were made.
    pub calls: Vec<ModuleCalls>,
    /// Reads and writes in each of Darshan's ranges of sizes.
    pub sizes: Option<[[u64; SIZE_RANGES.len()]; 2]>,
    /// The commonest sizes, the commonest first.
    pub common_sizes: Vec<CommonSize>,
}

/// Files of a module by the bytes that it saw moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FilesByUse {
    /// Only read.
    pub read_only: UsedFiles,
    /// Only written.
    pub write_only: UsedFiles,
    /// Read and written.
    pub read_write: UsedFiles,
    /// Opened or asked about, and no bytes moved.
    pub untouched: UsedFiles,
}

/// Files that were used alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct UsedFiles {
    /// How many.
    pub files: u64,
    /// The mean of the highest offsets that they were used up to, where the module notes offsets.
    pub mean_extent_bytes: Option<f64>,
    /// The highest of them.
    pub largest_extent_bytes: Option<f64>,
}

/// Calls of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ModuleCalls {
    /// What is called, in words.
    pub kind: &'static str,
    /// How often.
    pub calls: u64,
}

impl LogModules {
    pub(crate) fn section(&self) -> Option<Section> {
        if self.modules.is_empty() {
            return None;
        }
        let mut body = format!(
            "<p class=\"note\">As the modules of Darshan counted, each by itself: the same bytes pass through several. \
             {}Log format {}.</p>\n<div class=\"wide\" tabindex=\"0\">\n<table>\n<thead><tr>",
            self.library_version
                .as_ref()
                .map_or(String::new(), |version| format!("Written by Darshan {}. ", version.for_html())),
            self.version.for_html()
        );
        for name in
            ["module", "version", "in the log", "files", "read", "written", "reading", "writing", "metadata"]
        {
            let _ = write!(body, "<th scope=\"col\">{name}</th>");
        }
        body += "</tr></thead>\n<tbody>\n";
        for module in &self.modules {
            module.write_row(&mut body);
        }
        body += "</tbody>\n</table>\n</div>\n<p class=\"note\">Times are summed over ranks. H5D counts data sets and PNETCDF_VAR variables as files.</p>\n";
        self.write_files_by_use(&mut body);
        let told: Vec<String> = self.modules.iter().filter_map(ModuleFacts::calls_row).collect();
        if !told.is_empty() {
            let _ = write!(
                body,
                "<div class=\"wide words\" tabindex=\"0\">\n<table>\n<thead><tr><th scope=\"col\">module</th><th scope=\"col\">calls</th>\
                 <th scope=\"col\">sizes of reads and writes</th><th scope=\"col\">commonest sizes</th></tr></thead>\n<tbody>\n{}</tbody>\n</table>\n</div>\n",
                told.concat()
            );
        }
        Some(Section { id: "modules", title: "Darshan's modules".into(), body, narrow: false })
    }

    fn write_files_by_use(&self, html: &mut String) {
        let rows: String = self.modules.iter().filter_map(ModuleFacts::files_rows).collect();
        if rows.is_empty() {
            return;
        }
        let _ = write!(
            html,
            "<div class=\"wide\" tabindex=\"0\">\n<table>\n<thead><tr><th scope=\"col\">module</th><th scope=\"col\" class=\"name\">files</th>\
             <th scope=\"col\">number</th><th scope=\"col\">up to, on average</th><th scope=\"col\">up to, at most</th></tr></thead>\n\
             {rows}</table>\n</div>\n<p class=\"note\">Up to: the highest offset in a file that was read or written, where a module notes it.</p>\n"
        );
    }
}

impl ModuleFacts {
    fn write_row(&self, html: &mut String) {
        let none = ModuleCounts::default();
        let counted = self.counted.as_ref().unwrap_or(&none);
        let bytes = |n: Option<f64>| n.map_or("–".to_owned(), text::bytes);
        let time =
            |which: usize| counted.times_s.map_or("–".to_owned(), |times| text::seconds(times[which]));
        let files = self.counted.as_ref().map_or("–".to_owned(), |counted| text::count(counted.files));
        let partial = if self.partial { ", not whole" } else { "" };
        let cells = [
            format!("{}{partial}", self.version),
            bytes(self.packed_bytes.map(|n| n as f64)),
            files,
            bytes(counted.bytes_read),
            bytes(counted.bytes_written),
            time(0),
            time(1),
            time(2),
        ];
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(&text::printable(&self.name)));
        for cell in cells {
            let _ = write!(html, "<td>{}</td>", escape(&cell.replace(' ', "\u{a0}")));
        }
        html.push_str("</tr>\n");
    }

    /// All its files and those that were used alike, as a group of rows of their own.
    fn files_rows(&self) -> Option<String> {
        let counted = self.counted.as_ref().filter(|counted| counted.files > 0)?;
        let all = UsedFiles {
            files: counted.files,
            mean_extent_bytes: counted.mean_extent_bytes,
            largest_extent_bytes: counted.largest_extent_bytes,
        };
        let by_use = counted.files_by_use?;
        let kinds = [
            ("all", all),
            ("read-only", by_use.read_only),
            ("write-only", by_use.write_only),
            ("read and written", by_use.read_write),
            ("no bytes moved", by_use.untouched),
        ];
        let used: Vec<(&str, UsedFiles)> = kinds.into_iter().filter(|(_, of)| of.files > 0).collect();
        let name = format!(
            "<th scope=\"rowgroup\" rowspan=\"{}\">{}</th>",
            used.len(),
            escape(&text::printable(&self.name))
        );
        let mut html = String::from("<tbody>\n");
        for (i, (kind, of)) in used.into_iter().enumerate() {
            let bytes = |n: Option<f64>| n.map_or("–".to_owned(), text::bytes).replace(' ', "\u{a0}");
            let _ = writeln!(
                html,
                "<tr>{}<th scope=\"row\">{kind}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
                if i == 0 { &name } else { "" },
                text::count(of.files),
                bytes(of.mean_extent_bytes),
                bytes(of.largest_extent_bytes)
            );
        }
        Some(html + "</tbody>\n")
    }

    fn calls_row(&self) -> Option<String> {
        let counted = self.counted.as_ref()?;
        let calls: Vec<String> = (counted.calls.iter())
            .map(|ModuleCalls { kind, calls }| {
                let one = kind.strip_suffix("shes").map(|stem| format!("{stem}sh"));
                let one = one.or_else(|| Some(kind.strip_suffix('s')?.to_owned()));
                let kind = one.filter(|_| *calls == 1).unwrap_or_else(|| (*kind).to_owned());
                format!("{}\u{a0}{kind}", text::count(*calls))
            })
            .collect();
        let [reads, writes] = counted.sizes.unwrap_or_default();
        let sizes: Vec<String> = (0..SIZE_RANGES.len())
            .filter(|&i| reads[i] > 0 || writes[i] > 0)
            .map(|i| {
                let range =
                    crate::activity_page::range_in_words(SIZE_RANGES[i], SIZE_RANGES.get(i + 1).copied());
                format!("{range}: {} and {}", text::count(reads[i]), text::count(writes[i]))
            })
            .collect();
        let common: Vec<String> = (counted.common_sizes.iter())
            .map(|size| {
                format!("{}\u{a0}bytes ({})", text::count(size.bytes), text::counted(size.calls, "call"))
            })
            .collect();
        if calls.is_empty() && sizes.is_empty() {
            return None;
        }
        let cells = [calls.join(", "), sizes.join("; "), common.join(", ")];
        let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        Some(format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escape(&text::printable(&self.name))))
    }
}
