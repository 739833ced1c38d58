//! Units, rounding and tables for people: 1.3 GB/s, 12.5 s, 93 %.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether volumes are written in powers of 1024: a choice of the reader, made once and before anything is written.
static HAS_BINARY_UNITS: AtomicBool = AtomicBool::new(false);

/// Makes volumes and bandwidths of this program be said in powers of 1024 (`1 MiB`) from now on.
pub fn use_binary_units() {
    HAS_BINARY_UNITS.store(true, Relaxed);
}

/// Returns whether volumes are said in powers of 1024.
pub fn has_binary_units() -> bool {
    HAS_BINARY_UNITS.load(Relaxed)
}

/// Returns a duration: three to four digits, in the unit a person would say.
///
/// Up to a quarter of an hour in seconds, because periods are compared with sampling rates and time steps; beyond
/// that as `1 h 02 min`.
pub fn seconds(s: f64) -> String {
    let size = s.abs();
    if !s.is_finite() {
        "?".to_owned()
    } else if size == 0.0 {
        "0 s".to_owned()
    } else if size < 0.9995e-6 {
        format!("{} ns", digits(s * 1e9, 3))
    } else if size < 0.9995e-3 {
        format!("{} µs", digits(s * 1e6, 3))
    } else if size < 0.9995 {
        // Not 1: what rounds to 1000 ms is a second.
        format!("{} ms", digits(s * 1e3, 3))
    } else if size < 1000.0 {
        format!("{} s", digits(s, if size < 100.0 { 3 } else { 4 }))
    } else {
        clock(s)
    }
}

/// Returns a moment on a trace's clock: always in seconds, as logs have them, to a tenth of a promille of itself.
pub fn moment(s: f64) -> String {
    match s.abs() {
        _ if !s.is_finite() => "?".to_owned(),
        size if size < 0.0005 => "0 s".to_owned(),
        size if size < 1000.0 => format!("{} s", digits(s, if size < 1.0 { 3 } else { 4 })),
        _ => format!("{} s", digits((s * 10.0).round() / 10.0, 15)),
    }
}

/// Long times: `16 min 40 s`, `1 h 02 min`, `3 d 4 h`.
fn clock(s: f64) -> String {
    let (sign, total) = (if s < 0.0 { "-" } else { "" }, s.abs().round() as u64);
    let (days, hours, minutes, secs) = (total / 86_400, total / 3600 % 24, total / 60 % 60, total % 60);
    if days > 0 {
        format!("{sign}{days} d {hours} h")
    } else if hours > 0 {
        format!("{sign}{hours} h {minutes:02} min")
    } else {
        format!("{sign}{minutes} min {secs:02} s")
    }
}

/// Returns a moment of the calendar: `2020-09-13 12:26:40 UTC`.
pub fn date(unix_s: f64) -> String {
    // Years 1 to 9999; anything else is damage.
    if !(-62_135_596_800.0..253_402_300_800.0).contains(&unix_s) {
        return "?".to_owned();
    }
    let secs = unix_s.floor() as i64;
    let (days, of_day) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    // Years that begin in March have their leap day at the end; an era is 400 of them.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months = (5 * of_year + 2) / 153;
    let day = of_year - (153 * months + 2) / 5 + 1;
    let month = if months < 10 { months + 3 } else { months - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Returns the text with numbers that no line of a page parts from their unit.
pub fn whole_numbers(text: &str) -> String {
    const UNITS: [&str; 8] = ["%", "s", "ms", "µs", "ns", "min", "h", "d"];
    const VOLUMES: [&str; 15] =
        ["B", "kB", "MB", "GB", "TB", "PB", "EB", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "Hz", "kHz"];
    let mut whole = String::with_capacity(text.len() + 16);
    for word in text.split_inclusive(' ') {
        let unit = word.trim_end_matches([' ', ')', ',', '.', ';', ':']);
        let unit = unit.strip_suffix("/s").unwrap_or(unit);
        let before = whole.strip_suffix(' ').unwrap_or_default();
        let has_number = before.ends_with(|c: char| c.is_ascii_digit());
        let is_bound = before.ends_with(['<', '>']) && word.starts_with(|c: char| c.is_ascii_digit());
        if has_number && (UNITS.contains(&unit) || VOLUMES.contains(&unit)) || is_bound {
            whole.pop();
            whole.push('\u{a0}');
        }
        whole.push_str(word);
    }
    whole
}

/// Returns a volume: `5.6 GB`, or `5.22 GiB` in binary units.
pub fn bytes(n: f64) -> String {
    bytes_in(n, has_binary_units())
}

/// Returns a bandwidth: `1.3 GB/s`.
pub fn bandwidth(bps: f64) -> String {
    let volume = bytes(bps);
    if bps.is_finite() { volume + "/s" } else { volume }
}

fn bytes_in(n: f64, is_binary: bool) -> String {
    if is_binary {
        scaled(n, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
    } else {
        scaled(n, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
    }
}

/// Returns a frequency: `46.7 mHz`.
pub fn frequency(hz: f64) -> String {
    match hz.abs() {
        0.0 => "0 Hz".to_owned(),
        size if size < 1e-3 => format!("{} µHz", digits(hz * 1e6, 3)),
        size if size < 1.0 => format!("{} mHz", digits(hz * 1e3, 3)),
        size if size < 1e3 => format!("{} Hz", digits(hz, 3)),
        _ => format!("{} kHz", digits(hz / 1e3, 3)),
    }
}

/// Returns a ratio of [0, 1] as `93 %`; what is not all is not called 100 %, what is not nothing not 0 %.
pub fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    match percent {
        p if !p.is_finite() => "?".to_owned(),
        p if p > 0.0 && p < 1.0 => "< 1 %".to_owned(),
        p if p > 99.0 && p < 100.0 => "> 99 %".to_owned(),
        p => format!("{p:.0} %"),
    }
}

/// Returns a count with thin groups: `12 800`.
pub fn count(n: u64) -> String {
    let plain = n.to_string();
    let mut grouped = String::with_capacity(plain.len() + plain.len() / 3);
    for (i, digit) in plain.chars().enumerate() {
        if i > 0 && plain.len() > 4 && (plain.len() - i).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns `1 phase`, `20 phases`, `3 processes`.
pub fn counted(n: u64, noun: &str) -> String {
    let plural = if noun.ends_with('s') { "es" } else { "s" };
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { plural })
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    if !value.is_finite() {
        return "?".to_owned();
    }
    let mut value = value;
    let mut unit = 0;
    // 999.6 kB would be printed as 1000 kB: it is 1 MB.
    while value.abs() >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let text = if unit == 0 { format!("{value:.0}") } else { digits(value, 3) };
    format!("{text} {}", units[unit])
}

/// Returns `value` with `n` significant digits, without an exponent and without trailing zeros behind the point.
pub fn digits(value: f64, n: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { "?".to_owned() };
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (n as i32 - 1 - magnitude).clamp(0, 17) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Returns bars `▁▂▃▄▅▆▇█`, one per value, the highest as `█` and nothing at all as a blank.
pub fn bars(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = values.iter().copied().fold(0.0, f64::max);
    values
        .iter()
        .map(|&value| match value / highest {
            share if share > 0.0 => BARS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1],
            _ => ' ',
        })
        .collect()
}

/// Rows of a name and what there is to say, aligned and wrapped to `width`.
#[derive(Debug, Default)]
pub struct Rows {
    rows: Vec<(String, String)>,
}

impl Rows {
    /// Adds a row.
    pub fn row(&mut self, name: &str, text: impl Into<String>) {
        self.rows.push((name.to_owned(), text.into()));
    }

    /// The rows as they are, for a page.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rows.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// Returns the rows as lines, names as `name_style` makes them.
    pub fn render(&self, width: usize, name_style: impl Fn(&str) -> String) -> String {
        let name_width = self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let indent = 2 + name_width + 2;
        let mut out = String::new();
        for (name, text) in &self.rows {
            let padding = " ".repeat(name_width - name.chars().count());
            out.push_str(&format!("  {}{padding}  ", name_style(name)));
            for (i, line) in wrap(text, width.saturating_sub(indent).max(20)).iter().enumerate() {
                if i > 0 {
                    out.push_str(&" ".repeat(indent));
                }
                out.push_str(line);
                out.push('\n');
            }
        }
        out
    }
}

/// Breaks a text at blanks so that no line is longer than `width`, unless one word is.
///
/// A number stays with what follows it: `198 MB` is one word. Lines the text already has are kept.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let is_number = |word: &str| word.ends_with(|c: char| c.is_ascii_digit() || c == '<' || c == '>');
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        let mut words: Vec<String> = Vec::new();
        for word in paragraph.split(' ') {
            match words.last_mut() {
                Some(last) if is_number(last) => {
                    last.push(' ');
                    last.push_str(word);
                }
                _ => words.push(word.to_owned()),
            }
        }
        let mut line = String::new();
        for word in words {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word);
        }
        lines.push(line);
    }
    lines
}

/// Returns text fit for one line of a terminal: what would move the cursor, change colours or turn the direction of writing is shown
/// as `\u{1b}`.
pub fn printable(text: &str) -> String {
    // Almost every text is: it is also asked of each of a million lines.
    if !text.contains(steers) {
        return text.to_owned();
    }
    text.chars().flat_map(|c| if steers(c) { c.escape_default().collect() } else { vec![c] }).collect()
}

/// The same of several lines, which stay apart.
pub fn printable_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

pub use iotide_wire::steers;

/// Returns a value as JSON in one line, in which no character steers what shows it.
pub fn json(value: &(impl serde::Serialize + ?Sized)) -> String {
    shown_json(serde_json::to_string(value).expect("a document is made of names and numbers"))
}

/// The same over several lines, with a final newline.
pub fn json_document(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_string_pretty(value).expect("a document is made of names and numbers");
    shown_json(json) + "\n"
}

/// Returns JSON in which no character steers what shows it; it means the same.
fn shown_json(json: String) -> String {
    // Line ends and blanks of the JSON itself stay.
    let must_escape = |c: char| c != '\n' && steers(c);
    if !json.contains(must_escape) {
        return json;
    }
    let mut shown = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        match must_escape(c) {
            // All of them lie in the first plane.
            true => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => shown.push(c),
        }
    }
    shown
}

/// A number under the name it has in JSON, for people: `busy_share` 0.25 is "busy share: 25 %".
pub fn named_number(name: &str, value: f64) -> String {
    let is_seconds = name.contains("_s_") || (name.ends_with("_s") && !name.ends_with("per_s"));
    let shown = match name {
        name if name.ends_with("share") || name.ends_with("distance") || name.ends_with("quarter") => {
            percent(value)
        }
        // Those are ranks, whatever they have.
        name if name.contains("bytes") && !name.contains("_with_") => bytes(value),
        _ if is_seconds => seconds(value),
        _ if value.fract() == 0.0 && (0.0..9e15).contains(&value) => count(value as u64),
        _ => format!("{value:.1}"),
    };
    let name = name.replace("_s_per_", " per ");
    let name = if is_seconds { name.trim_end_matches("_s") } else { &name };
    format!("{}: {shown}", name.replace('_', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_steer_a_terminal_is_shown_as_its_number() {
        assert_eq!(
            printable("a\u{1b}[31mb\u{9b}c\u{202e}gpj.exe\u{2069}"),
            "a\\u{1b}[31mb\\u{9b}c\\u{202e}gpj.exe\\u{2069}"
        );
        assert_eq!(printable_lines("one\ntwo\u{85}"), "one\ntwo\\u{85}");
        assert_eq!(printable("/häßlich/文件"), "/häßlich/文件");
        let json = serde_json::to_string("x\u{202e}\u{9b}\n").unwrap();
        let shown = shown_json(json);
        assert_eq!(shown, "\"x\\u202e\\u009b\\n\"");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), "x\u{202e}\u{9b}\n");
    }

    #[test]
    fn a_number_has_the_unit_of_its_name() {
        assert_eq!(named_number("bytes_read", 2e9), "bytes read: 2 GB");
        assert_eq!(named_number("ranks_with_bytes", 512.0), "ranks with bytes: 512");
        assert_eq!(named_number("busy_share", 0.25), "busy share: 25 %");
    }

    #[test]
    fn no_line_ends_between_a_number_and_its_unit() {
        assert_eq!(
            whole_numbers("4 calls, share: 80 % (1.2 GB/s), 48 min 06 s in all, 3 s"),
            "4 calls, share: 80\u{a0}% (1.2\u{a0}GB/s), 48\u{a0}min 06\u{a0}s in all, 3\u{a0}s"
        );
        assert_eq!(whole_numbers("a % of b (< 1 %)"), "a % of b (<\u{a0}1\u{a0}%)");
    }

    #[test]
    fn what_rounds_to_the_next_unit_is_said_in_it() {
        assert_eq!([0.99996, 0.9994, 0.9996e-3, 0.9996e-6].map(seconds), ["1 s", "999 ms", "1 ms", "1 µs"]);
    }

    #[test]
    fn numbers_look_as_people_say_them() {
        let said = |f: fn(f64) -> String, values: &[f64]| {
            values.iter().map(|&value| f(value)).collect::<Vec<_>>().join(", ")
        };
        insta::assert_snapshot!(
            said(seconds, &[0.0, 2.5e-8, 0.0125, 1.0, 12.5, 21.4286, 449.6, 1000.0, 3720.0, 2e5, -5.25, 1.7e9, f64::NAN]),
            @"0 s, 25 ns, 12.5 ms, 1 s, 12.5 s, 21.4 s, 449.6 s, 16 min 40 s, 1 h 02 min, 2 d 7 h, -5.25 s, 19675 d 22 h, ?"
        );
        insta::assert_snapshot!(said(moment, &[0.0, 0.0471, 21.4286, 449.61, 4096.25, 1.7e9 + 0.3]), @"0 s, 0.0471 s, 21.43 s, 449.6 s, 4096.3 s, 1700000000.3 s");
        let binary = |n| bytes_in(n, true);
        insta::assert_snapshot!(said(binary, &[1023.0, 1024.0, 1_048_300.0, 4e6, 5e9]), @"1023 B, 1 KiB, 1 MiB, 3.81 MiB, 4.66 GiB");
        insta::assert_snapshot!(said(bytes, &[0.0, 17.0, 999.6, 5.6e9, 112e9, 9.99e20, f64::INFINITY]), @"0 B, 17 B, 1 kB, 5.6 GB, 112 GB, 999 EB, ?");
        insta::assert_snapshot!(said(bandwidth, &[1.3e9, 999_999.0, 0.4]), @"1.3 GB/s, 1 MB/s, 0 B/s");
        insta::assert_snapshot!(said(frequency, &[0.0, 0.0467, 1e-5, 10.0, 2e4]), @"0 Hz, 46.7 mHz, 10 µHz, 10 Hz, 20 kHz");
        insta::assert_snapshot!(said(percent, &[0.0, 0.001, 0.93, 0.999, 1.0]), @"0 %, < 1 %, 93 %, > 99 %, 100 %");
        assert_eq!(count(12_800), "12\u{202f}800");
        assert_eq!(counted(1, "phase"), "1 phase");
    }

    #[test]
    fn a_date_is_that_of_the_calendar() {
        insta::assert_snapshot!(
            [0.0, 951_782_399.9, 951_782_400.0, 1_600_000_000.25, 4_107_542_400.0, -1.0, 1e12, f64::NAN].map(date).join(", "),
            @"1970-01-01 00:00:00 UTC, 2000-02-28 23:59:59 UTC, 2000-02-29 00:00:00 UTC, 2020-09-13 12:26:40 UTC, 2100-03-01 00:00:00 UTC, 1969-12-31 23:59:59 UTC, ?, ?"
        );
    }

    #[test]
    fn bars_reach_from_nothing_to_the_highest() {
        assert_eq!(bars(&[0.0, 1.0, 4.0, 8.0, 0.001]), " ▁▄█▁");
        assert_eq!(bars(&[0.0, 0.0]), "  ");
        assert_eq!(bars(&[]), "");
    }

    #[test]
    fn a_row_that_is_too_long_goes_on_below_itself() {
        let mut rows = Rows::default();
        rows.row("volume", "one two three four five six seven eight nine ten");
        rows.row("x", "short");
        insta::assert_snapshot!(rows.render(34, str::to_owned), @r#"
        volume  one two three four five
                six seven eight nine ten
        x       short
        "#);
    }

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(wrap("8 phases of about 198 MB written", 21), ["8 phases of about", "198 MB written"]);
        assert_eq!(wrap("varies by < 1 %, or not", 12), ["varies by", "< 1 %, or", "not"]);
        assert_eq!(wrap("", 10), [""]);
    }

    #[test]
    fn a_file_name_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[31m\n.csv"), "a\\u{1b}[31m\\n.csv");
    }
}
