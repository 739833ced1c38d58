//! Counts of each module of a Darshan log, as part of a run's page.

use std::fmt::Write;

use iotide_look::html::{Section, escape};
use iotide_look::text;
use iotide_report::{LogModules, ModuleCalls, ModuleCounts, ModuleFacts, UsedFiles};
use iotide_trace::SIZE_RANGES;

use super::activity::range_in_words;

pub(super) fn section(modules: &LogModules) -> Option<Section> {
    if modules.modules.is_empty() {
        return None;
    }
    let mut body = format!(
        "<p class=\"note\">As the modules of Darshan counted, each by itself: the same bytes pass through several. \
         {}Log format {}.</p>\n<div class=\"wide\" tabindex=\"0\">\n<table>\n<thead><tr>",
        modules
            .library_version
            .as_ref()
            .map_or(String::new(), |version| format!("Written by Darshan {}. ", version.for_html())),
        modules.version.for_html()
    );
    for name in
        ["module", "version", "in the log", "files", "read", "written", "reading", "writing", "metadata"]
    {
        let _ = write!(body, "<th scope=\"col\">{name}</th>");
    }
    body += "</tr></thead>\n<tbody>\n";
    for module in &modules.modules {
        write_row(module, &mut body);
    }
    body += "</tbody>\n</table>\n</div>\n<p class=\"note\">Times are summed over ranks. H5D counts data sets and PNETCDF_VAR variables as files.</p>\n";
    write_files_by_use(modules, &mut body);
    let told: Vec<String> = modules.modules.iter().filter_map(calls_row).collect();
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

fn write_files_by_use(modules: &LogModules, html: &mut String) {
    let rows: String = modules.modules.iter().filter_map(files_rows).collect();
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

fn write_row(module: &ModuleFacts, html: &mut String) {
    let none = ModuleCounts::default();
    let counted = module.counted.as_ref().unwrap_or(&none);
    let bytes = |n: Option<f64>| n.map_or("–".to_owned(), text::bytes);
    let time = |which: usize| counted.times_s.map_or("–".to_owned(), |times| text::seconds(times[which]));
    let files = module.counted.as_ref().map_or("–".to_owned(), |counted| text::count(counted.files));
    let partial = if module.partial { ", not whole" } else { "" };
    let cells = [
        format!("{}{partial}", module.version),
        bytes(module.packed_bytes.map(|n| n as f64)),
        files,
        bytes(counted.bytes_read),
        bytes(counted.bytes_written),
        time(0),
        time(1),
        time(2),
    ];
    let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(&text::printable(&module.name)));
    for cell in cells {
        let _ = write!(html, "<td>{}</td>", escape(&cell.replace(' ', "\u{a0}")));
    }
    html.push_str("</tr>\n");
}

/// All its files and those that were used alike, as a group of rows of their own.
fn files_rows(module: &ModuleFacts) -> Option<String> {
    let counted = module.counted.as_ref().filter(|counted| counted.files > 0)?;
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
        escape(&text::printable(&module.name))
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

fn calls_row(module: &ModuleFacts) -> Option<String> {
    let counted = module.counted.as_ref()?;
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
            let range = range_in_words(SIZE_RANGES[i], SIZE_RANGES.get(i + 1).copied());
            format!("{range}: {} and {}", text::count(reads[i]), text::count(writes[i]))
        })
        .collect();
    let common: Vec<String> = (counted.common_sizes.iter())
        .map(|size| format!("{}\u{a0}bytes ({})", text::count(size.bytes), text::counted(size.calls, "call")))
        .collect();
    if calls.is_empty() && sizes.is_empty() {
        return None;
    }
    let cells = [calls.join(", "), sizes.join("; "), common.join(", ")];
    let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
    Some(format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escape(&text::printable(&module.name))))
}
